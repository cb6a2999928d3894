# SPDX-License-Identifier: Apache-2.0
"""A drop takes back what readers see of an interval, and nothing brings earlier output back with it."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.drop import drop
from shardbatch.control.set_aside import set_aside
from shardbatch.control.status import batches as listed
from shardbatch.errors import ConfigurationError, NothingFinished, ReplayRefused, StagingError
from shardbatch.run.attempt import beat, end
from tests.support.backfill import (
    Backfill,
    Died,
    die,
    every_row,
    live,
    of_interval,
    span_of,
    taken_back,
)
from tests.support.rig import Rig
from tests.support.verbs import everything, namespace, told


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def test_a_drop_takes_an_intervals_output_back_wherever_the_batch_is(rig: Rig) -> None:
    sent, span = rig.stream.put("a"), span_of(rig)
    rig.run("r1")
    backfill = Backfill(rig, span, "b1")
    batch_id = backfill.whole(roots=("out", "rejects"))
    before = everything(rig)
    (preview,) = taken_back(rig, batch_id, dry_run=True, reason="")
    assert (preview.result, everything(rig)) == ("would drop", before)
    for root in ("out", "rejects"):
        call = f"read_committed(spark, {str(rig.folder.parent / root)!r}, interval=({span.from_ms}, {span.to_ms}))"
        assert call in preview.effect
    assert [item.result for item in taken_back(rig, batch_id)] == ["dropped"]
    assert of_interval(rig, span) == of_interval(rig, span, "rejects") == []
    assert live(rig) == sent
    assert (backfill.row.number, backfill.row.roots) == (
        1,
        tuple(str(rig.folder.parent / r) for r in ("out", "rejects")),
    )
    assert "ann dropped: bad data" in (backfill.row.note or "")
    assert [item.result for item in taken_back(rig, batch_id)] == ["already"]


def test_a_drop_without_staging_is_refused_and_says_what_to_give(rig: Rig) -> None:
    rig.stream.put("a")
    backfill = Backfill(rig, span_of(rig), "b1")
    batch_id = backfill.whole()
    before = every_row(rig)
    with pytest.raises(ConfigurationError, match="--staging"):
        told(drop, rig, batch_id)
    assert every_row(rig) == before


def test_a_drop_that_cannot_tell_a_root_changes_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.stream.put("a")
    backfill = Backfill(rig, span_of(rig), "b1")
    batch_id = backfill.whole()
    landing = rig.consumer().landing

    def away(*_: Any, **__: Any) -> None:
        raise StagingError("out of reach")

    monkeypatch.setattr(landing.outputs, "look", away)
    before = every_row(rig)
    with pytest.raises(StagingError):
        told(drop, rig, batch_id, landing=landing)
    assert every_row(rig) == before


def test_a_drop_that_died_before_the_roots_were_told_is_finished_by_another(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, span = rig.stream.put("a"), span_of(rig)
    backfill = Backfill(rig, span, "b1")
    batch_id = backfill.whole()

    landing = rig.consumer().landing
    with monkeypatch.context() as patched:
        patched.setattr(landing.outputs, "mark", die)
        with pytest.raises(Died):
            told(drop, rig, batch_id, landing=landing)
    assert of_interval(rig, span) == sent
    assert [item.result for item in taken_back(rig, batch_id)] == ["already"]
    assert of_interval(rig, span) == []


def test_setting_aside_does_not_finish_a_drop_that_died_before_the_roots_were_told(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit dies before its leases move, then a drop before its markers: the stamps wait for a drop (L5, O4)."""
    sent, span = rig.stream.put("a"), span_of(rig)
    backfill = Backfill(rig, span, "b1")
    backfill.worked()
    with monkeypatch.context() as patched:
        patched.setattr(import_module("shardbatch.run.commit"), "roll_forward", die)
        with pytest.raises(Died):
            backfill.commit()
    landing = rig.consumer().landing
    with monkeypatch.context() as patched:
        patched.setattr(landing.outputs, "mark", die)
        with pytest.raises(Died):
            told(drop, rig, backfill.batch_id, landing=landing)
    stamped = backfill.consumer.leases(batch_id=backfill.batch_id)
    assert stamped
    assert [item.why for item in told(set_aside, rig, backfill.batch_id)] == ["it is dropped already"]
    assert backfill.consumer.leases(batch_id=backfill.batch_id) == stamped
    assert of_interval(rig, span) == sent
    taken_back(rig, backfill.batch_id)
    assert (of_interval(rig, span), backfill.consumer.leases()) == ([], [])


def test_a_replay_of_what_was_taken_back_gives_it_output_again(rig: Rig) -> None:
    sent, span = rig.stream.put("a"), span_of(rig)
    backfill = Backfill(rig, span, "b1")
    batch_id = backfill.whole()
    taken_back(rig, batch_id)
    with pytest.raises(NothingFinished, match="set aside"):
        backfill.commit()  # a retry of the commit that was taken back
    assert backfill.whole() == batch_id
    assert of_interval(rig, span) == sent
    assert (backfill.row.decided, backfill.row.number, backfill.row.set_aside) == (3, 1, None)


@pytest.mark.parametrize("closed", [True, False])
def test_a_replay_of_what_was_taken_back_waits_for_an_application_that_may_live_on(rig: Rig, closed: bool) -> None:
    """A person marked its task as a success, or the end of it was not written; the drop opened an attempt over that."""
    rig.stream.put("a")
    backfill = Backfill(rig, span_of(rig), "b1")
    made = backfill.worked()
    beat(backfill.consumer, backfill.owner, backfill.batch_id, made.attempt, "application-1", "transform")
    if closed:
        end(backfill.consumer, backfill.batch_id, made.attempt)
    backfill.commit()
    taken_back(rig, backfill.batch_id)
    before = rig.time.ms
    backfill.frozen()
    grace_ms = backfill.consumer.options.attempt_grace.total_seconds() * 1000
    assert (rig.time.ms - before >= grace_ms) is not closed


def test_what_was_taken_back_does_not_bring_an_earlier_runs_output_back(rig: Rig) -> None:
    rig.stream.put("a")
    span = span_of(rig)
    first, second = Backfill(rig, span, "b1"), Backfill(rig, span, "b2")
    first.whole(roots=("out", "old"))
    second.whole()
    taken_back(rig, second.batch_id)
    assert of_interval(rig, span) == of_interval(rig, span, "old") == []
    with pytest.raises(ReplayRefused):  # as ever: a number never falls
        first.frozen()
    (preview,) = taken_back(rig, first.batch_id, dry_run=True)
    assert "readers go by a later run over its interval already" in preview.effect
    taken_back(rig, first.batch_id)
    assert of_interval(rig, span) == []


def test_a_drop_of_an_earlier_run_leaves_the_later_ones_output(rig: Rig) -> None:
    sent, span = rig.stream.put("a"), span_of(rig)
    first, second = Backfill(rig, span, "b1"), Backfill(rig, span, "b2")
    first.whole()
    second.whole()
    taken_back(rig, first.batch_id)
    assert of_interval(rig, span) == sent


def test_a_batch_of_an_interval_before_any_live_claim_is_taken_back_too(rig: Rig) -> None:
    rig.stream.put("a")
    span = span_of(rig)
    backfill = Backfill(rig, span, "b1")
    batch_id = backfill.whole()
    assert rig.consumer().application() is None
    assert [found.batch_id for found in listed(rig.store, namespace(rig))] == [batch_id]
    assert [item.result for item in taken_back(rig, batch_id)] == ["dropped"]
    assert of_interval(rig, span) == []


def test_a_drop_of_a_batch_of_version_1_remembers_the_roots_of_its_starts(rig: Rig) -> None:
    rig.stream.put("a")
    backfill = Backfill(rig, span_of(rig), "b1")
    backfill.whole(roots=("out", "rejects"))
    row = backfill.row
    old = replace(row, row_count=row.row_count + 1, roots=(), from_ms=None, to_ms=None, number=0)
    assert rig.store.replace(row, old)
    taken_back(rig, row.batch_id)
    for root in ("out", "rejects"):
        assert rig.decisions(root)[row.batch_id].starts == ()


def test_a_live_batch_is_not_taken_back(rig: Rig) -> None:
    sent = rig.stream.put("a")
    committed = rig.run("r1")
    (item,) = taken_back(rig, committed.batch_id or "")
    assert (item.result, item.why) == ("left", "it is committed, so its records are done")
    assert rig.sink() == sent
