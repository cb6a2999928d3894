# SPDX-License-Identifier: Apache-2.0
"""The progress of a read task: one line for all its shards, at least every 15 seconds, with rate and what remains."""

from __future__ import annotations

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
from shardbatch.core.ports import Clock, Page
from shardbatch.core.position import Position
from shardbatch.core.waiting import NO_WAITING, Waiting
from shardbatch.run import claim, land, progress
from shardbatch.run.progress import Progress
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.waiting import wait_until

MB = 1_000_000


class Told:
    """A progress over shards whose clock a test moves."""

    def __init__(self, folder: Path, shards: int = 3, since_tip_s: int = 0, **changes: Any) -> None:
        self.seconds = 0.0
        self.rig = Rig(folder / "staging")
        clock = Clock(now_ms=lambda: self.rig.time.ms, monotonic=lambda: self.seconds, sleep=self.rig.time.sleep)
        consumer = self.rig.consumer(clock=clock, **changes)
        self.progress = Progress(consumer, "g0", self.rig.time.ms - since_tip_s * 1000)
        for number in range(shards):
            self.progress.add(f"s{number}")

    def came(self, shard: str, records: int, size: int, lag_s: int | None, waiting: Waiting = NO_WAITING) -> None:
        self.progress.came(shard, records, size, None if lag_s is None else lag_s * 1000, waiting)

    def line(self) -> str:
        self.progress.tell()
        return self.rig.said[-1]


def test_the_rate_is_that_since_the_line_before(tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.seconds = 10.0
    told.came("s0", 1000, 20 * MB, 900)
    assert told.line().startswith("Read task g0: 1000 records (20.0 MB) in 10 s, now 100 records and 2.00 MB a second.")
    told.seconds = 20.0
    told.came("s0", 1500, 25 * MB, 890)
    told.came("s1", 500, 5 * MB, 0)
    assert told.line().startswith("Read task g0: 2000 records (30.0 MB) in 20 s, now 100 records and 1.00 MB a second.")
    told.seconds = 30.0
    assert "in 30 s, now 0 records and 0.00 MB a second" in told.line()


def test_what_remains_is_that_of_the_shard_furthest_from_the_tip(tmp_path: Path) -> None:
    told = Told(tmp_path, shards=4)
    told.came("s0", 1, 1, 60)
    told.came("s1", 1, 1, 3600)
    told.came("s2", 1, 1, 0)
    rest = "0 of 4 shards are read, 1 have not begun; the furthest from the tip as of the run's start is s1, by 3600 s"
    assert told.line().endswith(f" {rest} of the stream.")
    told.progress.over("s1")
    assert (
        "1 of 4 shards are read, 1 have not begun; the furthest from the tip as of the run's start is s0, by 60 s"
        in (told.line())
    )
    for shard in ("s0", "s2", "s3"):
        told.progress.over(shard)
    assert told.line().endswith(" a second. 4 of 4 shards are read.")


def test_the_stream_that_grew_since_the_run_began_is_not_counted(tmp_path: Path) -> None:
    told = Told(tmp_path, since_tip_s=100)  # the run waited that long for a worker
    told.seconds = 50.0
    told.came("s0", 1, 1, 400)
    told.came("s1", 1, 1, 120)  # it has passed the tip as of the run's start already
    assert "is s0, by 250 s of the stream" in told.line()
    told.progress.over("s0")
    assert "is s1, by 0 s of the stream" in told.line()


def test_of_an_interval_its_end_counts(tmp_path: Path) -> None:
    now = Rig(tmp_path / "x").time.ms
    told = Told(tmp_path, interval=Interval(now - 7_200_000, now - 3_600_000))
    told.came("s0", 1, 1, 5_000)
    assert "the furthest from the end of the interval is s0, by 1400 s of the stream" in told.line()


def test_shards_that_say_no_lag_are_counted(tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.came("s0", 1, 1, None)
    told.came("s1", 1, 1, None)
    assert told.line().endswith(" 0 of 3 shards are read, 1 have not begun; 2 do not say how much they have left.")
    told.came("s1", 1, 1, 7)
    assert told.line().endswith("is s1, by 7 s of the stream; 1 do not say how much they have left.")


def test_what_it_waits_for_is_told_for_all_shards_together(tmp_path: Path) -> None:
    told = Told(tmp_path)
    told.came("s0", 1, 1, 1, Waiting(2.0, 3))
    told.came("s1", 1, 1, 1, Waiting(1.0, 1))
    assert "MB a second; waited 3.0 s for the service's limits, 4 calls refused. 0 of 3" in told.line()


class Standing(ScriptedStream):
    """A stream whose second page of each shard but the first two does not come until a test lets it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(page_size=1, **options)
        self.go = threading.Event()

    def read(self, shard_id: str, position: Position) -> Iterator[Page]:
        for number, page in enumerate(super().read(shard_id, position)):
            if number == 1 and shard_id not in list(self.shards)[:2]:
                assert self.go.wait(60)
            yield replace(page, lag_ms=None if page.at_tip else 60_000)


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_task_tells_it_while_no_answer_comes_and_once_for_all_its_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, concurrency: int
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.02)
    stream = Standing(shards=20)
    rig = Rig(tmp_path / "staging", stream)
    for shard in stream.shards:
        stream.put("a", "b", shard_id=shard)
    limits = ReadLimits(concurrency=concurrency, duration=timedelta(hours=1))
    consumer, owner = rig.consumer(options=ClaimOptions(read_tasks=1), limits=limits), rig.owner("r1")
    (group,) = claim(consumer, owner).groups

    def told() -> list[str]:
        return [line for line in rig.said if "MB a second" in line]

    reader = threading.Thread(target=land, args=(consumer, owner, group.group, stream.now_ms + 1))
    reader.start()
    try:
        begun = f"2 of 20 shards are read, {18 - concurrency} have not begun; the furthest"
        wait_until(lambda: any(begun in line for line in told()), 30, "a line of progress")
        before = len(told())
        wait_until(lambda: len(told()) >= before + 3, 30, "more lines though no answer comes")
    finally:
        stream.go.set()
        reader.join(60)
    assert not reader.is_alive()
    assert rig.said[-1].startswith("Read task ")
    assert "40 records (" in rig.said[-1]  # the sum of the task, after which no line of progress comes
    assert not any(thread.name == "shardbatch-progress" for thread in threading.enumerate())


def test_a_line_comes_at_least_every_15_seconds_though_saying_it_takes_some_time() -> None:
    assert 10 <= progress.EVERY < 15


def test_the_same_numbers_are_shown_to_those_who_look_from_outside(tmp_path: Path) -> None:
    shown: list[Any] = []
    told = Told(tmp_path, shards=4, show=shown.append)
    told.came("s0", 1000, 20 * MB, 900)
    told.came("s1", 500, 5 * MB, None)
    told.came("s2", 5, 50, 0)
    told.progress.over("s2")
    told.progress.tell()
    assert {name: shown[0][name] for name in ("group", "records", "bytes", "shards", "over")} == {
        "group": "g0", "records": 1505, "bytes": 25 * MB + 50, "shards": 4, "over": 1,
    }  # fmt: skip
    assert shown[0]["reading"] == {"s0": [1000, 20 * MB, 900_000], "s1": [500, 5 * MB, None]}


def test_of_very_many_shards_those_furthest_behind_are_shown(tmp_path: Path) -> None:
    shown: list[Any] = []
    told = Told(tmp_path, shards=progress.MOST_SHOWN + 10, show=shown.append)
    for number in range(progress.MOST_SHOWN + 10):
        told.came(f"s{number}", 1, 1, number)
    told.progress.tell()
    assert set(shown[0]["reading"]) == {f"s{number}" for number in range(10, progress.MOST_SHOWN + 10)}
