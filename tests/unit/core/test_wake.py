# SPDX-License-Identifier: Apache-2.0
"""When a DAG is woken: what rows say of who is at work and of what is to do, and when a wake-up counts as lost."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.expiry import Kept
from shardbatch.core.interval import CLOCKS_APART_MS
from shardbatch.core.lease import Lease
from shardbatch.core.ports import Verdict
from shardbatch.core.position import TRIM_HORIZON, after, at_timestamp
from shardbatch.core.rows import Namespace
from shardbatch.core.slice import Gap, Slice
from shardbatch.core.wake import (
    LONGEST_PAUSE_MS,
    Standing,
    WakeUp,
    looks_due,
    may_wake,
    places_of,
    standing,
    woken,
)

NAMESPACE = Namespace("etl", "orders")
T0 = 1_800_000_000_000
MINUTE, HOUR = 60_000, 3_600_000


def lease(name: str = "s-1", **fields: Any) -> Lease:
    return replace(Lease(NAMESPACE, "", name, None, 1, after("9"), updated_at_ms=T0), **fields)


def batch(state: BatchState, owner: str = "run") -> Batch:
    return Batch(NAMESPACE, "", "b-1", owner, 1, state)


def landed(*gaps: Gap) -> Slice:
    return Slice(shard_id="s-1", after=after("9"), until=after("12"), ended=False, records=3, gaps=gaps)


def stands(
    *leases: Lease,
    stamped: Batch | None = None,
    verdict: Verdict = Verdict.OVER,
    silent: bool = False,
    reached_ms: int = T0,
) -> Standing:
    return standing(leases, {"b-1": stamped}, lambda _: verdict, lambda _: silent, reached_ms)


# ------------------------------------------------------------------ the rows


def test_a_free_shard_is_for_the_stream_to_tell_and_the_furthest_behind_comes_first() -> None:
    near, far = lease("s-1", millis_behind_latest=5), lease("s-2", millis_behind_latest=9)
    assert stands(near, far) == Standing(unread=(far, near))
    assert stands(lease(completed=True)) == Standing()


def test_a_run_at_work_holds_everything_up_and_one_that_is_over_nothing() -> None:
    held = lease("s-2", lease_owner="run")
    assert stands(lease(), held, verdict=Verdict.ACTIVE).held == ("run",)
    for verdict in (Verdict.OVER, Verdict.GONE):
        assert stands(held, verdict=verdict) == Standing(unread=(held,))


def test_another_deployment_is_at_work_while_it_shows_life() -> None:
    held = lease(lease_owner="theirs")
    assert stands(held, verdict=Verdict.FOREIGN).held == ("theirs",)
    assert stands(held, verdict=Verdict.FOREIGN, silent=True) == Standing(unread=(held,))


@pytest.mark.parametrize("verdict", [Verdict.OVER, Verdict.GONE])
def test_a_frozen_batch_of_a_run_that_is_over_is_ready(verdict: Verdict) -> None:
    stamped = lease(lease_owner="run", batch_id="b-1", pending=landed())
    found = stands(stamped, stamped=batch(BatchState.FROZEN), verdict=verdict)
    assert (found.held, found.unread) == ((), ())
    assert found.ready == ("batch b-1 of a run that is over",)


def test_a_frozen_batch_is_held_by_who_has_it_now() -> None:
    """The lease still names the run that froze it."""
    stamped = lease(lease_owner="first", batch_id="b-1", pending=landed())
    at_work = {"first": Verdict.OVER, "second": Verdict.ACTIVE}
    frozen = batch(BatchState.FROZEN, "second")
    assert standing([stamped], {"b-1": frozen}, at_work.__getitem__, lambda _: False, T0).held == ("second",)


def test_what_waits_for_a_person_is_neither_held_nor_ready() -> None:
    stamped = lease(lease_owner="run", batch_id="b-1", pending=landed())
    assert stands(stamped, stamped=batch(BatchState.PARKED), verdict=Verdict.ACTIVE) == Standing()
    assert stands(stamped, stamped=batch(BatchState.FROZEN), verdict=Verdict.FOREIGN) == Standing()
    assert stands(stamped, stamped=batch(BatchState.FROZEN), verdict=Verdict.FOREIGN, silent=True) == Standing()
    waits = lease(pending=landed(Gap(after("9"), "12")))
    assert waits.waits_for_gap
    assert stands(waits) == Standing()


@pytest.mark.parametrize("state", [BatchState.COMMITTED, BatchState.VOID, None])
def test_stamps_that_a_run_resolves_are_ready(state: BatchState | None) -> None:
    stamped = lease(lease_owner="run", batch_id="b-1", pending=landed())
    assert stands(stamped, stamped=batch(state) if state else None).ready
    assert stands(stamped, stamped=batch(state) if state else None, verdict=Verdict.ACTIVE).held == ("run",)


def test_what_was_read_and_not_committed_is_ready() -> None:
    assert stands(lease(pending=landed())).ready == ("s-1 was read and not committed",)


def test_a_child_waits_for_its_parents_and_for_none_that_is_forgotten() -> None:
    parent, child = lease("p"), lease("c", parent_shard_ids=("p",))
    assert stands(parent, child).unread == (parent,)
    assert stands(replace(parent, completed=True), child).unread == (child,)
    assert stands(child).unread == (child,)


def test_an_instant_that_the_stream_has_not_reached_is_waited_for() -> None:
    ahead = lease(checkpoint=at_timestamp(T0 + 1))
    assert stands(ahead) == Standing()
    assert stands(ahead, reached_ms=T0 + 1).unread == (ahead,)


def test_places_differ_when_a_checkpoint_moves_or_a_shard_comes_or_ends_and_by_nothing_else() -> None:
    one, two = lease("s-1"), lease("s-2")
    known = places_of([one, two])
    assert places_of([two, one]) == known
    assert (
        places_of([replace(one, lease_owner="run", lease_count=7, caught_up_ms=T0, committed_to="5@9"), two]) == known
    )
    others = [places_of(found) for found in ([one], [replace(one, checkpoint=after("10")), two])]
    others.append(places_of([replace(one, completed=True), two]))
    assert len({known, *others}) == 4
    assert places_of([]) == ""


# ------------------------------------------------------------------ the last wake-up


def test_the_first_wake_up_and_one_after_a_commit_wait_for_nothing() -> None:
    assert may_wake(None, "a", T0, MINUTE)
    assert may_wake(WakeUp(T0, "a"), "b", T0, MINUTE)


def test_one_that_led_to_nothing_is_made_up_for_with_growing_pauses() -> None:
    last, at = WakeUp(T0, "a"), T0
    pauses = []
    for _ in range(12):
        due = last.due_again_ms(5 * MINUTE)
        assert not may_wake(last, "a", due - 1, 5 * MINUTE)
        assert may_wake(last, "a", due, 5 * MINUTE)
        pauses.append((due - at) // MINUTE)
        last, at = woken(last, "a", due), due
    assert pauses == [5, 10, 20, 40, *[60] * 8]
    assert woken(last, "b", T0).misses == 0
    assert WakeUp(T0, "a", 500).due_again_ms(1_000) == T0 + LONGEST_PAUSE_MS
    assert WakeUp(T0, "a", 3).due_again_ms(2 * HOUR) == T0 + 2 * HOUR, "an author's own pause may be longer"


def test_a_wake_up_from_the_future_was_dated_by_a_wrong_clock() -> None:
    assert not may_wake(WakeUp(T0 + CLOCKS_APART_MS, "a"), "a", T0, MINUTE)
    assert may_wake(WakeUp(T0 + CLOCKS_APART_MS + 1, "a"), "a", T0, MINUTE)


def test_a_wake_up_only_to_look_holds_up_no_other_than_its_like() -> None:
    """An empty run moves no checkpoint, so a record that comes right after it would wait for nothing."""
    last = woken(None, "a", T0, to_look=True)
    assert may_wake(last, "a", T0 + 1, MINUTE)
    assert not may_wake(last, "a", T0 + 1, MINUTE, to_look=True)
    assert may_wake(last, "a", T0 + MINUTE, MINUTE, to_look=True)
    assert woken(last, "a", T0 + MINUTE, to_look=True).misses == 1, "it was no look if another one is due"
    assert woken(last, "a", T0 + 1).misses == 0
    assert not may_wake(WakeUp(T0, "a"), "a", T0 + 1, MINUTE, to_look=True)


def test_it_is_kept_as_plain_json_and_what_somebody_else_wrote_is_none() -> None:
    for wake_up in (WakeUp(T0, "a", 3), WakeUp(T0, "", 0, look=True)):
        assert WakeUp.from_json(json.loads(json.dumps(wake_up.to_json()))) == wake_up
    for strange in (None, [], "text", {"at_ms": T0}, {"at_ms": "x", "places": "a", "misses": 0, "look": False}):
        assert WakeUp.from_json(strange) is None


# ------------------------------------------------------------------ an idle stream


def test_an_idle_application_looks_before_records_could_have_expired_unnoticed() -> None:
    seen = lease(caught_up_ms=T0, millis_behind_latest=0)
    kept = Kept(24 * HOUR)
    assert looks_due([seen], kept, [seen], T0 + 12 * HOUR) == ()
    assert looks_due([seen], kept, [seen], T0 + 12 * HOUR + 1) == ("s-1",)
    assert looks_due([seen], Kept(None), [seen], T0 + 90 * HOUR) == ()
    unknown = lease(checkpoint=TRIM_HORIZON)
    assert looks_due([unknown], kept, [unknown], T0 + 90 * HOUR) == ()
