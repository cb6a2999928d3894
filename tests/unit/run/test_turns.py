# SPDX-License-Identifier: Apache-2.0
"""What one shard takes of a task's time, records and bytes is not taken from the others."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shardbatch.core.interval import Interval
from shardbatch.core.limits import ReadLimits
from shardbatch.core.policies import ClaimOptions
from shardbatch.core.ports import Capabilities, Clock, Page
from shardbatch.core.position import Position
from shardbatch.errors import StagingError
from shardbatch.landing.writer import ParquetSliceWriter
from shardbatch.run import claim, freeze, land
from shardbatch.run.continuity import longest_ms
from shardbatch.run.land import WAIT_PART
from shardbatch.run.shard_errors import Stopped
from shardbatch.run.turns import Turns
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream

ONE_TASK = ClaimOptions(read_tasks=1)


class BusyStream(ScriptedStream):
    """Its first shard always has more than a run can read; every page takes a second."""

    def __init__(self, **options: Any) -> None:
        super().__init__(page_size=1, **options)
        self.seconds = 0
        self.busy = next(iter(self.shards))
        self.put(*"x" * 500, shard_id=self.busy)

    def read(self, shard_id: str, position: Position) -> Iterator[Page]:
        for page in super().read(shard_id, position):
            self.seconds += 1
            yield page


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    rig = Rig(tmp_path / "staging", BusyStream(shards=6))
    busy = rig.stream
    assert isinstance(busy, BusyStream)
    rig.options["options"] = ONE_TASK
    rig.options["clock"] = Clock(rig.time.now_ms, lambda: float(busy.seconds), rig.time.sleep)
    return rig


def sizes(rig: Rig) -> dict[str, int]:
    """Records of each shard that are committed."""
    done = set(rig.committed())
    return {s.shard_id: sum(str(i.sequence_number) in done for i in s.items) for s in rig.stream.shards.values()}


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_large_shard_leaves_the_others_their_time_and_has_what_they_do_not_need(rig: Rig, concurrency: int) -> None:
    first, *others = rig.stream.shards
    for shard_id in others:
        rig.stream.put("a", "b", shard_id=shard_id)
    rig.run("r1", limits=ReadLimits(duration=timedelta(seconds=60), concurrency=concurrency))
    read = sizes(rig)
    assert [read[shard_id] for shard_id in others] == [2] * 5  # read to their tips
    assert 40 <= read[first] <= 60


def test_large_shards_have_like_shares(rig: Rig) -> None:
    for shard_id in list(rig.stream.shards)[1:]:
        rig.stream.put(*"x" * 500, shard_id=shard_id)
    rig.run("r1", limits=ReadLimits(duration=timedelta(seconds=600), concurrency=1))
    read = sorted(sizes(rig).values())
    assert sum(read) == pytest.approx(600, abs=12)
    assert read[0] >= 75


@pytest.mark.parametrize("limits", [ReadLimits(records=5, concurrency=1), ReadLimits(bytes=15, concurrency=1)])
def test_limits_of_records_and_bytes_are_each_shards_own(rig: Rig, limits: ReadLimits) -> None:
    for shard_id in list(rig.stream.shards)[1:]:
        rig.stream.put(*"x" * 500, shard_id=shard_id)
    rig.run("r1", limits=limits)
    read = sizes(rig).values()
    assert 0 < max(read) <= min(read) + 1
    assert max(read) <= 5  # their data have three bytes each


def test_a_shard_waits_for_its_next_turn_no_longer_than_it_may() -> None:
    clock = Clock(lambda: 0, lambda: 0.0, lambda seconds: None)
    for concurrency, shards in itertools.product((1, 8), (2, 9, 40, 500)):
        turns = Turns(clock, concurrency, deadline=86_400.0, longest_wait=lambda: 240.0)
        turns._waiting.extend([None] * shards)  # type: ignore[list-item]
        between = turns._part() * turns._left(0.0) * (shards - concurrency) / concurrency
        assert between <= 240


@pytest.mark.parametrize(
    ("lives", "longest"), [(timedelta(minutes=5), 300_000), (timedelta(minutes=1), 60_000), (None, 300_000)]
)
def test_no_shard_waits_longer_than_its_place_in_the_stream_lives(lives: timedelta | None, longest: int) -> None:
    """A scan of a stretch without records has nothing else to go on from; and no answer may be older than clocks may
    differ. R36"""
    can = Capabilities(lineage=True, instants=True, arrival_times=True, place_lives=lives)
    assert longest_ms(can) == longest
    assert WAIT_PART < 1


def test_a_waiting_shard_holds_no_records_in_memory_and_loses_none(rig: Rig) -> None:
    first, second, *_ = rig.stream.shards
    sent = rig.stream.put(*"y" * 120, shard_id=second)
    rig.run("r1", limits=ReadLimits(duration=timedelta(seconds=900), concurrency=1))
    (batch,) = rig.batches()
    (landed,) = (s for s in rig.manifest(batch.batch_id)["slices"] if s["shard_id"] == second)
    assert len(landed["files"]) > 1  # each turn but the last completes a file
    assert [n for n in rig.records(batch.batch_id) if n in set(sent)] == sent
    assert sizes(rig)[first] > 0


def test_a_thread_that_is_done_takes_the_next_shard_while_another_is_slow(tmp_path: Path) -> None:
    class SlowStream(ScriptedStream):
        """Its first shard gives no answer before its last one is asked."""

        last_asked = threading.Event()
        waited: bool | None = None

        def read(self, shard_id: str, position: Position) -> Iterator[Page]:
            first, _, last = self.shards
            if shard_id == first:
                self.waited = self.last_asked.wait(10)
            elif shard_id == last:
                self.last_asked.set()
            yield from super().read(shard_id, position)

    rig = Rig(tmp_path / "staging", SlowStream(shards=3), options={"options": ONE_TASK})
    for shard_id in rig.stream.shards:
        rig.stream.put("a", shard_id=shard_id)
    rig.run("r1", limits=ReadLimits(concurrency=2))
    assert rig.stream.waited  # type: ignore[attr-defined]
    assert len(rig.committed()) == 3


@pytest.mark.parametrize("concurrency", [1, 3])
def test_shards_that_wait_for_a_turn_leave_nothing_behind_when_the_task_is_stopped(rig: Rig, concurrency: int) -> None:
    for shard_id in list(rig.stream.shards)[1:]:
        rig.stream.put(*"x" * 500, shard_id=shard_id)
    limits = ReadLimits(duration=timedelta(seconds=300), concurrency=concurrency)
    found, stop = rig.claim("r1"), threading.Event()
    busy = rig.stream
    assert isinstance(busy, BusyStream)

    def seconds() -> float:
        if busy.seconds > 200:
            stop.set()
        return float(busy.seconds)

    consumer = rig.consumer(limits=limits, clock=Clock(rig.time.now_ms, seconds, rig.time.sleep))
    with pytest.raises(Stopped):
        land(consumer, rig.owner("r1"), found.groups[0].group, rig.stream.now_ms, stop)
    assert not list(rig.folder.rglob("*part-*"))
    assert not any(row.pending for row in rig.consumer().leases())


def test_a_shard_whose_files_cannot_be_completed_when_it_has_to_wait_leaves_no_trace_and_fails_the_task(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = list(rig.stream.shards)[1]
    sent = rig.stream.put("a", "b", shard_id=second)

    def full(writer: ParquetSliceWriter) -> None:
        raise StagingError("The disk is full.")

    monkeypatch.setattr(ParquetSliceWriter, "rest", full)
    limits = ReadLimits(duration=timedelta(seconds=60), concurrency=1)
    found = rig.claim("r1")
    with pytest.raises(StagingError, match="The disk is full"):
        rig.land("r1", found, limits=limits)
    assert not list(rig.folder.rglob("*part-*"))
    monkeypatch.undo()
    rig.land("r1", found, limits=limits)
    assert set(sent) <= set(rig.records(rig.freeze("r1").batch_id or ""))


def test_an_interval_is_read_whole_whoever_has_which_turn(rig: Rig) -> None:
    second = list(rig.stream.shards)[1]
    rig.stream.put(*"y" * 300, shard_id=second)
    owner = replace(rig.owner("backfill"), mode="interval")
    span = Interval(rig.stream.now_ms, rig.stream.now_ms + 1)
    limits = ReadLimits(duration=timedelta(seconds=1), run_duration=timedelta(milliseconds=1), concurrency=1)
    consumer = rig.consumer(scope=owner.scope, interval=span, limits=limits)
    for group in claim(consumer, owner).groups:
        land(consumer, owner, group.group, rig.stream.now_ms - 3_600_000)
    assert freeze(consumer, owner).record_count == 800


def test_a_read_that_is_tried_again_takes_each_shard_once(tmp_path: Path) -> None:
    """Its child is one of its leases already, and follows from its parent as well."""
    rig = Rig(tmp_path / "staging")
    rig.options["limits"] = ReadLimits(concurrency=1)
    rig.stream.put("a")
    rig.stream.split(next(iter(rig.stream.shards)))
    rig.stream.put("b", "c")
    found = rig.claim("r1")
    (first,) = rig.land("r1", found)
    asked = len(rig.stream.reads)
    (again,) = rig.land("r1", found)
    assert (again.shards, again.records, again.ended) == (first.shards, first.records, first.ended)
    assert len(rig.stream.reads) == asked


def late(rig: Rig, minutes: int, limits: ReadLimits) -> Any:
    """A read task that begins so long after its run."""
    rig.stream.put(*"y" * 9, shard_id=list(rig.stream.shards)[1])
    found, began_ms = rig.claim("r1"), rig.time.ms
    rig.time.ms += minutes * 60_000
    consumer = rig.consumer(limits=limits)
    landed = land(consumer, rig.owner("r1"), found.groups[0].group, began_ms)
    frozen = rig.freeze("r1")
    rig.work(frozen)
    rig.commit("r1", frozen)
    rig.over("r1")
    return landed


def test_a_late_read_ends_when_its_run_has_no_more_time(rig: Rig) -> None:
    run = ReadLimits(duration=timedelta(minutes=10), run_duration=timedelta(minutes=12), concurrency=1)
    late(rig, 11, run)
    assert sum(sizes(rig).values()) == pytest.approx(60, abs=6)


def test_a_read_after_its_runs_time_reads_one_answer_of_each_shard_so_that_late_runs_get_on(rig: Rig) -> None:
    run = ReadLimits(duration=timedelta(minutes=10), run_duration=timedelta(minutes=12), concurrency=1)
    rig.stream.split(list(rig.stream.shards)[2])
    landed = late(rig, 30, run)
    assert list(sizes(rig).values())[:3] == [1, 1, 0]
    assert landed.shards == 6  # and no child
    assert any("one more answer of each shard" in line for line in rig.said)
    rig.run("r2")
    assert sum(sizes(rig).values()) == 509
