# SPDX-License-Identifier: Apache-2.0
"""What readers see of interval runs beside the live application: the latest run over each interval, apart or joined."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardbatch.consumer import Claim, Committed, Consumer, Frozen, claim, commit, freeze, land
from shardbatch.consumer import choice as choices
from shardbatch.consumer.drop import drop
from shardbatch.consumer.intervals import interval_row
from shardbatch.consumer.reset import reset
from shardbatch.consumer.set_aside import set_aside
from shardbatch.consumer.status import batches as listed
from shardbatch.consumer.status import status
from shardbatch.core.batch import Batch
from shardbatch.core.decision import Decision
from shardbatch.core.interval import MARGIN_MS, Interval
from shardbatch.core.owner import Owner
from shardbatch.core.policies import Intervals, Outputs
from shardbatch.core.position import LATEST, TRIM_HORIZON, Position, after, at_timestamp
from shardbatch.core.rows import APPLICATION, BATCH, INTERVAL, SHARD_LEASE
from shardbatch.core.start import Work
from shardbatch.errors import ConfigurationError, NothingFinished, ReplayRefused, StagingError
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import Interrupted, application, done, everything, namespace, told

JOIN = Outputs(intervals=Intervals.JOIN)
HOUR = 3_600_000


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


class Backfill:
    """A run over an interval, step by step; ``again`` is the same run after it was cleared."""

    def __init__(self, rig: Rig, span: Interval, run: str, **changes: Any) -> None:
        self.rig = rig
        self.owner: Owner = replace(rig.owner(run), mode="interval")
        self.consumer: Consumer = rig.consumer(scope=self.owner.scope, interval=span, **changes)
        self.made = Frozen()

    def frozen(self) -> Frozen:
        found: Claim = claim(self.consumer, self.owner)
        for group in found.groups:
            land(self.consumer, self.owner, group.group, self.rig.stream.now_ms)
        self.made = freeze(self.consumer, self.owner, found.batch_id)
        return self.made

    def worked(self, roots: Sequence[str] = ("out",)) -> Frozen:
        made = self.frozen()
        self.rig.work(made, roots=roots)
        return made

    def commit(self, **changes: Any) -> Committed:
        consumer = replace(self.consumer, **changes)
        return commit(consumer, self.owner, self.made.batch_id, self.made.attempt, works=[Work("transform")])

    def whole(self, roots: Sequence[str] = ("out",)) -> str:
        self.worked(roots)
        self.commit()
        return self.batch_id

    @property
    def batch_id(self) -> str:
        assert self.made.batch_id is not None
        return self.made.batch_id

    @property
    def row(self) -> Batch:
        row = self.consumer.batch(self.batch_id)
        assert row is not None
        return row


def span_of(rig: Rig) -> Interval:
    """All that arrived now, by the stream's clock."""
    return Interval(rig.stream.now_ms, rig.stream.now_ms + 1)


def latest(rig: Rig, root: str) -> list[Decision]:
    """What a reader goes by: of each batch the highest decision, of each interval then the highest number."""
    told = rig.decisions(root).values()
    highest: dict[Any, int] = {}
    for one in told:
        highest[one.interval] = max(highest.get(one.interval, 0), one.number)
    return [one for one in told if one.interval is None or one.number == highest[one.interval]]


def rows_of(rig: Rig, root: str, found: Sequence[Decision]) -> list[str]:
    places = [
        rig.folder.parent / root / f"batch_id={one.batch_id}" / f"start={start_id}"
        for one in found
        for start_id, _ in one.starts
    ]
    seen = [row for place in places for row in json.loads((place / "records.json").read_text())]
    return sorted(seen, key=Position.parse)


def live(rig: Rig, root: str = "out") -> list[str]:
    return rows_of(rig, root, [one for one in latest(rig, root) if one.interval is None or one.joins])


def of_interval(rig: Rig, span: Interval, root: str = "out") -> list[str]:
    return rows_of(rig, root, [one for one in latest(rig, root) if one.interval == (span.from_ms, span.to_ms)])


# ------------------------------------------------------------------ apart


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
    with pytest.raises(ReplayRefused, match="later run read the interval"):
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
    with pytest.raises(ReplayRefused, match="later run read the interval"):
        first.commit()
    assert every_row(rig) == before
    assert rig.decisions("late") == {}
    assert of_interval(rig, span) == sent


def every_row(rig: Rig) -> list[tuple[Any, ...]]:
    """All rows of all scopes, as they stand."""
    tables = (SHARD_LEASE, BATCH, APPLICATION, INTERVAL)
    rows = [row for table in tables for row in rig.store.list(table, namespace(rig), None)]
    return [(row.key.values, row.columns()) for row in rows]


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


class Died(Exception):
    """The process ends here."""


def die(*_: Any) -> None:
    raise Died


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


# ------------------------------------------------------------------ drop


def taken_back(rig: Rig, batch_id: str, **chosen: Any) -> list[Any]:
    return told(drop, rig, batch_id, landing=rig.consumer().landing, **chosen)


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


# ------------------------------------------------------------------ join


def started(rig: Rig, start: Position, *, after_ms: int = HOUR) -> tuple[Interval, list[str]]:
    """Records of an interval, then a live application that began there, some time after."""
    sent, span = rig.stream.put(*"ab"), span_of(rig)
    rig.stream.now_ms += after_ms
    rig.time.ms += after_ms
    rig.run("r0", start=start)
    return span, sent


def test_what_arrived_before_the_live_application_began_may_join(rig: Rig) -> None:
    span, sent = started(rig, LATEST)
    own = rig.stream.put("c")
    rig.run("r1")
    assert live(rig) == own
    Backfill(rig, span, "b1", outputs=JOIN).whole()
    assert live(rig) == sent + own
    assert application(rig).shown_intervals == ((span.from_ms, span.to_ms),)
    assert not any("Readers see this interval" in line for line in rig.said)
    second = Backfill(rig, span, "b2", outputs=JOIN)
    second.whole()  # the same interval again is no overlap: it replaces
    assert live(rig) == latest_of_joined(rig, second) + own


def latest_of_joined(rig: Rig, backfill: Backfill) -> list[str]:
    return rows_of(rig, "out", [one for one in latest(rig, "out") if one.batch_id == backfill.batch_id])


@pytest.mark.parametrize("gap_ms", [MARGIN_MS, MARGIN_MS + 1])
def test_what_may_join_ends_a_margin_before_the_live_application_began(rig: Rig, gap_ms: int) -> None:
    span, sent = started(rig, LATEST, after_ms=gap_ms)
    backfill = Backfill(rig, span, "b1", outputs=JOIN)
    backfill.worked()
    if span.to_ms + MARGIN_MS > rig.stream.now_ms:
        with pytest.raises(ConfigurationError, match="would join"):
            backfill.commit()
        assert live(rig) == []
    else:
        backfill.commit()
        assert live(rig) == sent


def refused(rig: Rig, backfill: Backfill) -> None:
    """Its commit fails and changes nothing, the application's row included."""
    seen, before = live(rig), every_row(rig)
    with pytest.raises(ConfigurationError, match="would join what live readers see"):
        backfill.commit()
    assert (live(rig), every_row(rig)) == (seen, before)


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "at work"])
def test_what_the_live_application_reads_from_its_beginning_does_not_join(rig: Rig, committed: bool) -> None:
    rig.stream.put("a")
    if committed:
        rig.run("r1")
    else:
        rig.claim("r1")  # nothing of it is committed yet, and it will be
    backfill = Backfill(rig, span_of(rig), "b1", outputs=JOIN)
    backfill.worked()
    refused(rig, backfill)


def test_a_shard_that_has_no_live_row_does_not_join(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    span, _ = started(rig, LATEST)
    shard_id = next(shard_id for shard_id, shard in rig.stream.shards.items() if shard.items)
    row = rig.consumer().lease(shard_id)
    assert row is not None
    assert rig.store.delete(row)
    backfill = Backfill(rig, span, "b1", outputs=JOIN)
    backfill.worked()
    refused(rig, backfill)


def test_nothing_joins_an_application_that_never_claimed(rig: Rig) -> None:
    rig.stream.put("a")
    backfill = Backfill(rig, span_of(rig), "b1", outputs=JOIN)
    backfill.worked()
    refused(rig, backfill)


def test_what_was_refused_leaves_no_bounds_behind_that_keep_others_out(rig: Rig) -> None:
    span, sent = started(rig, LATEST)
    rig.stream.put("c")
    wide = Backfill(rig, Interval(span.from_ms, rig.stream.now_ms + 1), "b1", outputs=JOIN)
    wide.worked()
    refused(rig, wide)
    Backfill(rig, span, "b2", outputs=JOIN).whole()
    assert live(rig) == sent


def test_an_interval_that_overlaps_one_that_joined_does_not_join(rig: Rig) -> None:
    span, sent = started(rig, LATEST)
    Backfill(rig, span, "b1", outputs=JOIN).whole()
    backfill = Backfill(rig, Interval(span.from_ms - 1, span.to_ms), "b2", outputs=JOIN)
    backfill.worked()
    refused(rig, backfill)
    beside = Backfill(rig, Interval(span.from_ms - 1, span.from_ms), "b3", outputs=JOIN)
    beside.frozen()
    assert live(rig) == sent


def test_of_two_that_overlap_and_join_at_once_one_is_refused(rig: Rig) -> None:
    span, sent = started(rig, LATEST)
    first = Backfill(rig, span, "b1", outputs=JOIN)
    second = Backfill(rig, Interval(span.from_ms, span.to_ms + 1), "b2", outputs=JOIN)
    first.worked()
    second.worked()
    store = Interrupted(rig.store, BATCH, lambda: refused_at_once(second))
    first.commit(store=store)  # the second comes between the bounds of the first and its decision
    assert live(rig) == sent


def test_of_two_that_put_their_bounds_at_once_one_is_refused(rig: Rig) -> None:
    span, sent = started(rig, LATEST)
    first = Backfill(rig, span, "b1", outputs=JOIN)
    second = Backfill(rig, Interval(span.from_ms, span.to_ms + 1), "b2", outputs=JOIN)
    first.worked()
    second.worked()
    with pytest.raises(ConfigurationError, match="those of the interval"):
        first.commit(store=Interrupted(rig.store, APPLICATION, second.commit))
    assert live(rig) == sent


def refused_at_once(backfill: Backfill) -> None:
    with pytest.raises(ConfigurationError, match="those of the interval"):
        backfill.commit()


def test_a_commit_that_died_after_it_put_its_bounds_goes_on(rig: Rig) -> None:
    span, sent = started(rig, LATEST)
    backfill = Backfill(rig, span, "b1", outputs=JOIN)
    backfill.worked()

    with pytest.raises(Died):
        backfill.commit(store=Interrupted(rig.store, INTERVAL, die))
    assert application(rig).shown_intervals == ((span.from_ms, span.to_ms),)
    backfill.commit()
    assert live(rig) == sent


def test_a_reset_lowers_where_the_live_application_begins(rig: Rig) -> None:
    span, _ = started(rig, LATEST)
    (shard_id,) = rig.stream.shards
    began = rig.stream.now_ms
    for target, begins in (
        (at_timestamp(began + HOUR), at_timestamp(began)),  # a later place changes nothing
        (at_timestamp(span.from_ms), at_timestamp(span.from_ms)),
        (after("100"), TRIM_HORIZON),  # nobody can tell which of the two comes first
        (TRIM_HORIZON, TRIM_HORIZON),
    ):
        told(reset, rig, to=target, shards=[shard_id])
        row = rig.consumer().lease(shard_id)
        assert row is not None
        assert row.begins == begins
    backfill = Backfill(rig, span, "b1", outputs=JOIN)
    backfill.worked()
    refused(rig, backfill)


def test_a_reset_between_the_look_and_the_bounds_is_noticed(rig: Rig) -> None:
    span, _ = started(rig, LATEST)
    (shard_id,) = rig.stream.shards
    backfill = Backfill(rig, span, "b1", outputs=JOIN)
    backfill.worked()
    store = Interrupted(rig.store, APPLICATION, lambda: told(reset, rig, to=TRIM_HORIZON, shards=[shard_id]))
    with pytest.raises(ConfigurationError, match="would join"):
        backfill.commit(store=store)
    assert live(rig) == []


def test_an_interval_that_was_set_aside_is_compared_before_its_replay_joins(rig: Rig) -> None:
    sent = rig.stream.put("a")
    rig.run("r1")
    backfill = Backfill(rig, span_of(rig), "b1", outputs=JOIN)
    backfill.frozen()
    assert done(set_aside, rig, backfill.batch_id) == [(backfill.batch_id, "set aside")]
    assert list(backfill.consumer.leases()) == []
    backfill.worked()
    refused(rig, backfill)
    assert live(rig) == sent


@pytest.mark.parametrize(("begins", "joins"), [("102", True), ("101", False), ("101/3", False), ("SHARD_END", True)])
def test_where_the_live_application_began_at_a_record_only_earlier_ones_join(
    rig: Rig, begins: str, joins: bool
) -> None:
    span, sent = started(rig, LATEST)  # records 100 and 101
    (row,) = rig.consumer().leases()
    assert rig.store.replace(row, replace(row, begins=Position.parse(begins), lease_count=row.lease_count + 1))
    backfill = Backfill(rig, span, "b1", outputs=JOIN)
    backfill.worked()
    if joins:
        backfill.commit()
        assert live(rig) == sent
    else:
        refused(rig, backfill)


def test_a_joined_interval_that_is_taken_back_leaves_live_readers_theirs(rig: Rig) -> None:
    span, _ = started(rig, LATEST)
    own = rig.stream.put("c")
    rig.run("r1")
    backfill = Backfill(rig, span, "b1", outputs=JOIN)
    (item,) = taken_back(rig, backfill.whole(), dry_run=True)
    assert f"read_committed(spark, {str(rig.folder.parent / 'out')!r})" in item.effect
    taken_back(rig, backfill.batch_id)
    assert live(rig) == own


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


def test_the_look_at_the_roots_comes_before_an_intervals_bounds_and_number(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    span, _ = started(rig, LATEST)
    backfill = Backfill(rig, span, "b1", outputs=JOIN)
    backfill.worked()
    landing = backfill.consumer.landing

    def away(*_: Any, **__: Any) -> None:
        raise StagingError("out of reach")

    monkeypatch.setattr(landing.outputs, "look", away)
    before = every_row(rig)
    with pytest.raises(StagingError):
        choices.choose_starts(backfill.consumer, backfill.row, backfill.made.attempt, [Work("transform")])
    assert every_row(rig) == before
