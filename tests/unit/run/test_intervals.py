# SPDX-License-Identifier: Apache-2.0
"""What readers see of interval runs beside the live application: the latest run over each interval."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from shardbatch.control.set_aside import set_aside
from shardbatch.control.status import batches as listed
from shardbatch.control.status import status
from shardbatch.core.interval import Interval
from shardbatch.core.rows import BATCH, INTERVAL
from shardbatch.errors import ReplayRefused
from shardbatch.run.intervals import interval_row, require_latest
from tests.support.backfill import (
    Backfill,
    Died,
    die,
    every_row,
    latest,
    live,
    of_interval,
    span_of,
    taken_back,
)
from tests.support.rig import Rig
from tests.support.verbs import Interrupted, done, namespace

HOUR = 3_600_000


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def test_an_interval_over_what_is_committed_doubles_nothing_that_live_readers_see(rig: Rig) -> None:
    # Issue 8, A.4: 90,000 rows became 120,000
    sent = rig.stream.put(*"abc")
    rig.run("r1")
    backfill = Backfill(rig, span_of(rig), "b1")
    backfill.whole()
    assert live(rig) == rig.sink() == sent
    assert of_interval(rig, span_of(rig)) == sent
    rig.stream.now_ms += HOUR
    more = rig.stream.put("d")
    rig.run("r2")
    assert live(rig) == sent + more


def test_the_commit_of_an_interval_says_which_call_reads_it(rig: Rig) -> None:
    rig.stream.put("a")
    backfill, span = Backfill(rig, span_of(rig), "b1"), span_of(rig)
    backfill.whole(roots=("out", "rejects"))
    for root in ("out", "rejects"):
        call = f"read_committed(spark, {str(rig.folder.parent / root)!r}, interval=({span.from_ms}, {span.to_ms}))"
        assert f"Readers see this interval by {call}." in rig.said


def test_a_second_run_over_an_interval_replaces_the_first_and_empties_its_roots(rig: Rig) -> None:
    sent, span = rig.stream.put(*"ab"), span_of(rig)
    first = Backfill(rig, span, "b1")
    first.whole(roots=("out", "rejects"))
    assert of_interval(rig, span, "rejects") == sent
    second = Backfill(rig, span, "b2")
    second.whole(roots=("out", "more"))
    assert of_interval(rig, span) == of_interval(rig, span, "more") == sent
    assert of_interval(rig, span, "rejects") == []
    assert (first.row.number, second.row.number) == (1, 2)
    third = Backfill(rig, span, "b3")  # it knows of roots that only the first wrote to
    third.whole(roots=("rejects",))
    assert of_interval(rig, span, "rejects") == sent
    assert of_interval(rig, span) == of_interval(rig, span, "more") == []


def test_another_interval_is_replaced_by_nobody(rig: Rig) -> None:
    sent, span = rig.stream.put("a"), span_of(rig)
    Backfill(rig, span, "b1").whole()
    rig.stream.now_ms += HOUR
    rig.time.ms += HOUR
    wider = Interval(span.from_ms, rig.stream.now_ms + 1)
    sent_later = rig.stream.put("b")
    Backfill(rig, wider, "b2").whole()
    assert of_interval(rig, span) == sent
    assert of_interval(rig, wider) == sent + sent_later


def test_a_replay_of_the_latest_keeps_its_number_and_shows_the_new_output(rig: Rig) -> None:
    sent, span = rig.stream.put("a"), span_of(rig)
    backfill = Backfill(rig, span, "b1")
    backfill.whole(roots=("out",))
    backfill.whole(roots=("more",))
    assert (backfill.row.number, backfill.row.decided) == (1, 2)
    assert (of_interval(rig, span), of_interval(rig, span, "more")) == ([], sent)


def test_a_replay_of_the_first_after_the_second_is_refused_before_anything_changes(rig: Rig) -> None:
    sent, span = rig.stream.put("a"), span_of(rig)
    first, second = Backfill(rig, span, "b1"), Backfill(rig, span, "b2")
    first.whole()
    second.whole()
    before = every_row(rig)
    with pytest.raises(ReplayRefused, match="later run over the interval"):
        first.frozen()  # before the work, not only behind it
    assert every_row(rig) == before
    assert of_interval(rig, span) == sent


def test_a_replay_that_was_at_work_when_a_later_run_decided_is_refused_in_its_commit(rig: Rig) -> None:
    sent, span = rig.stream.put("a"), span_of(rig)
    first, second = Backfill(rig, span, "b1"), Backfill(rig, span, "b2")
    first.whole()
    first.worked(roots=("late",))
    second.whole()
    before = every_row(rig)
    with pytest.raises(ReplayRefused, match="later run over the interval"):
        first.commit()
    assert every_row(rig) == before
    assert rig.decisions("late") == {}
    assert of_interval(rig, span) == sent


# ------------------------------------------------------------------ numbers


def test_of_two_that_decide_at_once_the_number_is_drawn_before_and_differs(rig: Rig) -> None:
    sent, span = rig.stream.put("a"), span_of(rig)
    first, second = Backfill(rig, span, "b1"), Backfill(rig, span, "b2")
    first.worked(roots=("out", "first"))
    second.worked(roots=("out", "second"))
    store = Interrupted(rig.store, BATCH, second.commit)  # between the number of the first and its decision
    first.commit(store=store)
    assert (first.row.number, second.row.number) == (1, 2)
    assert [one.batch_id for one in latest(rig, "out") if one.interval] == [second.batch_id]
    assert of_interval(rig, span) == of_interval(rig, span, "second") == sent
    assert of_interval(rig, span, "first") == []  # the later one knew of it, although it was not written yet


def test_of_two_that_draw_at_once_each_has_its_own(rig: Rig) -> None:
    span = span_of(rig)
    rig.stream.put("a")
    first, second = Backfill(rig, span, "b1"), Backfill(rig, span, "b2")
    first.worked()
    second.worked()
    first.commit(store=Interrupted(rig.store, INTERVAL, second.commit))
    assert sorted((first.row.number, second.row.number)) == [1, 2]


def test_a_commit_that_died_between_its_number_and_its_decision_goes_on(rig: Rig) -> None:
    sent, span = rig.stream.put("a"), span_of(rig)
    backfill = Backfill(rig, span, "b1")
    backfill.worked()

    with pytest.raises(Died):
        backfill.commit(store=Interrupted(rig.store, BATCH, die))
    row = interval_row(backfill.consumer, (span.from_ms, span.to_ms))
    assert row is not None
    assert (row.number, backfill.row.number, of_interval(rig, span)) == (1, 0, [])
    backfill.commit()
    assert backfill.row.number == 2
    assert of_interval(rig, span) == sent
    rig.over("b1")
    assert Backfill(rig, span, "b2").whole() != backfill.batch_id


def test_commits_that_died_before_their_markers_are_told_when_they_are_tried_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, span = rig.stream.put("a"), span_of(rig)
    backfill = Backfill(rig, span, "b1")
    backfill.worked()

    with monkeypatch.context() as patched:
        patched.setattr(backfill.consumer.landing.outputs, "mark", die)
        with pytest.raises(Died):
            backfill.commit()
    assert (backfill.row.number, of_interval(rig, span)) == (1, [])
    backfill.commit()
    assert (backfill.row.number, of_interval(rig, span)) == (1, sent)


# ------------------------------------------------------------------ what people are shown


def test_batches_and_status_tell_intervals_from_the_live_application(rig: Rig) -> None:
    rig.stream.put(*"abc")
    rig.run("r1")
    span = span_of(rig)
    first, second, third = (Backfill(rig, span, run) for run in ("b1", "b2", "b3"))
    first.whole()
    second.whole()
    third.frozen()
    shown = {found.batch_id: found for found in listed(rig.store, namespace(rig))}
    assert list(shown) == sorted(shown, reverse=True)
    assert [found.readers for found in shown.values()] == ["none", "interval", "replaced", "live"]
    row = shown[second.batch_id]
    assert (row.scope, row.number, row.joins) == (second.owner.scope, 2, False)
    assert (row.interval, row.from_ms) == ("2027-01-15T08:00:00Z/2027-01-15T08:00:00.001Z", span.from_ms)
    assert [found.scope for found in listed(rig.store, namespace(rig), scope="")] == [""]
    assert [found.batch_id for found in listed(rig.store, namespace(rig), limit=1)] == [third.batch_id]

    found = status(rig.store, namespace(rig))
    assert (found.committed_batches, found.unfinished) == (1, ())
    assert (found.intervals.committed_batches, found.intervals.seen_batches) == (2, 1)
    assert [item.batch_id for item in found.intervals.unfinished] == [third.batch_id]
    taken_back(rig, second.batch_id)
    found = status(rig.store, namespace(rig))
    assert (found.intervals.committed_batches, found.intervals.seen_batches) == (2, 0)
    done(set_aside, rig, third.batch_id)
    found = status(rig.store, namespace(rig))
    assert ([item.batch_id for item in found.intervals.set_aside], found.set_aside) == ([third.batch_id], ())


def test_a_batch_whose_bounds_were_not_written_down_is_not_shown_as_a_live_one(rig: Rig) -> None:
    rig.stream.put("a")
    backfill = Backfill(rig, span_of(rig), "b1")
    backfill.whole()
    row = backfill.row  # as version 0.1.0 left it
    assert rig.store.replace(row, replace(row, from_ms=None, to_ms=None, number=0, row_count=row.row_count + 1))
    with pytest.raises(ReplayRefused, match=r"0\.1\.0"):
        require_latest(rig.consumer(), backfill.row)
    assert live(rig) == []
