# SPDX-License-Identifier: Apache-2.0
"""Intervals that join what live readers see: only where they cannot overlap, neither live records nor each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.reset import reset
from shardbatch.control.set_aside import set_aside
from shardbatch.core.interval import MARGIN_MS, Interval
from shardbatch.core.policies import Intervals, Outputs
from shardbatch.core.position import LATEST, TRIM_HORIZON, Position, after, at_timestamp
from shardbatch.core.rows import APPLICATION, BATCH, INTERVAL
from shardbatch.core.start import Work
from shardbatch.errors import ConfigurationError, StagingError
from shardbatch.run import choice as choices
from tests.support.backfill import (
    Backfill,
    Died,
    die,
    every_row,
    latest,
    live,
    rows_of,
    span_of,
    taken_back,
)
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import Interrupted, application, done, told

JOIN = Outputs(intervals=Intervals.JOIN)
HOUR = 3_600_000


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def started(rig: Rig, start: Position, *, after_ms: int = HOUR) -> tuple[Interval, list[str]]:
    """Records of an interval, then a live application that began there, some time after."""
    sent, span = rig.stream.put(*"ab"), span_of(rig)
    rig.stream.now_ms += after_ms
    rig.time.ms += after_ms
    rig.run("r0", start=start)
    return span, sent


def test_a_reset_to_before_an_interval_that_has_joined_says_that_readers_may_see_records_twice(rig: Rig) -> None:
    span, _ = started(rig, LATEST)
    start = rig.consumer().leases()[0].begins
    assert start is not None
    back: dict[str, Any] = {"every": True, "dry_run": True}
    assert not any("TWICE" in item.effect for item in told(reset, rig, to=TRIM_HORIZON, **back))
    Backfill(rig, span, "b1", outputs=JOIN).whole()
    assert all("TWICE" in item.effect for item in told(reset, rig, to=TRIM_HORIZON, **back))
    assert all("TWICE" in item.effect for item in told(reset, rig, to=at_timestamp(span.from_ms), **back))
    assert not any("TWICE" in item.effect for item in told(reset, rig, to=start, **back))


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


def test_an_interval_that_overlaps_one_that_joined_does_not_join_and_one_beside_it_does(rig: Rig) -> None:
    earlier = rig.stream.put("x")
    rig.stream.now_ms += 1000
    span, sent = started(rig, LATEST)
    Backfill(rig, span, "b1", outputs=JOIN).whole()
    backfill = Backfill(rig, Interval(span.from_ms - 1000, span.to_ms), "b2", outputs=JOIN)
    backfill.worked()
    refused(rig, backfill)
    Backfill(rig, Interval(span.from_ms - 1000, span.from_ms), "b3", outputs=JOIN).whole()
    assert live(rig) == earlier + sent


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
