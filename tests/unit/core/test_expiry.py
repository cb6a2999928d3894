# SPDX-License-Identifier: Apache-2.0
"""Since when records may be unread: what a row tells, and what it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shardbatch.core import lease as leases
from shardbatch.core.expiry import Instant, Timekeeper, all_read, born_after, unread_since
from shardbatch.core.lease import Lease
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, after, at_timestamp
from shardbatch.core.rows import Namespace
from shardbatch.core.shard import Shard
from shardbatch.core.slice import Slice

SPACE = Namespace("etl", "orders")
NOW = 1000


def row(shard_id: str = "s", parents: tuple[str, ...] = (), **changes: Any) -> Lease:
    """A new row, made at 5."""
    return replace(leases.add(SPACE, "", Shard(shard_id, parents), TRIM_HORIZON, 1, 5), **changes)


def landed(**changes: Any) -> Slice:
    return replace(Slice("s", after("9"), after("12"), ended=False, records=3, last="12"), **changes)


def since(lease: Lease, *others: Lease) -> tuple[int, str] | None:
    known = {each.shard_id: each for each in others}
    found = unread_since(lease, known.get, NOW)
    return None if found is None else (found.ms, found.clock.value)


@pytest.mark.parametrize(
    ("lease", "expected"),
    [
        pytest.param(row(), None, id="nothing read: the row's own age says nothing of the records"),
        pytest.param(row(millis_behind_latest=0, caught_up_ms=70), (70, "worker"), id="a look found nothing"),
        pytest.param(row(checkpoint=at_timestamp(60)), (60, "service"), id="nothing before the instant is wanted"),
        pytest.param(
            row(checkpoint=at_timestamp(60), millis_behind_latest=0, caught_up_ms=70), (70, "worker"), id="tip later"
        ),
        pytest.param(
            row(checkpoint=after("9"), checkpoint_arrival_ms=40, caught_up_ms=None), (40, "service"), id="a record"
        ),
        pytest.param(
            row(checkpoint=after("9"), checkpoint_arrival_ms=40, caught_up_ms=90), (90, "worker"), id="record, then tip"
        ),
        pytest.param(row(checkpoint=after("9"), caught_up_ms=None), None, id="a place that nobody told the age of"),
        pytest.param(
            row(checkpoint=after("9"), checkpoint_arrival_ms=40, caught_up_ms=None, pending=landed(last_arrival_ms=55)),
            (55, "service"),
            id="what is landed is read",
        ),
        pytest.param(row(pending=landed(last_arrival_ms=3), millis_behind_latest=0), (3, "service"), id="age of a row"),
    ],
)
def test_what_a_row_tells(lease: Lease, expected: tuple[int, str] | None) -> None:
    assert since(lease) == expected


def test_a_shard_that_is_read_to_its_end_has_nothing_left_to_lose() -> None:
    assert all_read(row(completed=True))
    assert all_read(row(pending=landed(until=SHARD_END, ended=True)))
    assert not all_read(row(pending=landed()))
    assert not all_read(row())


def test_a_child_of_which_nothing_was_read_is_as_old_as_the_end_of_its_youngest_parent() -> None:
    left = row("left", completed=True, checkpoint=SHARD_END, checkpoint_arrival_ms=30, caught_up_ms=None)
    right = row("right", checkpoint=after("9"), checkpoint_arrival_ms=20, caught_up_ms=35)
    child = row("child", ("left", "right"), caught_up_ms=600)
    assert since(child, left, right) == (35, "worker")
    assert since(child, left) == (30, "service")
    assert since(child, replace(left, caught_up_ms=33)) == (33, "worker")  # the last look at its tip before it ended
    assert since(child) is None


def test_parents_that_never_had_a_record_pass_the_question_on() -> None:
    oldest = row("oldest", completed=True, checkpoint=SHARD_END, checkpoint_arrival_ms=30, caught_up_ms=None)
    empty = row("empty", ("oldest", "unknown"), completed=True, checkpoint=SHARD_END, caught_up_ms=None)
    child = row("child", ("empty",))
    assert since(child, oldest, empty) == (30, "service")
    ended = replace(empty, completed=False, pending=landed(until=SHARD_END, ended=True, last_arrival_ms=44))
    assert since(child, oldest, ended) == (44, "service")


def test_a_lineage_that_runs_in_a_circle_tells_nothing() -> None:
    rows = {"a": row("a", ("b",)), "b": row("b", ("a",))}
    assert born_after(rows["a"], rows.get, NOW) is None


def test_of_two_clocks_the_later_instant_counts() -> None:
    assert max(Instant(7, Timekeeper.SERVICE), Instant(6, Timekeeper.WORKER)).clock is Timekeeper.SERVICE
