# SPDX-License-Identifier: Apache-2.0
"""Interval runs read their whole span or fail: their side leases do not outlive the commit."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shardbatch.core.interval import Interval
from shardbatch.core.limits import ReadLimits
from shardbatch.core.looks import LookAgain, Looks
from shardbatch.core.owner import Owner
from shardbatch.core.policies import ClaimOptions
from shardbatch.core.ports import Clock, Page
from shardbatch.core.position import TRIM_HORIZON, Kind, Position, after
from shardbatch.core.start import Work
from shardbatch.errors import ConfigurationError, GapFound, SourceError
from shardbatch.run import Consumer, claim, commit, freeze, land
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def beside(rig: Rig, span: Interval, **changes: Any) -> tuple[Consumer, Owner]:
    owner = replace(rig.owner("backfill"), mode="interval")
    return rig.consumer(scope=owner.scope, interval=span, **changes), owner


def resharded(rig: Rig) -> tuple[Interval, list[str]]:
    """Two shards, one of them split, with records before and after; all arrived within the interval."""
    rig.stream = ScriptedStream(shards=2)
    sent = rig.stream.put(*"abcdef")
    rig.stream.split(next(iter(rig.stream.shards)))
    sent += rig.stream.put(*"ghijkl")
    return Interval(rig.stream.now_ms, rig.stream.now_ms + 1), sent


def run(rig: Rig, consumer: Consumer, owner: Owner) -> list[str]:
    found = claim(consumer, owner)
    for group in found.groups:
        land(consumer, owner, group.group, rig.stream.now_ms)
    frozen = freeze(consumer, owner)
    rig.work(frozen)
    commit(consumer, owner, frozen.batch_id, frozen.attempt, works=[Work("transform")])
    return sorted(rig.records(frozen.batch_id or ""), key=int)


def test_limits_of_a_run_leave_nothing_of_an_interval_unread(rig: Rig) -> None:
    span, sent = resharded(rig)
    options = ClaimOptions(max_shards=1, drain_lineage=False)
    assert run(rig, *beside(rig, span, options=options)) == sent


def test_time_leaves_nothing_of_an_interval_unread(rig: Rig) -> None:
    span, sent = resharded(rig)
    ticks = iter(range(100_000))
    clock = Clock(rig.time.now_ms, lambda: float(next(ticks)), rig.time.sleep)
    limits = ReadLimits(duration=timedelta(seconds=1))
    assert run(rig, *beside(rig, span, clock=clock, limits=limits)) == sent


def test_a_shard_that_cannot_be_read_fails_the_interval_before_its_commit(rig: Rig) -> None:
    span, sent = resharded(rig)
    _, right = list(rig.stream.shards)[:2]
    rig.stream.failing[right] = SourceError("broken")
    consumer, owner = beside(rig, span, options=ClaimOptions(read_tasks=1))
    found = claim(consumer, owner)
    assert len(found.groups) == 1
    with pytest.raises(SourceError, match="broken"):
        land(consumer, owner, found.groups[0].group, rig.stream.now_ms)
    rig.stream.failing.clear()
    assert run(rig, *beside(rig, span)) == sent  # the same run, cleared


def test_an_interval_with_an_unread_shard_is_not_frozen(rig: Rig) -> None:
    span, _ = resharded(rig)
    consumer, owner = beside(rig, span, options=ClaimOptions(read_tasks=2), limits=ReadLimits(concurrency=1))
    found = claim(consumer, owner)
    land(consumer, owner, found.groups[0].group, rig.stream.now_ms)
    with pytest.raises(SourceError, match="not read"):
        freeze(consumer, owner)


def test_a_gap_in_an_interval_fails_it_before_its_commit(rig: Rig) -> None:
    span, _ = resharded(rig)
    consumer, owner = beside(rig, span)
    found = claim(consumer, owner)
    rig.stream.forget(next(iter(rig.stream.shards)))
    for group in found.groups:
        land(consumer, owner, group.group, rig.stream.now_ms)
    with pytest.raises(GapFound, match="left the stream"):
        freeze(consumer, owner)


def test_an_interval_that_is_not_over_is_refused(rig: Rig) -> None:
    rig.stream.put("a")
    span = Interval(rig.time.ms - 1000, rig.time.ms + 3_600_000)
    with pytest.raises(ConfigurationError, match="not over"):
        claim(*beside(rig, span))


def test_an_interval_that_is_over_in_a_moment_is_waited_for(rig: Rig) -> None:
    rig.stream.put("a")
    span = Interval(rig.time.ms - 1000, rig.time.ms + 30_000)
    claim(*beside(rig, span))
    assert rig.time.ms >= span.to_ms + 60_000  # what is stamped before its end may be put so long after it


def test_a_claim_that_can_come_back_is_away_until_its_interval_is_over_and_holds_nothing(rig: Rig) -> None:
    rig.stream.put("a")
    span = Interval(rig.time.ms - 1000, rig.time.ms + 30_000)
    consumer, owner = beside(rig, span)
    began = rig.time.ms
    with pytest.raises(LookAgain) as caught:
        claim(consumer, owner, Looks())
    assert rig.time.ms - began < 1000
    assert caught.value.seconds == pytest.approx(90, abs=1)
    assert consumer.leases() == []
    rig.stream.now_ms += 40_000  # the stream's clock is slower than the one that waited
    with pytest.raises(LookAgain) as again:
        claim(consumer, owner, caught.value.looks)
    assert again.value.seconds == pytest.approx(50, abs=1)
    rig.stream.now_ms += 47_000
    began = rig.time.ms
    assert claim(consumer, owner, again.value.looks).shards == 1  # the rest is waited for in place
    assert rig.time.ms - began >= 2000


def test_waiting_for_its_end_leaves_an_interval_all_its_looks_at_rows(rig: Rig) -> None:
    rig.stream.put("a")
    seen = Looks({"s": (1, 300.0)}, 2)
    with pytest.raises(LookAgain) as caught:
        claim(*beside(rig, Interval(rig.time.ms - 1000, rig.time.ms + 30_000)), seen)
    assert caught.value.looks == seen


def test_two_intervals_that_meet_have_a_record_of_just_before_the_end_that_was_put_late(rig: Rig) -> None:
    """It is stamped a second before the first one's end, and put half a minute after it."""
    start = rig.time.ms = rig.stream.now_ms
    first = Interval(start, start + 60_000)
    second = Interval(first.to_ms, first.to_ms + 60_000)
    waited = rig.stream.put("a")

    def sleep(seconds: float) -> None:
        before, after = rig.time.ms, rig.time.ms + int(seconds * 1000)
        if before < first.to_ms + 30_000 <= after:
            rig.stream.now_ms = first.to_ms - 1000
            waited.extend(rig.stream.put("b"))
        rig.time.ms = rig.stream.now_ms = after

    rig.time.ms = rig.stream.now_ms = first.to_ms + 1000  # as a schedule starts it
    clock = Clock(rig.time.now_ms, lambda: rig.time.ms / 1000, sleep)
    found = run(rig, *beside(rig, first, clock=clock))
    rig.time.ms = rig.stream.now_ms = max(rig.time.ms, second.to_ms)
    owner = replace(rig.owner("backfill.2"), mode="interval")
    found += run(rig, rig.consumer(scope=owner.scope, interval=second, clock=clock), owner)
    if len(waited) == 1:  # nobody waited so long: it is put now
        waited.append("put too late for both")
    assert found == waited


def arriving(rig: Rig, *seconds: int) -> dict[int, str]:
    """Records in this order, that arrived so many seconds after the interval that ``span`` gives begins."""
    found, start = {}, rig.stream.now_ms
    for second in seconds:
        rig.stream.now_ms = start + second * 1000
        (found[second],) = rig.stream.put("a")
    rig.stream.now_ms = start
    return found


@pytest.mark.parametrize(
    ("order", "wanted"),
    [
        ((0, 12, 11, 2), [0, 2]),  # R38: behind the first record of after its end, one of before it
        ((12, 45, 69, 3, 80, 4), [3]),  # up to a minute after its end, and no further
        ((0, -1, 5, -2, 9, 10), [0, 5, 9]),
    ],
)
def test_arrival_times_may_go_backwards_by_a_minute(rig: Rig, order: tuple[int, ...], wanted: list[int]) -> None:
    rig.stream.page_size = 1
    number = arriving(rig, *order)
    span = Interval(rig.stream.now_ms, rig.stream.now_ms + 10_000)
    rig.stream.now_ms += 600_000
    rig.time.ms += 600_000
    assert run(rig, *beside(rig, span)) == [number[second] for second in wanted]


def test_a_place_by_time_that_comes_out_late_leaves_out_nothing(rig: Rig) -> None:
    """A service may look a time up in an index: in a stretch where times go backwards that is not their first place."""

    class Indexed(ScriptedStream):
        def read(self, shard_id: str, position: Position) -> Iterator[Page]:
            if position.kind is Kind.AT_TIMESTAMP:
                items = self.shards[shard_id].items
                place = bisect.bisect_left([item.arrival_ms for item in items], position.timestamp_ms or 0)
                position = after(str(items[place - 1].sequence_number)) if place else TRIM_HORIZON
            return super().read(shard_id, position)

    rig.stream = Indexed()
    number = arriving(rig, -300, 0, -5, -4, 3)
    span = Interval(rig.stream.now_ms, rig.stream.now_ms + 10_000)
    rig.stream.now_ms += 600_000
    rig.time.ms += 600_000
    assert run(rig, *beside(rig, span)) == [number[0], number[3]]
