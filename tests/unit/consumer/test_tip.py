# SPDX-License-Identifier: Apache-2.0
"""The tip of the stream as of the run's start, whatever a service says about how far away it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shardbatch.core.limits import ReadLimits
from shardbatch.core.ports import Clock, Page
from shardbatch.core.position import Position
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream

HONEST = "honest"
#: What a lag is in services and emulators: honest, a flag, a count, nothing at all.
LAGS = [HONEST, 0, 1, 10, None]


class LyingStream(ScriptedStream):
    """Answers so many times with nothing before every page, and says of each page how far behind it is as it likes."""

    def __init__(self, lag: Any = HONEST, empty: int = 0, **options: Any) -> None:
        super().__init__(**options)
        self.lag, self.empty = lag, empty
        self.pages = 0

    def read(self, shard_id: str, position: Position) -> Iterator[Page]:
        here = position
        for page in super().read(shard_id, position):
            far = page.records.num_rows or page.ended
            for number in range(self.empty if far else 0):
                self.pages += 1
                yield Page(self._batch([]), here, millis_behind_latest=self._says(self.empty - number))
            here = page.next
            self.pages += 1
            yield replace(page, millis_behind_latest=self._says(page.millis_behind_latest))

    def _says(self, lag: int | None) -> int | None:
        return lag if self.lag == HONEST else self.lag


def rig_of(folder: Path, stream: LyingStream) -> Rig:
    """A rig whose time is the stream's answers, one a second."""
    rig = Rig(folder / "staging", stream)
    rig.options["clock"] = Clock(rig.time.now_ms, lambda: float(stream.pages), rig.time.sleep)
    return rig


def test_hundreds_of_empty_answers_before_a_record_and_before_a_shards_end_are_passed_in_one_run(
    tmp_path: Path,
) -> None:
    stream = LyingStream(empty=300)
    rig = rig_of(tmp_path, stream)
    sent = stream.put(*"abcd")
    stream.split(next(iter(stream.shards)))
    sent += stream.put(*"efgh")
    rig.run("r1", limits=ReadLimits(duration=timedelta(hours=1)))
    assert sorted(rig.committed(), key=int) == sent
    assert rig.run("r2", limits=ReadLimits(duration=timedelta(hours=1))).batch_id is None


@pytest.mark.parametrize("lag", LAGS)
@pytest.mark.parametrize("concurrency", [1, 8])
def test_every_record_is_read_once_whatever_the_lag_says(tmp_path: Path, lag: Any, concurrency: int) -> None:  # R37
    stream = LyingStream(lag, shards=3)
    rig = rig_of(tmp_path, stream)
    limits = ReadLimits(duration=timedelta(seconds=60), concurrency=concurrency)
    sent = stream.put(*"abcdefghijkl")
    rig.run("r1", limits=limits)
    sent += stream.put(*"mnop")
    for number in range(4):  # a run reads at least one answer of each shard, whoever uses up its time
        rig.run(f"r2.{number}", limits=limits)
    assert sorted(rig.committed(), key=int) == sent


@pytest.mark.parametrize("lag", [1, 10, None])
def test_an_idle_shard_that_never_says_that_it_is_at_its_tip_costs_time_and_nothing_else(
    tmp_path: Path, lag: int | None
) -> None:  # R26, R36, R37
    stream = LyingStream(lag)
    rig = rig_of(tmp_path, stream)
    limits = ReadLimits(duration=timedelta(seconds=400))  # longer than an iterator lives
    sent = stream.put("a")
    rig.run("r1", limits=limits)
    (before,) = rig.consumer().leases()
    for number in range(3):
        answer = rig.run(f"idle{number}", limits=limits)
        assert (answer.batch_id, answer.gaps) == (None, 0)
    (after,) = rig.consumer().leases()
    assert after.checkpoint == before.checkpoint
    assert after.caught_up_ms == before.caught_up_ms  # nobody saw its tip
    assert any("reset --shard" in line for line in rig.said if "nothing was read" in line)
    sent += stream.put("b")
    rig.run("r2", limits=limits)
    assert rig.committed() == sent


def test_a_stream_that_is_never_empty_is_read_up_to_the_runs_start(tmp_path: Path) -> None:
    class Writing(LyingStream):
        """For every page that is read, a record arrives."""

        def read(self, shard_id: str, position: Position) -> Iterator[Page]:
            for page in super().read(shard_id, position):
                self.now_ms += 10
                self.put("later", shard_id=shard_id)
                yield page

    stream = Writing()
    rig = rig_of(tmp_path, stream)
    sent = stream.put(*"abcdefgh")
    rig.run("r1", limits=ReadLimits(duration=timedelta(days=1)))
    assert set(sent) <= set(rig.committed())
    assert stream.pages <= 5
