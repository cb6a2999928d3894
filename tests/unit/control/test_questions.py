# SPDX-License-Identifier: Apache-2.0
"""What sensors ask, over rows that are written down here."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from shardbatch.control.questions import DROPPED, GAPS, SET_ASIDE, Backlog, CommittedUpTo, Question, question_of
from shardbatch.core.application import Application
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.interval import MARGIN_MS
from shardbatch.core.lease import Lease
from shardbatch.core.ports import Clock
from shardbatch.core.position import after, at_timestamp
from shardbatch.core.rows import Namespace
from shardbatch.core.shard import KeyRange
from shardbatch.core.slice import Slice
from shardbatch.errors import ApplicationUnknown, ConfigurationError
from shardbatch.stores.memory import MemoryStore

NAMESPACE = Namespace("etl", "orders")
T0 = 1_800_000_000_000
HOUR = 3_600_000
NOW = Clock(now_ms=lambda: T0, monotonic=lambda: 0.0, sleep=lambda seconds: None)


def store_of(*rows: Any, seen_ms: int | None = T0, **lease: Any) -> MemoryStore:
    """An application that began a day ago, with one shard of which so much was seen."""
    store = MemoryStore()
    store.prepare()
    begun = Application(NAMESPACE, "arn@1", at_timestamp(T0 - 24 * HOUR), 1, key_space=KeyRange(0, 9))
    shard = Lease(
        NAMESPACE, "", "s-1", None, 1, after("9"),
        hash_range=KeyRange(0, 9), committed_to=None if seen_ms is None else f"{seen_ms}@9", **lease,
    )  # fmt: skip
    for row in (replace(begun, retention_ms=24 * HOUR), shard, *rows):
        assert store.create(row)
    return store


def batch(name: str, **fields: Any) -> Batch:
    made = Batch(NAMESPACE, "", name, "", 1, BatchState.COMMITTED, min_arrival_ms=T0 - HOUR, max_arrival_ms=T0 - 9)
    return replace(made, **fields)


def test_it_waits_until_the_watermark_is_there_and_says_what_would_move_it() -> None:
    until = T0 - MARGIN_MS
    assert CommittedUpTo(until).ask(store_of(), NAMESPACE).reached
    found = CommittedUpTo(until + 1).ask(store_of(), NAMESPACE)
    assert (found.reached, found.never) == (False, False)
    assert "held back by s-1" in found.why
    assert "A run that reads at 2027-01-15T08:00:00.001Z or later" in found.why
    assert found.told == {"watermark_ms": until, "complete_from_ms": T0 - 24 * HOUR}
    assert "unknown yet" in CommittedUpTo(until).ask(store_of(seen_ms=None), NAMESPACE).why


@pytest.mark.parametrize(
    ("until", "since"), [(T0 - 24 * HOUR, None), (T0 - 25 * HOUR, None), (T0 - HOUR, T0 - 24 * HOUR - 1)]
)
def test_what_is_older_than_the_application_can_never_be_promised(until: int, since: int | None) -> None:
    found = CommittedUpTo(until, since).ask(store_of(), NAMESPACE)
    assert (found.reached, found.never) == (False, True)
    assert "complete from 2027-01-14T08:00:00Z" in found.why


@pytest.mark.parametrize(
    ("fields", "kind"), [({"gaps": 1}, GAPS), ({"dropped": 2}, DROPPED), ({"set_aside": "kept"}, SET_ASIDE)]
)
def test_what_is_not_accepted_in_the_window_counts(fields: dict[str, Any], kind: str) -> None:
    store, until = store_of(batch("b-1", **fields)), T0 - MARGIN_MS
    assert CommittedUpTo(until).ask(store, NAMESPACE).reached
    others = tuple({GAPS, DROPPED, SET_ASIDE} - {kind})
    found = CommittedUpTo(until, accept=others).ask(store, NAMESPACE)
    assert (found.reached, found.never) == (False, kind != SET_ASIDE)
    assert found.told is not None
    assert found.told["batches"] == {kind: ["b-1"]}
    ended = store_of(batch("b-1", **fields, max_arrival_ms=T0 - HOUR, created_at_ms=T0 - HOUR))
    assert CommittedUpTo(until, T0 - HOUR // 2, accept=others).ask(ended, NAMESPACE).reached, "it ends before"
    later = store_of(batch("b-1", **fields, state=BatchState.COMMITTED, min_arrival_ms=until))
    assert CommittedUpTo(until, accept=others).ask(later, NAMESPACE).reached is (kind == SET_ASIDE)


def test_a_gap_behind_all_records_of_its_batch_is_in_the_window_too() -> None:
    """A shard that left the stream loses what came after its last record, and later than any record of the others."""
    since = T0 - HOUR // 2
    store = store_of(batch("b-1", gaps=1, max_arrival_ms=since - 1, created_at_ms=T0))
    assert CommittedUpTo(T0 - MARGIN_MS, since, accept=()).ask(store, NAMESPACE).never


def test_records_dropped_at_either_edge_of_a_batch_are_in_the_window_too() -> None:
    """The times of a batch are those of the records that readers see; what was dropped may lie on either side."""
    until = T0 - MARGIN_MS
    behind = store_of(batch("b-1", dropped=1, min_arrival_ms=until + 1, max_arrival_ms=T0, created_at_ms=T0))
    assert CommittedUpTo(until, accept=()).ask(behind, NAMESPACE).never
    ends = store_of(batch("b-1", dropped=1, max_arrival_ms=until - 9, created_at_ms=until + 9))
    assert CommittedUpTo(until, until - 5, accept=()).ask(ends, NAMESPACE).never


def test_a_batch_set_aside_that_clean_up_retired_can_never_be_replayed() -> None:
    store = store_of(batch("b-1", set_aside="kept"), batch("b-2", set_aside="dropped", retired_ms=T0))
    found = CommittedUpTo(T0 - MARGIN_MS, accept=()).ask(store, NAMESPACE)
    assert (found.reached, found.never) == (False, True)


@pytest.mark.parametrize("state", [BatchState.VOID, BatchState.FROZEN])
def test_only_committed_batches_count(state: BatchState) -> None:
    store = store_of(batch("b-1", gaps=1, state=state))
    assert CommittedUpTo(T0 - MARGIN_MS, accept=()).ask(store, NAMESPACE).reached


def test_a_backlog_is_bounded_by_the_watermark_and_not_by_the_last_reads_lag() -> None:
    store = store_of(millis_behind_latest=HOUR)
    assert Backlog(behind_ms=MARGIN_MS).ask(store, NAMESPACE, NOW).reached
    found = Backlog(behind_ms=MARGIN_MS - 1).ask(store, NAMESPACE, NOW)
    assert (found.reached, found.why) == (False, f"Out of bounds: {MARGIN_MS} ms behind.")
    assert Backlog(behind_ms=MARGIN_MS - 1, exceeded=True).ask(store, NAMESPACE, NOW).reached


def test_what_is_unknown_breaks_its_bound() -> None:
    store = store_of(seen_ms=None)
    for bound in (Backlog(behind_ms=HOUR), Backlog(until_loss_ms=0)):
        assert not bound.ask(store, NAMESPACE, NOW).reached
        assert replace(bound, exceeded=True).ask(store, NAMESPACE, NOW).reached


def test_where_no_shard_is_open_the_time_until_loss_is_unknown() -> None:
    """The children of a reshard may have no rows yet while their records grow old."""
    empty = MemoryStore()
    empty.prepare()
    assert empty.create(Application(NAMESPACE, "arn@1", at_timestamp(T0 - HOUR), 1, retention_ms=24 * HOUR))
    for store in (store_of(completed=True), empty):
        found = Backlog(until_loss_ms=HOUR).ask(store, NAMESPACE, NOW)
        assert (found.reached, found.why) == (False, "Out of bounds: the time until data loss is unknown.")
        assert Backlog(until_loss_ms=HOUR, exceeded=True).ask(store, NAMESPACE, NOW).reached


def test_no_time_until_loss_is_told_if_that_of_one_shard_is_unknown() -> None:
    unseen = Lease(NAMESPACE, "", "s-2", None, 1, after("9"), hash_range=KeyRange(5, 9))
    store = store_of(unseen, checkpoint_arrival_ms=T0 - HOUR)
    found = Backlog(landed_records=0).ask(store, NAMESPACE, NOW)
    assert found.told is not None
    assert (found.reached, found.told["until_loss_ms"]) == (True, None)


def test_landed_records_and_the_time_until_loss_have_bounds() -> None:
    landed = Slice("s-1", after("9"), after("12"), ended=False, records=3, last="12")
    store = store_of(pending=landed, checkpoint_arrival_ms=T0 - 20 * HOUR)
    assert Backlog(landed_records=3).ask(store, NAMESPACE, NOW).reached
    assert not Backlog(landed_records=2).ask(store, NAMESPACE, NOW).reached
    assert Backlog(until_loss_ms=4 * HOUR).ask(store, NAMESPACE, NOW).reached
    assert not Backlog(until_loss_ms=4 * HOUR + 1).ask(store, NAMESPACE, NOW).reached
    both = Backlog(landed_records=3, until_loss_ms=4 * HOUR + 1).ask(store, NAMESPACE, NOW)
    assert (both.reached, both.why) == (False, f"Out of bounds: {4 * HOUR} ms until data loss.")


@pytest.mark.parametrize("question", [CommittedUpTo(5, 3, (GAPS,)), CommittedUpTo(5), Backlog(1, 2, 3, True)])
def test_a_question_is_literals_and_back(question: Question) -> None:
    assert question_of(json.loads(json.dumps(question.to_json()))) == question


def test_a_question_of_another_version_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="same version"):
        question_of({"kind": "later"})


def test_an_application_that_is_not_there_is_an_error_here() -> None:
    store = MemoryStore()
    store.prepare()
    for question in (CommittedUpTo(5), Backlog(1)):
        with pytest.raises(ApplicationUnknown):
            question.ask(store, NAMESPACE)
