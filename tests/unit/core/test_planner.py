# SPDX-License-Identifier: Apache-2.0
"""Which leases may be taken, how they are spread, and what may be frozen together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardbatch.core import lease as leases
from shardbatch.core.lease import Lease
from shardbatch.core.owner import Owner, ResetHolder
from shardbatch.core.planner import (
    Plan,
    complete_lineage,
    fair_share,
    label,
    orphans,
    plan,
    ready_child,
    spread,
    unknown_shards,
)
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, after, at_timestamp
from shardbatch.core.rows import Namespace
from shardbatch.core.shard import Shard
from shardbatch.core.slice import Slice

ME = "here/dag/run/group/incremental"
NAMESPACE = Namespace("etl", "orders")
NOW_MS = 1_800_000_000_000


def row(shard_id: str, *parents: str, completed: bool = False, owner: str | None = None, lag: int = 0) -> Lease:
    fresh = leases.add(NAMESPACE, "", Shard(shard_id, parents), TRIM_HORIZON, 7, 0)
    return replace(fresh, completed=completed, lease_owner=owner, millis_behind_latest=lag)


def ended(lease: Lease, owner: str = ME) -> Lease:
    landed = Slice(lease.shard_id, lease.checkpoint, SHARD_END, ended=True)
    return replace(lease, lease_owner=owner, pending=landed)


def takeable(rows: list[Lease], listed: set[str]) -> list[str]:
    free = {lease.shard_id for lease in rows if lease.lease_owner in (None, ME)}
    found = plan(rows, listed, lambda lease: lease.shard_id in free, ME, now_ms=NOW_MS)
    return [lease.shard_id for lease in found.takeable]


@pytest.mark.parametrize(
    ("rows", "listed", "expected"),
    [
        pytest.param([row("r")], {"r"}, ["r"], id="root"),
        pytest.param([row("r", completed=True)], {"r"}, [], id="completed root"),
        pytest.param([row("p"), row("c", "p")], {"p", "c"}, ["p"], id="split child of an open parent"),
        pytest.param([row("p", completed=True), row("c", "p")], {"p", "c"}, ["c"], id="split child"),
        pytest.param(
            [row("p", completed=True), row("c", "p", completed=True)], {"p", "c"}, [], id="completed split child"
        ),
        pytest.param([row("c", "p")], {"c"}, ["c"], id="unknown parent"),
        pytest.param([row("p"), row("c", "p")], {"c"}, ["p"], id="parent left the listing unfinished"),
        pytest.param([row("a", completed=True), row("b"), row("m", "a", "b")], {"a", "b", "m"}, ["b"], id="merge half"),
        pytest.param(
            [row("a", completed=True), row("b", completed=True), row("m", "a", "b")], {"a", "b", "m"}, ["m"], id="merge"
        ),
        pytest.param([row("b"), row("m", "a", "b")], {"b", "m"}, ["b"], id="merge, one unknown, one open"),
        pytest.param([row("b", completed=True), row("m", "a", "b")], {"b", "m"}, ["m"], id="merge, one unknown"),
        pytest.param([row("a", completed=True), row("m", "a", "b")], {"a", "m"}, ["m"], id="merge, other unknown"),
        pytest.param([row("c", "adjacent"), row("adjacent")], {"c", "adjacent"}, ["adjacent"], id="only adjacent"),
        pytest.param([row("c", "p")], {"c", "p"}, [], id="parent is listed but has no row yet"),
    ],
)
def test_a_shard_may_start_when_its_known_parents_are_completed(
    rows: list[Lease], listed: set[str], expected: list[str]
) -> None:
    assert takeable(rows, listed) == expected  # KV-4, K-14, K-15


def test_a_shard_waits_while_nobody_knows_whether_its_parent_is_gone() -> None:
    rows = [row("c", "p"), row("d", "p")]
    assert orphans([Shard("c", ("p",)), Shard("e", ("q",)), Shard("r")], rows) == ["e", "c", "d"]
    begun = replace(row("b", "p"), checkpoint=after("7"))  # what was read of it came after all of its parent
    assert orphans([Shard("b", ("p",))], [begun, row("x", "p", completed=True)]) == []
    found = plan(rows, {"c", "d"}, lambda lease: True, ME, {"c"}, now_ms=NOW_MS)
    assert [lease.shard_id for lease in found.takeable] == ["d"]
    assert [lease.shard_id for lease in found.waiting] == ["c"]
    assert unknown_shards([Shard("c", ("p",)), Shard("d", ("p",))], [], {"c"}) == [[Shard("d", ("p",))]]


def test_what_begins_at_an_instant_is_not_taken_before_it() -> None:
    rows = [replace(row("a"), checkpoint=at_timestamp(1000)), row("b")]
    for reached_ms, expected in ((999, ["b"]), (1000, ["a", "b"]), (None, ["a", "b"])):
        found = plan(rows, {"a", "b"}, lambda lease: True, ME, reached_ms=reached_ms, now_ms=NOW_MS)
        assert [lease.shard_id for lease in found.takeable] == expected
        assert [lease.shard_id for lease in found.ahead] == ([] if "a" in expected else ["a"])


def test_stamped_leases_are_passed_by() -> None:
    stamped = replace(ended(row("s")), batch_id="x")
    found = plan([stamped], {"s"}, lambda lease: True, ME, now_ms=NOW_MS)
    assert found.takeable == ()
    assert found.held == (stamped,)


def test_a_row_from_the_future_comes_first_and_what_clocks_may_differ_by_is_no_future() -> None:
    day, minute = 86_400_000, 60_000
    ages = {"old": 2 * day, "young": minute, "ahead": -4 * minute, "future": -12 * day}
    rows = [replace(row(name), updated_at_ms=NOW_MS - age) for name, age in ages.items()]
    assert takeable(rows, set(ages)) == ["future", "old", "young", "ahead"]


def test_own_leases_come_first_then_large_backlogs_of_which_what_is_landed_is_none() -> None:
    rows = [
        row("young", "old", lag=900),
        row("old", completed=True),
        row("small", lag=5),
        row("large", lag=50),
        replace(ended(row("parent", lag=700)), lease_owner=None),
        row("child", "parent"),
        row("mine", owner=ME),
    ]
    listed = {lease.shard_id for lease in rows}
    assert takeable(rows, listed) == ["mine", "young", "large", "small", "parent"]


def test_a_child_that_this_owner_reads_on_is_its_own() -> None:
    rows = [ended(row("p")), row("c", "p", owner=ME)]
    assert takeable(rows, {"p", "c"}) == ["c", "p"]


def test_shards_are_spread_evenly_and_keep_their_group() -> None:
    rows = [row(f"s{n}") for n in range(10)]
    groups = spread(rows, 4)
    assert sorted(len(members) for members in groups.values()) == [2, 2, 3, 3]
    kept = [replace(lease, read_group=name) for name, members in groups.items() for lease in members]
    assert {name: {m.shard_id for m in members} for name, members in spread(kept, 4).items()} == {
        name: {m.shard_id for m in members} for name, members in groups.items()
    }


def test_a_task_is_filled_before_another_is_opened() -> None:
    rows = [row(f"s{n}") for n in range(17)]
    assert sorted(len(members) for members in spread(rows, 16, at_once=8).values()) == [5, 6, 6]
    assert len(spread(rows[:8], 16, at_once=8)) == 1
    assert len(spread(rows, 2, at_once=8)) == 2


def test_there_are_never_more_groups_than_shards() -> None:
    assert len(spread([row("a"), row("b")], 16)) == 2
    assert spread([], 16) == {}


def test_a_label_fits_the_column_of_the_metadata_database() -> None:
    assert label("003", ["shardId-000000000001"]) == "003: shardId-000000000001"
    assert len(label("003", ["x" * 500])) == 200
    assert label("000", ["b", "a"]) == "000: 2 shards from a"


def test_rows_are_made_for_children_before_their_parents() -> None:
    listing = [Shard("p", closed=True), Shard("c", ("p",), closed=True), Shard("g", ("c",)), Shard("q")]
    assert unknown_shards(listing, [row("q")]) == [[listing[2]], [listing[1]], [listing[0]]]


def test_a_shard_whose_parent_is_open_in_the_same_listing_waits_for_the_next() -> None:
    listing = [Shard("p", closed=False), Shard("c", ("p",))]
    assert unknown_shards(listing, []) == [[listing[0]]]  # K-10, R23


def test_a_child_is_read_on_only_after_parents_of_this_owner() -> None:
    child = Shard("c", ("a", "b"))
    a, b = ended(row("a")), ended(row("b"))
    assert ready_child(child, {"a": a, "b": b}, ME)
    assert not ready_child(child, {"a": a, "b": replace(b, lease_owner="other")}, ME)  # V9
    assert not ready_child(child, {"a": a, "b": row("b", owner=ME)}, ME)
    assert ready_child(child, {"a": a, "b": row("b", completed=True)}, ME)
    assert ready_child(child, {"a": a, "b": None}, ME)


def test_a_child_is_not_frozen_without_its_parent() -> None:
    parent, child = (
        ended(row("p")),
        replace(row("c", "p", owner=ME), pending=Slice("c", TRIM_HORIZON, after("5"), False)),
    )
    rows = {"p": parent, "c": child}
    assert [lease.shard_id for lease in complete_lineage([parent, child], rows, set())] == ["c", "p"]
    assert complete_lineage([child], rows, set()) == []  # V8
    assert complete_lineage([parent, child], rows, {"p"}) == []


def test_descendants_of_a_slice_that_waits_wait_too() -> None:
    rows = [ended(row("p")), ended(row("c", "p")), ended(row("g", "c")), ended(row("x"))]
    by_id = {lease.shard_id: lease for lease in rows}
    assert [lease.shard_id for lease in complete_lineage(rows, by_id, {"p"})] == ["x"]


@pytest.mark.parametrize(("leases", "workers", "target"), [(10, 3, 4), (9, 3, 3), (2, 5, 1), (7, 2, 4), (1, 1, 1)])
def test_a_run_takes_its_part_beside_other_groups_that_read(leases: int, workers: int, target: int) -> None:
    others = [row(f"h{n}", owner=f"here/dag-{n}/run/group/incremental") for n in range(workers - 1)]
    free = [row(f"s{n}") for n in range(leases - len(others))]
    assert fair_share(Plan(tuple(free), tuple(others), ()), ME) == target  # K-28, K-29, KV-13


def test_what_a_batch_a_reset_or_an_earlier_run_holds_is_no_other_group_and_what_is_mine_stays_mine() -> None:
    free = tuple(row(f"s{n}") for n in range(4))
    stamped = replace(ended(row("x"), "here/other/run/group/incremental"), batch_id="b")
    reset = row("y", owner=str(ResetHolder("0123456789ab")))
    assert fair_share(Plan(free, (stamped, reset), ()), ME) == 4
    earlier = row("w", owner=str(Owner("here", "dag", "earlier", "group")))
    assert fair_share(Plan(free, (earlier,), ()), ME) == 4
    reading = row("z", owner="here/other/run/group/incremental")
    assert fair_share(Plan(free[:3], (reading,), ()), ME) == 2  # KV-13: 4 leases, another holds 1
    mine = tuple(replace(lease, lease_owner=ME) for lease in free)
    assert fair_share(Plan(mine, (reading,), ()), ME) == 4
