# SPDX-License-Identifier: Apache-2.0
"""Up to when all is committed (PROTOCOL C), by rows that are written down here. The breaker judges schedules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shardbatch.core import lease as leases
from shardbatch.core.application import Application
from shardbatch.core.interval import MARGIN_MS
from shardbatch.core.lease import Lease
from shardbatch.core.owner import ResetHolder
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, Position, after, at_timestamp
from shardbatch.core.rows import Namespace
from shardbatch.core.shard import KeyRange, Shard
from shardbatch.core.slice import Slice
from shardbatch.core.watermark import Watermark, lesser, listed_whole, over, watermark

NAMESPACE = Namespace("etl", "orders")
T0 = 1_800_000_000_000
SPACE = KeyRange(0, 99)


def row(shard_id: str, keys: str | None, seen_ms: int | None = None, **fields: Any) -> Lease:
    """A lease of a range of keys, of which so much was seen at its checkpoint."""
    checkpoint: Position = fields.pop("checkpoint", SHARD_END if fields.get("completed") else after("9"))
    return Lease(
        namespace=NAMESPACE,
        scope="",
        shard_id=shard_id,
        lease_owner=fields.pop("lease_owner", None),
        lease_count=1,
        checkpoint=checkpoint,
        hash_range=KeyRange.parse(keys) if keys else None,
        committed_to=None if seen_ms is None else f"{seen_ms}@{checkpoint}",
        **fields,
    )


def ranged(**fields: Any) -> Application:
    return Application(NAMESPACE, "arn@1", fields.pop("start", TRIM_HORIZON), 1, key_space=SPACE, **fields)


def rangeless(whole_ms: int | None) -> Application:
    return Application(NAMESPACE, "arn@1", TRIM_HORIZON, 1, listed_whole_ms=whole_ms)


def names(found: Watermark) -> list[str]:
    return [hold.name for hold in found.holds]


def test_the_shard_furthest_behind_holds_it_back_and_is_named() -> None:
    found = watermark(ranged(), [row("a", "0-49", T0), row("b", "50-99", T0 - 7)])
    assert found.ms == T0 - 7 - MARGIN_MS
    assert names(found) == ["b"]


def test_what_is_pending_in_whatever_state_counts_for_nothing() -> None:
    landed = Slice(
        "a", after("9"), after("12"), ended=False, records=3, last="12", last_arrival_ms=T0 + 99, tip_ms=T0 + 99
    )
    for fields in ({"pending": landed}, {"pending": landed, "batch_id": "b-1", "lease_owner": "x"}):
        assert watermark(ranged(), [row("a", "0-99", T0, **fields)]).ms == T0 - MARGIN_MS


def test_a_row_of_which_nothing_was_seen_makes_it_unknown() -> None:
    found = watermark(ranged(), [row("a", "0-49", T0), row("b", "50-99", checkpoint=TRIM_HORIZON)])
    assert (found.ms, names(found)) == (None, ["b"])


def test_a_row_that_begins_at_an_instant_is_known_from_there_on() -> None:
    fresh = row("b", "50-99", checkpoint=at_timestamp(T0 - 5))
    assert watermark(ranged(), [row("a", "0-49", T0), fresh]).ms == T0 - 5 - MARGIN_MS
    searching = row("b", "50-99", checkpoint=after("7", 0, T0 - 6))
    assert watermark(ranged(), [row("a", "0-49", T0), searching]).ms == T0 - 6 - MARGIN_MS


def test_a_child_is_as_far_as_its_parents_were_seen_and_never_where_they_were_to_begin() -> None:
    parent = row("p", "0-99", T0, completed=True)
    child = row("c", "0-99", checkpoint=TRIM_HORIZON, parent_shard_ids=("p",))
    assert watermark(ranged(), [parent, child]).ms == T0 - MARGIN_MS
    waiting = row("p", "0-99", checkpoint=at_timestamp(T0))
    assert watermark(ranged(), [waiting, child]).ms is None


def test_of_two_parents_the_later_look_counts_through_generations_without_one() -> None:
    rows = [
        row("p", "0-49", T0, completed=True),
        row("q", "50-99", T0 + 5, completed=True),
        row("m", "0-99", completed=True, parent_shard_ids=("p", "q")),
        row("c", "0-99", checkpoint=TRIM_HORIZON, parent_shard_ids=("m",)),
    ]
    assert watermark(ranged(), rows).ms == T0 + 5 - MARGIN_MS


def test_keys_that_no_open_row_has_are_capped_by_the_youngest_completed_shard_there() -> None:
    rows = [
        row("old", "0-99", T0 - 100, completed=True),
        row("p", "0-49", T0 - 50, completed=True, parent_shard_ids=("old",)),
        row("q", "50-99", T0, parent_shard_ids=("old",)),
    ]
    found = watermark(ranged(), rows)
    assert found.ms == T0 - 50 - MARGIN_MS
    assert names(found) == ["what follows p"]


def test_keys_that_no_row_has_are_known_from_the_applications_start_on() -> None:
    rows = [row("a", "0-49", T0)]
    assert watermark(ranged(), rows).ms is None
    found = watermark(ranged(start=at_timestamp(T0 - 9)), rows)
    assert (found.ms, found.complete_from_ms) == (T0 - 9 - MARGIN_MS, T0 - 9)
    assert names(found) == ["the keys 50-99"]


def test_what_a_reset_holds_and_an_unfinished_import_make_it_unknown() -> None:
    held = row("a", "0-99", T0, lease_owner=str(ResetHolder("r1")))
    assert watermark(ranged(), [held]).ms is None
    assert watermark(ranged(importing="by ann"), [row("a", "0-99", T0)]).ms is None
    assert watermark(ranged(removed="by ann"), [row("a", "0-99", T0)]).ms is None
    assert watermark(ranged(), []).ms is None


def test_a_completed_lease_that_a_reset_holds_makes_it_unknown_too() -> None:
    held = row("old", "0-99", T0 - 9, completed=True, lease_owner=str(ResetHolder("r1")))
    assert watermark(ranged(), [held, row("a", "0-99", T0)]).ms is None
    held = row("old", None, T0 - 9, completed=True, lease_owner=str(ResetHolder("r1")))
    found = watermark(
        replace(rangeless(T0), listed_over=("old",)), [held, row("a", None, T0, parent_shard_ids=("old",))]
    )
    assert (found.ms, names(found)) == (None, ["old"])


def test_rows_of_intervals_do_not_count() -> None:
    beside = replace(row("b", "0-99", T0 - 500), scope="run-1")
    assert watermark(ranged(), [row("a", "0-99", T0), beside]).ms == T0 - MARGIN_MS


def test_without_ranges_the_last_whole_listing_counts() -> None:
    rows = [row("a", None, T0)]
    assert watermark(rangeless(None), rows).ms is None
    assert watermark(rangeless(T0 - 3), rows).ms == T0 - 3 - MARGIN_MS
    assert watermark(rangeless(T0 + 3), rows).ms == T0 - MARGIN_MS


def test_without_rows_nothing_is_known_whatever_was_listed_before_a_restart_removed_them() -> None:
    for application in (rangeless(T0), ranged(start=at_timestamp(T0))):
        assert watermark(application, []).ms is None


@pytest.mark.parametrize("completed_ms", [T0 + 3_600_000, T0 - 3_600_000])
def test_a_shard_that_was_completed_since_may_have_had_a_late_child_whatever_its_workers_clock_says(
    completed_ms: int,
) -> None:
    done = row("p", None, T0 - 70, completed=True, updated_at_ms=completed_ms)
    rows = [row("a", None, T0), done]
    assert watermark(rangeless(T0), rows).ms == T0 - 70 - MARGIN_MS
    assert watermark(replace(rangeless(T0), listed_over=("p",)), rows).ms == T0 - MARGIN_MS


def test_a_shard_is_over_if_it_is_completed_and_no_child_has_a_row() -> None:
    rows = [row("b", None, completed=True), row("c", None, parent_shard_ids=("b",)), row("a", None, completed=True)]
    assert over(rows) == ("a",)


@pytest.mark.parametrize(
    ("listing", "rows", "whole"),
    [
        ([Shard("a")], [row("a", None)], True),
        ([Shard("a"), Shard("b")], [row("a", None)], False),
        ([Shard("a", closed=True)], [row("a", None)], False),
        ([Shard("a")], [row("a", None, completed=True)], False),
        ([Shard("a", closed=True), Shard("b", ("a",))], [row("a", None, completed=True), row("b", None)], True),
        ([Shard("a", closed=True, leaf=True)], [row("a", None, completed=True)], True),
        ([Shard("a", closed=True, leaf=True)], [], False),
    ],
    ids=[
        "all have rows",
        "one has none",
        "closed, its child is late",
        "read to its end, listed open",
        "with its child",
        "a leaf of a stream that takes no more records",
        "a leaf without a row",
    ],
)
def test_a_listing_is_whole(listing: list[Shard], rows: list[Lease], whole: bool) -> None:
    assert listed_whole(listing, rows, lineage=True) is whole


def test_a_source_without_lineage_has_no_children_to_wait_for() -> None:
    assert listed_whole([Shard("a", closed=True)], [row("a", None, completed=True)], lineage=False)


def test_the_lesser_of_two_looks_counts_and_none_across_a_reset() -> None:
    one, two = Watermark(5, resets=1), Watermark(4, resets=1)
    assert lesser(one, two) == lesser(two, one) == two
    assert lesser(one, Watermark(None, resets=1)).ms is None
    assert lesser(Watermark(None, resets=1), one).ms is None
    assert lesser(one, Watermark(9, resets=2)).ms is None


def test_a_committed_slice_moves_it_and_an_earlier_versions_commit_forgets_it() -> None:
    landed = Slice("a", after("9"), after("12"), ended=False, records=3, last="12", last_arrival_ms=T0, tip_ms=T0 + 5)
    stamped = row("a", "0-99", T0 - 9, pending=landed, batch_id="b-1", lease_owner="x")
    moved = leases.roll_forward(stamped, "b-1", T0)
    assert moved.committed_up_to_ms == T0 + 5
    older = replace(moved, checkpoint=after("15"), checkpoint_arrival_ms=T0 + 1)
    assert older.committed_up_to_ms == T0 + 1


def test_an_empty_read_moves_it_by_the_streams_clock_and_never_back() -> None:
    lease = row("a", "0-99", T0)
    assert leases.release(lease, 1, caught_up_ms=77, tip_ms=T0 + 8).committed_up_to_ms == T0 + 8
    assert leases.release(lease, 1, caught_up_ms=77, tip_ms=T0 - 8).committed_up_to_ms == T0
    assert leases.release(lease, 1).committed_up_to_ms == T0


def test_a_reset_forgets_what_was_seen_even_where_it_stands() -> None:
    holder = ResetHolder("r1")
    held = row("a", "0-99", T0, lease_owner=str(holder))
    for target in (TRIM_HORIZON, held.checkpoint):
        back = leases.rewind(held, str(holder), target, str(ResetHolder("r1", True)), "ann", T0)
        assert back.committed_up_to_ms is None


def test_a_reset_is_counted_and_says_up_to_when_it_leaves_records_out() -> None:
    begun = ranged(start=at_timestamp(T0))
    assert begun.reset(None).complete_from == T0
    moved = begun.reset(T0 + 7)
    assert (moved.reset_count, moved.complete_from) == (1, T0 + 7)
    assert moved.reset(T0 + 3).complete_from == T0 + 7
    assert moved.renewed("arn@2", TRIM_HORIZON, "ann").complete_from is None
