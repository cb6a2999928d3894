# SPDX-License-Identifier: Apache-2.0
"""Where shards begin that have no row yet: KV-4, K-37, and instants that lie ahead."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardbatch.core import lease as leases
from shardbatch.core.beginnings import Beginning, beginning, beginnings
from shardbatch.core.lease import Lease
from shardbatch.core.position import LATEST, SHARD_END, TRIM_HORIZON, Position, after, at_timestamp
from shardbatch.core.rows import Namespace
from shardbatch.core.shard import Shard
from shardbatch.core.slice import Slice

START = at_timestamp(9)
SOON, LATER = at_timestamp(1000), at_timestamp(2000)


def row(shard_id: str, place: Position = TRIM_HORIZON) -> Lease:
    fresh = leases.add(Namespace("etl", "orders"), "", Shard(shard_id), TRIM_HORIZON, 7, 0)
    return replace(fresh, checkpoint=place, begins=place)


def begins(parents: tuple[str, ...], rows: dict[str, Lease], older: dict[str, Beginning] | None = None) -> Beginning:
    return beginning(Shard("x", parents), rows, older or {}, START, 99)


def test_a_child_of_a_known_parent_begins_at_its_oldest_record_and_any_other_at_the_start() -> None:
    known = {"p": row("p")}  # KV-4, K-37: never LATEST, nor what it became
    assert begins(("p",), known).place == begins(("gone", "p"), known).place == TRIM_HORIZON
    assert begins(("gone",), known).place == begins((), known).place == START


def test_a_child_of_a_shard_that_waits_for_an_instant_begins_at_it() -> None:
    known = {"p": row("p", SOON), "q": row("q", LATER), "r": row("r")}
    older = {"c": Beginning(LATER)}
    for parents, expected in (
        (("p",), SOON), (("q", "p"), SOON), (("q", "gone"), LATER), (("r", "q"), TRIM_HORIZON), (("c",), LATER),
    ):  # fmt: skip
        assert begins(parents, known, older).place == expected
    seen = replace(known["p"], millis_behind_latest=0, caught_up_ms=50)  # it was open then, and nothing of it unread
    found = replace(known["p"], pending=Slice("p", SOON, after("7"), ended=False, last="7"))
    for parent in (seen, found):
        assert begins(("p",), {"p": parent}).place == TRIM_HORIZON


def test_a_child_of_a_shard_that_is_searched_for_an_instant_begins_at_it() -> None:  # F8
    parent = replace(row("p", SOON), checkpoint=after("7", 0, 1000), caught_up_ms=None)
    assert begins(("p",), {"p": parent}) == Beginning(SOON)
    landed = replace(parent, pending=Slice("p", parent.checkpoint, after("9", 0, 1000), ended=False))
    ended = replace(parent, pending=Slice("p", parent.checkpoint, SHARD_END, ended=True))
    assert begins(("p",), {"p": landed}) == begins(("p",), {"p": ended}) == Beginning(SOON)
    found = replace(parent, pending=Slice("p", parent.checkpoint, after("9"), ended=False, last="9"))
    assert begins(("p",), {"p": found}).place == TRIM_HORIZON
    moved = replace(parent, begins=TRIM_HORIZON, note="ann reset to it")
    assert begins(("p",), {"p": moved}).skipped


def test_a_child_passes_over_what_a_reset_had_its_parents_pass_over() -> None:
    first = row("p", SOON)
    moved = replace(first, begins=TRIM_HORIZON, note="ann reset to it")
    assert begins(("p", "gone"), {"p": first}).skipped == ()
    assert begins(("p", "r"), {"p": moved, "r": row("r")}) == Beginning(TRIM_HORIZON)
    found = begins(("p", "gone"), {"p": moved})
    (gap,) = found.skipped
    assert (gap.after, gap.until, gap.to_ms, gap.accepted) == (TRIM_HORIZON, SOON, 1000, "ann reset to it")
    assert begins(("p",), {"p": replace(first, skipped=(gap,))}).skipped  # the row of another such child
    assert begins(("c",), {}, {"c": found}).skipped == (gap,)


@pytest.mark.parametrize("start", [START, LATEST, TRIM_HORIZON])
def test_what_one_listing_shows_begins_at_the_start_however_often_its_lineage_joins(start: Position) -> None:
    listing, newest = [Shard("0")], "0"
    for turn in range(200):  # a walk through all ways up would never end
        left, right, merged = f"{turn}l", f"{turn}r", f"{turn}m"
        listing += [Shard(left, (newest,)), Shard(right, (newest,)), Shard(merged, (left, right))]
        newest = merged
    found = beginnings(listing[::-1], {}, start, 99)
    assert found == {shard.shard_id: Beginning(start) for shard in listing}


def test_shards_with_a_row_are_left_out() -> None:
    listing = [Shard("p"), Shard("c", ("p",)), Shard("d", ("c",))]
    found = beginnings(listing, {"p": row("p")}, START, 99)
    assert found == {"c": Beginning(TRIM_HORIZON), "d": Beginning(TRIM_HORIZON)}
