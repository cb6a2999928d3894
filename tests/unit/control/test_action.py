# SPDX-License-Identifier: Apache-2.0
"""What every verb has: a reason, a note, a batch wherever it is, the question for an owner, and a change by CAS."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shardbatch.control.action import TRIES, Action, Done, Stays, asked_once
from shardbatch.control.verbs import DROP
from shardbatch.core import batch as batches
from shardbatch.core.application import Application
from shardbatch.core.batch import Batch
from shardbatch.core.ports import Clock, Verdict
from shardbatch.core.rows import APPLICATION, BATCH, Key, Namespace
from shardbatch.errors import ApplicationUnknown, ConfigurationError, OwnerUnknown
from tests.support.verbs import Interrupted
from tests.unit.cli.rows import NAMESPACE, NOW, OWNER, filled, frozen_batch, of_interval

CLOCK = Clock(now_ms=lambda: NOW, monotonic=lambda: 0.0, sleep=lambda seconds: None)


def action(**changes: Any) -> Action:
    given: dict[str, Any] = {
        "verb": DROP,
        "namespace": NAMESPACE,
        "store": filled(),
        "clock": CLOCK,
        "actor": "ann",
        "reason": " bad data ",
        "dry_run": False,
    }
    return Action(**{**given, **changes})


def silent(owner: str) -> Verdict:
    raise OwnerUnknown("Airflow gives no answer.")


def saying(verdict: Verdict) -> Callable[[str], Verdict]:
    return lambda owner: verdict


# ------------------------------------------------------------------ reason and note


def test_an_action_needs_a_reason_and_an_application_and_a_preview_no_reason() -> None:
    with pytest.raises(ConfigurationError, match="To drop something needs a reason"):
        action(reason=" ").begin()
    assert action(reason="", dry_run=True).begin().namespace == NAMESPACE
    with pytest.raises(ApplicationUnknown):
        action(namespace=Namespace("other", "orders")).begin()


def test_a_note_says_when_who_what_why_and_whether_by_force() -> None:
    assert action().note() == "2027-01-15T08:00:00Z ann dropped: bad data"
    assert action().note("batch b2") == "2027-01-15T08:00:00Z ann dropped batch b2: bad data"
    assert action(force=True).note("batch b2") == "2027-01-15T08:00:00Z ann dropped batch b2 by force: bad data"
    assert action(force=True).note() == "2027-01-15T08:00:00Z ann dropped by force: bad data"


def test_what_is_recorded_stands_on_the_application_row_unless_it_is_a_preview() -> None:
    found = action()
    row = found.application()
    action(store=found.store, dry_run=True).record("batch b2")
    assert found.application() == row
    found.record("batch b2")
    after = found.store.get(Key(APPLICATION, NAMESPACE, ()))
    assert isinstance(after, Application)
    assert after.last_action == found.note("batch b2")


# ------------------------------------------------------------------ rows


def test_a_batch_is_found_wherever_it_is_and_only_in_a_scope_that_is_given() -> None:
    found = action()
    interval = of_interval("b9", "/lake")
    assert found.store.create(interval)
    assert found.at_batch("b2")[1].batch_id == "b2"
    moved, row = found.at_batch("b9")
    assert (moved.scope, row) == (interval.scope, interval)
    with pytest.raises(ConfigurationError, match="no batch 'b2'"):
        replace(found, scope=interval.scope).at_batch("b2")
    with pytest.raises(ApplicationUnknown):
        action(namespace=Namespace("other", "orders")).at_batch("b2")


def test_a_batch_and_a_lease_that_are_not_there_name_what_lists_them() -> None:
    with pytest.raises(ConfigurationError, match="airflow shardbatch batches"):
        action().expect_batch("b7")
    with pytest.raises(ConfigurationError, match="airflow shardbatch shards"):
        action().expect_lease("s7")


# ------------------------------------------------------------------ owners


#: The verdict; whether what the owner has is left to it; what is told of it, without and by force.
ALIVE = "its owner is at work, and its commit fails and changes nothing"
MAYBE = "if its owner is at work, its commit fails and changes nothing"
VERDICTS = {
    Verdict.ACTIVE: (True, ALIVE, f"BY FORCE: {ALIVE}"),
    Verdict.OVER: (False, "its owner is over", "its owner is over"),
    Verdict.FOREIGN: (False, MAYBE, f"BY FORCE: {MAYBE}"),
    Verdict.GONE: (False, MAYBE, f"BY FORCE: {MAYBE}"),
}


@pytest.mark.parametrize("verdict", VERDICTS)
def test_what_an_owner_at_work_has_is_left_to_it_unless_by_force(verdict: Verdict) -> None:
    left, told, told_by_force = VERDICTS[verdict]
    asking, forced = action(liveness=saying(verdict)), action(liveness=saying(verdict), force=True)
    assert (bool(asking.left_to(OWNER, "it is at work")), asking.fate(OWNER)) == (left, told)
    assert (forced.left_to(OWNER, "it is at work"), forced.fate(OWNER)) == ("", told_by_force)


def test_what_has_no_owner_is_over_and_nobody_is_asked() -> None:
    for owner in (None, ""):
        assert action(liveness=silent).verdict(owner) is Verdict.OVER


def test_where_nobody_can_be_asked_an_owner_is_foreign() -> None:
    assert action().verdict(OWNER) is Verdict.FOREIGN
    assert action().left_to(OWNER, "it is at work") == ""


def test_where_a_question_fails_the_rows_are_left_and_the_reason_names_force() -> None:
    asking = action(liveness=silent)
    why = asking.left_to(OWNER, "it is at work")
    assert re.match(r"OwnerUnknown: .* were not changed\. Airflow gives no answer\. .*--force \(force=True", why)
    assert asking.fate(OWNER) == "whether its owner is over is unknown"
    assert Done("batch", "b2", OWNER, "left", why).unknown
    assert not Done("batch", "b2", OWNER, "left", "it is at work").unknown


def test_every_owner_is_asked_about_once_whatever_comes_of_it() -> None:
    asked: list[str] = []

    def ask(owner: str) -> Verdict:
        asked.append(owner)
        if owner == OWNER:
            raise OwnerUnknown("Airflow gives no answer.")
        return Verdict.OVER

    once = asked_once(ask)
    for _ in range(3):
        assert once("other") is Verdict.OVER
        with pytest.raises(OwnerUnknown, match="no answer"):
            once(OWNER)
    assert asked == ["other", OWNER]


def test_by_force_a_question_that_fails_stops_nothing() -> None:
    forced = action(liveness=silent, force=True)
    assert forced.left_to(OWNER, "it is at work") == ""
    assert forced.fate(OWNER) == f"BY FORCE: {MAYBE}"


# ------------------------------------------------------------------ changes


def noted(row: Batch) -> Batch:
    return batches.disown(row, "noted")


def never(row: Batch) -> Stays | None:
    return None


def test_a_change_is_written_told_and_in_a_preview_only_told() -> None:
    found = action()
    seen = found.expect_batch("b2")
    told, row = replace(found, dry_run=True).change(seen, never, noted, lambda row: "what follows")
    assert (told.kind, told.name, told.owner, told.result) == ("batch", "b2", OWNER, "would drop")
    assert (told.effect, row, found.batch("b2")) == ("what follows", seen, seen)
    told, row = found.change(seen, never, noted)
    assert (told.result, found.batch("b2")) == ("dropped", row)


def test_a_row_stays_for_a_reason() -> None:
    found = action()
    seen = found.expect_batch("b2")
    for already, result in ((False, "left"), (True, "already")):
        told, row = found.change(seen, lambda row, already=already: Stays("so it is", already), noted)  # type: ignore[misc]
        assert (told.result, told.why, row) == (result, "so it is", seen)


def test_a_row_that_changes_meanwhile_is_read_again() -> None:
    found = action()
    beat = lambda: found.store.replace(seen, batches.heartbeat(seen, seen.attempt, "app-9"))  # noqa: E731
    seen = found.expect_batch("b2")
    told, row = replace(found, store=Interrupted(found.store, BATCH, beat)).change(seen, never, noted)
    assert (told.result, row.spark_application) == ("dropped", (seen.attempt, "app-9"))


def test_a_row_that_goes_or_is_written_all_the_time_is_left() -> None:
    found = action()
    seen = found.expect_batch("b2")
    tries = 0

    def beat() -> None:
        nonlocal tries
        tries += 1
        row = found.expect_batch("b2")
        assert found.store.replace(row, batches.heartbeat(row, row.attempt, None))

    told, _ = replace(found, store=Interrupted(found.store, BATCH, beat, always=True)).change(seen, never, noted)
    assert (told.result, "all the time" in told.why, tries) == ("left", True, TRIES)

    gone = action()
    seen = gone.expect_batch("b2")
    told, _ = replace(gone, store=Interrupted(gone.store, BATCH, lambda: gone.store.delete(seen))).change(
        seen, never, noted
    )
    assert (told.result, told.why) == ("left", "its row is gone")


def test_a_lease_is_told_by_its_shard() -> None:
    told = action().told(action().expect_lease("s-held"), "left", "why")
    assert (told.kind, told.name, told.owner, told.why) == ("lease", "s-held", OWNER, "why")
    assert action().told(frozen_batch(), "left").kind == "batch"
