# SPDX-License-Identifier: Apache-2.0
"""What ended the read of a shard stands in the log, shard by shard, and is counted in the answer of the task."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shardbatch.core.interval import Interval
from shardbatch.core.limits import ReadLimits
from shardbatch.core.policies import ClaimOptions, Policies, ShardErrors
from shardbatch.core.ports import Clock, Page
from shardbatch.core.position import Position
from shardbatch.core.stop import Stop
from shardbatch.errors import SourceError
from shardbatch.run import claim, land
from shardbatch.run.land import Landed
from tests.support.passing import HOUR
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream

SHARD = "shardId-000000000000"
FIRST_SECOND = "2027-01-15T08:00:00Z/2027-01-15T08:00:00Z"


class Stream(ScriptedStream):
    """Every page takes a second and has one record at most; ``fails_at`` is the page of a shard whose call fails."""

    def __init__(self, **options: Any) -> None:
        super().__init__(page_size=1, **options)
        self.seconds = 0
        self.fails_at: dict[str, int] = {}

    def read(self, shard_id: str, position: Position) -> Iterator[Page]:
        for number, page in enumerate(super().read(shard_id, position)):
            self.seconds += 1
            if self.fails_at.get(shard_id) == number:
                raise SourceError("It broke.")
            yield page


def rig_of(folder: Path, shards: int = 1) -> tuple[Rig, Stream]:
    stream = Stream(shards=shards)
    rig = Rig(folder / "staging", stream)
    rig.options["options"] = ClaimOptions(read_tasks=1)
    rig.options["clock"] = Clock(rig.time.now_ms, lambda: float(stream.seconds), rig.time.sleep)
    return rig, stream


def read(rig: Rig, *, seconds: float = 1e9, tip_ms: int | None = None, **changes: Any) -> Landed:
    consumer, owner = rig.consumer(**changes), rig.owner("r1")
    if consumer.interval is not None:
        owner = replace(owner, mode="interval")
        consumer = replace(consumer, scope=owner.scope)
    (group,) = claim(consumer, owner).groups
    tip = rig.stream.now_ms + 1 if tip_ms is None else tip_ms
    return land(consumer, owner, group.group, tip, threading.Event(), seconds)


def said_of(rig: Rig, shard: str = SHARD) -> list[str]:
    return [line for line in rig.said if line.startswith(f"Shard {shard}: ") and ", read " in line]


def line(records: str, place: str, stop: str, before: str = "TRIM_HORIZON") -> str:
    """The line of a shard whose records all arrived in the first second of the stream."""
    return f"Shard {SHARD}: {records} that arrived {FIRST_SECOND}, from {before} to {place}, {stop}."


def test_the_tip(tmp_path: Path) -> None:
    rig, stream = rig_of(tmp_path)
    stream.put(*"ab")
    landed = read(rig)
    assert landed.stops == Counter({Stop.TIP: 1})
    assert said_of(rig) == [line("2 records", "101", "read to the tip as of the run's start")]
    assert rig.said[-1].endswith("Shards were read: 1 to the tip as of the run's start.")


def test_a_shard_at_its_tip_that_has_nothing_new_is_counted_and_has_no_line(tmp_path: Path) -> None:
    rig, _ = rig_of(tmp_path)
    assert read(rig).stops == Counter({Stop.TIP: 1})
    assert said_of(rig) == []
    assert f"1 shards had nothing new, read to the tip as of the run's start: {SHARD}." in rig.said


def test_the_end_of_a_shard_and_the_tips_of_its_children(tmp_path: Path) -> None:
    rig, stream = rig_of(tmp_path)
    stream.put("a")
    stream.split(SHARD)
    assert read(rig).stops == Counter({Stop.SHARD_END: 1, Stop.TIP: 2})
    assert said_of(rig) == [line("1 records", "100", "read to the end of the shard")]


@pytest.mark.parametrize(
    ("limits", "stop", "words"),
    [
        ({"records": 3}, Stop.RECORDS, ("3 records", "102", "read until ReadLimits(records) was reached")),
        ({"bytes": 20}, Stop.BYTES, ("3 records", "102", "read until ReadLimits(bytes) was reached")),
        (
            {"duration": timedelta(seconds=4)},
            Stop.DURATION,
            ("4 records", "103", "read until ReadLimits(duration) was over"),
        ),
    ],
)
def test_a_limit(tmp_path: Path, limits: dict[str, Any], stop: Stop, words: tuple[str, str, str]) -> None:
    rig, stream = rig_of(tmp_path)
    stream.put(*"abcdefgh")
    assert read(rig, limits=ReadLimits(**limits)).stops == Counter({stop: 1})
    assert said_of(rig) == [line(*words)]


def test_the_time_of_the_run(tmp_path: Path) -> None:
    rig, stream = rig_of(tmp_path)
    stream.put(*"abcdefgh")
    limits = ReadLimits(run_duration=timedelta(seconds=20))
    began = rig.time.ms - 15_000
    assert read(rig, limits=limits, tip_ms=began).stops == Counter({Stop.TIP: 1})  # all of it came after that
    (tmp_path / "late").mkdir()
    late, later = rig_of(tmp_path / "late")
    later.now_ms = late.time.ms - 3_600_000
    later.put(*"abcdefgh")
    assert read(late, limits=limits, tip_ms=late.time.ms - 15_000).stops == Counter({Stop.RUN_DURATION: 1})
    assert "until ReadLimits(run_duration) was over" in said_of(late)[0]


def test_the_time_that_airflow_leaves(tmp_path: Path) -> None:
    rig, stream = rig_of(tmp_path)
    stream.put(*"abcdefgh")
    assert read(rig, seconds=3.0).stops == Counter({Stop.AIRFLOW: 1})
    assert said_of(rig) == [line("3 records", "102", "read until the time was over that Airflow's own limits leave")]


def test_the_turns_of_others(tmp_path: Path) -> None:
    rig, stream = rig_of(tmp_path, shards=2)
    first, second = stream.shards
    for shard in (first, second):
        stream.put(*"x" * 50, shard_id=shard)
    landed = read(rig, limits=ReadLimits(duration=timedelta(seconds=10), concurrency=1))
    assert landed.stops == Counter({Stop.DURATION: 1, Stop.TURN: 1})
    assert "until the task's time was over, while other shards had their turn" in said_of(rig, first)[0]
    assert "until ReadLimits(duration) was over" in said_of(rig, second)[0]


def test_an_interval_that_is_cut_short_names_the_limit_also_after_turns_of_others(tmp_path: Path) -> None:
    rig, stream = rig_of(tmp_path, shards=2)
    began = stream.now_ms
    for shard in stream.shards:
        stream.put(*"x" * 50, shard_id=shard)
    stream.now_ms += 2 * HOUR
    rig.time.ms = stream.now_ms
    said = "until the time was over that Airflow's own limits leave"
    with pytest.raises(SourceError, match="time was over before the interval"):
        read(rig, interval=Interval(began, began + HOUR), limits=ReadLimits(concurrency=1), seconds=10.0)
    assert all(said in said_of(rig, shard)[0] for shard in stream.shards)
    assert rig.said[-1].endswith(f"Shards were read: 2 {said}.")


def test_an_error_after_records(tmp_path: Path) -> None:
    rig, stream = rig_of(tmp_path, shards=2)
    first, second = stream.shards
    for shard in (first, second):
        stream.put(*"abcd", shard_id=shard)
    stream.fails_at = {first: 2}
    landed = read(rig)
    assert landed.stops == Counter({Stop.ERROR: 1, Stop.TIP: 1})
    assert said_of(rig, first) == [line("2 records", "101", "read until an error")]
    assert set(landed.errors) == {first}


def test_an_error_before_any_record_is_told_as_that_and_as_no_read(tmp_path: Path) -> None:
    rig, stream = rig_of(tmp_path, shards=2)
    first, second = stream.shards
    stream.put("a", shard_id=second)
    stream.fails_at = {first: 0}
    assert read(rig).stops == Counter({Stop.TIP: 1})
    assert said_of(rig, first) == []


def test_another_shard_that_failed_the_task(tmp_path: Path) -> None:
    rig, stream = rig_of(tmp_path, shards=2)
    first, second = stream.shards
    stream.put(*"x" * 50, shard_id=first)
    stream.fails_at = {second: 0}
    with pytest.raises(SourceError, match="It broke"):
        read(
            rig,
            policies=Policies(shard_errors=ShardErrors.FAIL),
            limits=ReadLimits(duration=timedelta(seconds=40), concurrency=1),
        )
    assert said_of(rig, first)[0].endswith("read until another shard's error ended the task.")
    assert "1 until another shard's error ended the task" in rig.said[-1]


def test_a_lease_that_was_lost(tmp_path: Path) -> None:
    rig, stream = rig_of(tmp_path, shards=2)
    first, second = stream.shards
    stream.put(*"abc", shard_id=first)
    stream.put("d", shard_id=second)
    pages = stream.read

    def robbed(shard_id: str, position: Position) -> Iterator[Page]:
        for page in pages(shard_id, position):
            if shard_id == first:
                row = next(row for row in rig.consumer().leases() if row.shard_id == first)
                rig.store.replace(row, replace(row, lease_owner=str(rig.owner("r2")), lease_count=row.lease_count + 1))
            yield page

    stream.read = robbed  # type: ignore[method-assign]
    landed = read(rig)
    assert landed.lost == 1
    assert landed.stops == Counter({Stop.LOST: 1, Stop.TIP: 1})


@pytest.mark.parametrize("later", [True, False])
def test_the_end_of_an_interval(tmp_path: Path, later: bool) -> None:
    rig, stream = rig_of(tmp_path)
    began = stream.now_ms
    stream.put(*"ab")
    stream.now_ms += 3_600_000
    stream.put(*("c" * later))
    stream.now_ms += 3_600_000
    rig.time.ms = stream.now_ms
    landed = read(rig, interval=Interval(began, began + 1_000))
    assert landed.stops == Counter({Stop.INTERVAL_END: 1})
    # It has seen the record behind the interval, and took none that arrived later.
    place, before = ("102" if later else "101"), f"AT_TIMESTAMP:{began - 60_000}"
    assert said_of(rig) == [line("2 records", place, "read to the end of the interval", before)]


def test_a_place_that_comes_no_nearer_to_the_tip(tmp_path: Path) -> None:
    rig, stream = rig_of(tmp_path)
    pages = stream.read

    def standing(shard_id: str, position: Position) -> Iterator[Page]:
        for _ in range(10_000):
            stream.seconds += 1
            yield replace(next(pages(shard_id, position)), lag_ms=3_600_000, at_tip=False)

    stream.read = standing  # type: ignore[method-assign]
    landed = read(rig, limits=ReadLimits(duration=timedelta(hours=1)), tip_ms=rig.time.ms)
    assert landed.stops == Counter({Stop.STANDSTILL: 1})
    assert "brought it no nearer to the tip" in said_of(rig)[0]


def test_every_stop_has_words() -> None:
    assert len({str(stop) for stop in Stop}) == len(Stop)
    assert all(f"{stop}" == str(stop) != stop.value for stop in Stop)


def test_the_values_are_those_of_the_answer() -> None:
    assert [stop.value for stop in Stop] == [
        "shard_end", "tip", "interval_end", "records", "bytes", "duration", "run_duration", "airflow_timeout", "turn",
        "standstill", "lost", "error", "others_failed", "source",
    ]  # fmt: skip
