# SPDX-License-Identifier: Apache-2.0
"""Where each shard of a batch begins in the order of all its records."""

from __future__ import annotations

from shardbatch.core.manifest import Manifest, ShardSlice
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, after
from shardbatch.core.slice import Slice
from shardbatch.core.total_order import Floor, floors_of, parents_of


def held(
    shard_id: str, generation: int, last: int | None = None, max_ms: int | None = None, *, ended: bool = False,
    children: tuple[str, ...] = (),
) -> ShardSlice:  # fmt: skip
    until = SHARD_END if ended or children else after(str(last or 0))
    number = None if last is None else str(last)
    landed = Slice(
        shard_id, TRIM_HORIZON, until, ended or bool(children), last=number, children=children, max_arrival_ms=max_ms
    )
    return ShardSlice(landed, generation)


def batch(*slices: ShardSlice) -> Manifest:
    return Manifest("b", "etl", "orders", "", "", "me", 0, "starts", "/staging", slices)


def test_a_shard_begins_where_the_last_of_its_parents_ended() -> None:
    made = batch(
        held("p", 0, 5, 5000, children=("c",)),
        held("q", 0, 9, 4000, children=("c", "elsewhere")),
        held("other", 0, 99, 9000, children=("d",)),
        held("c", 1, 7, 100),
        held("d", 1),
    )
    assert parents_of(made)["c"] == {"p", "q"}
    floors = floors_of(made)
    assert floors == {"p": Floor(), "q": Floor(), "other": Floor(), "c": Floor(5000, 9), "d": Floor(9000, 99)}


def test_a_floor_reaches_over_shards_without_records_and_over_lower_times() -> None:
    made = batch(
        held("grandchild", 3, 4, 1000),
        held("child", 2, 3, 2000, children=("grandchild",)),
        held("parent", 1, children=("child",)),
        held("root", 0, 8, 5000, children=("parent",)),
    )
    assert floors_of(made)["grandchild"] == Floor(5000, 8)


def test_where_no_slice_names_a_child_every_ended_shard_before_it_may_be_its_parent() -> None:
    made = batch(
        held("a", 0, 5, 5000, ended=True),
        held("b", 0, 6, 6000),
        held("c", 0, 7, 7000, children=("named",)),
        held("unnamed", 1, 8, 100),
        held("named", 1, 9, 200),
    )
    assert parents_of(made) == {
        **dict.fromkeys("abc", frozenset()), "unnamed": {"a"}, "named": {"c"},
    }  # fmt: skip
    assert floors_of(made)["unnamed"] == Floor(5000, 5)


def test_a_record_without_a_time_keeps_the_one_before_it() -> None:
    assert Floor(7, 7).raised(None, 8) == Floor(7, 8)
    assert Floor(7, 7).raised(5, 5) == Floor(7, 7)
