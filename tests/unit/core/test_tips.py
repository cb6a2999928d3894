# SPDX-License-Identifier: Apache-2.0
"""Which tips count (PROTOCOL C9), over rows that are written down here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shardbatch.core.application import Application
from shardbatch.core.interval import MARGIN_MS
from shardbatch.core.lease import Lease
from shardbatch.core.owner import ResetHolder
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, after
from shardbatch.core.rows import Namespace
from shardbatch.core.shard import KeyRange
from shardbatch.core.slice import Slice
from shardbatch.core.tips import Rows, Tips, asked_for, with_tips

NAMESPACE = Namespace("etl", "orders")
HOUR = 3_600_000
T0 = 1_700_000_000_000
NOW = T0 + HOUR
APPLICATION = Application(NAMESPACE, "arn@1", TRIM_HORIZON, 1, key_space=KeyRange(0, 9), retention_ms=24 * HOUR)


def row(shard_id: str, start: int, end: int, **fields: Any) -> Lease:
    made = Lease(NAMESPACE, "", shard_id, None, 1, after("9"), hash_range=KeyRange(start, end))
    return replace(made, **{"committed_to": f"{T0}@9", **fields})


LOW, HIGH = row("low", 0, 4), row("high", 5, 9)
ROWS = Rows(APPLICATION, [LOW, HIGH])
TIPS = Tips(NOW, {"low": after("9"), "high": after("9")}, 24 * HOUR)
UNTIL = NOW - MARGIN_MS
LANDED = Slice("low", after("9"), after("9"), ended=False, records=0)
STATES: dict[str, dict[str, Any]] = {
    "held": {"lease_owner": "someone"},
    "held by a reset": {"lease_owner": str(ResetHolder("r-1"))},
    "landed": {"pending": LANDED},
    "frozen": {"pending": LANDED, "batch_id": "b-1"},
    "a rule": {"checkpoint": TRIM_HORIZON, "checkpoint_arrival_ms": T0},
}


def test_tips_bring_the_watermark_to_the_instant_of_the_question() -> None:
    assert asked_for(ROWS, UNTIL) == TIPS.places
    assert with_tips(ROWS, TIPS, [ROWS, ROWS]).ms == UNTIL


def test_only_shards_that_hold_it_back_are_asked() -> None:
    later = row("low", 0, 4, committed_to=f"{NOW}@9")
    assert set(asked_for(Rows(APPLICATION, [later, HIGH]), UNTIL)) == {"high"}


@pytest.mark.parametrize("fields", STATES.values(), ids=list(STATES))
def test_a_state_in_which_no_tip_counts(fields: dict[str, Any]) -> None:
    rows = Rows(APPLICATION, [replace(LOW, **fields), HIGH])
    assert asked_for(rows, UNTIL) == {}
    assert with_tips(rows, TIPS, [rows, rows]).ms != UNTIL


def test_what_no_tip_can_change_is_not_asked_for() -> None:
    assert asked_for(Rows(APPLICATION, [LOW]), UNTIL) == {}, "the upper keys have no row"
    assert asked_for(Rows(replace(APPLICATION, importing="kcl"), [LOW, HIGH]), UNTIL) == {}


def test_beside_a_run_no_shard_is_asked() -> None:
    """It has the calls that a shard allows, and shows more than a tip."""
    read = row("high", 5, 9, committed_to=f"{NOW}@9", lease_owner="someone")
    assert asked_for(Rows(APPLICATION, [LOW, read]), UNTIL) == {}
    assert set(asked_for(Rows(APPLICATION, [LOW, replace(read, lease_owner=None)]), UNTIL)) == {"low"}


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("fields", [{"lease_count": 2}, {"checkpoint": after("8"), "committed_to": f"{T0}@8"}])
def test_a_row_that_changed_does_not_count_in_either_look(at: int, fields: dict[str, Any]) -> None:
    looks = [ROWS, ROWS]
    looks[at] = Rows(APPLICATION, [replace(LOW, **fields), HIGH])
    assert with_tips(ROWS, TIPS, looks).ms == T0 - MARGIN_MS


def test_a_reset_between_the_looks_leaves_nothing() -> None:
    """A reset and back leaves rows with other counters; that none of these is overlooked shows by its number, too."""
    again = Rows(replace(APPLICATION, reset_count=1), ROWS.leases)
    assert with_tips(ROWS, TIPS, [again, again]).ms == T0 - MARGIN_MS
    assert with_tips(ROWS, TIPS, [ROWS, again]).ms is None


@pytest.mark.parametrize(
    ("age_ms", "counts"), [(24 * HOUR - 2 * MARGIN_MS - 1, True), (24 * HOUR - 2 * MARGIN_MS, False)]
)
def test_what_was_seen_has_to_be_younger_than_the_retention(age_ms: int, counts: bool) -> None:
    """A bound is M before what was seen, and has to be younger than the retention less M."""
    tips = replace(TIPS, at_ms=T0 + age_ms)
    assert (with_tips(ROWS, tips, [ROWS]).ms == T0 + age_ms - MARGIN_MS) is counts


@pytest.mark.parametrize(
    ("now_ms", "known"),
    [
        (None, {"retention_ms": None}),
        (HOUR, {}),
        (48 * HOUR, {"retention_ms": HOUR}),
        (24 * HOUR, {"gone_before_ms": T0}),
    ],
)
def test_the_shortest_retention_counts(now_ms: int | None, known: dict[str, Any]) -> None:
    rows = Rows(replace(APPLICATION, **known), ROWS.leases)
    assert with_tips(rows, replace(TIPS, retention_ms=now_ms), [rows]).ms == T0 - MARGIN_MS


def test_a_completed_shard_and_a_side_lease_are_not_asked() -> None:
    over = row("old", 0, 9, checkpoint=SHARD_END, completed=True)
    beside = replace(LOW, scope="o/1")
    assert set(asked_for(Rows(APPLICATION, [over, LOW, HIGH, replace(beside, shard_id="x")]), UNTIL)) == {"low", "high"}


def test_a_child_of_which_nothing_was_seen_counts_from_its_parent_on() -> None:
    """An exact checkpoint of an idle child, as an import leaves it: its records came after its parent's."""
    parent = row("old", 0, 4, checkpoint=SHARD_END, completed=True, checkpoint_arrival_ms=T0, committed_to=None)
    child = row("new", 0, 4, committed_to=None, parent_shard_ids=("old",))
    rows = Rows(APPLICATION, [parent, child, HIGH])
    tips = replace(TIPS, places={"new": after("9"), "high": after("9")})
    assert with_tips(rows, tips, [rows, rows]).ms == UNTIL
    assert set(asked_for(rows, UNTIL)) == {"new", "high"}
