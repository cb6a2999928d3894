# SPDX-License-Identifier: Apache-2.0
"""The tip of the stream as of the run's start, whatever a service says about how far away it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shardbatch.core.idle import BELIEVED, STILL_SECONDS
from shardbatch.core.interval import MARGIN_MS
from shardbatch.core.limits import ReadLimits
from shardbatch.core.ports import Clock, Page
from shardbatch.core.position import Position, after
from shardbatch.errors import Throttled
from shardbatch.run import land
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream, of_lag

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
                yield of_lag(Page(self._batch([]), here), self._says(self.empty - number))
            here = page.next
            self.pages += 1
            yield of_lag(page, self._says(page.lag_ms))

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
        run = f"r2.{number}"
        for group in rig.claim(run, limits=limits).groups:
            with contextlib.suppress(Throttled):  # nothing new, of a service that does not say so
                land(rig.consumer(limits=limits), rig.owner(run), group.group, stream.now_ms + 1)
        frozen = rig.freeze(run)
        if frozen.batch_id is not None:
            rig.work(frozen)
            rig.commit(run, frozen)
        rig.over(run)
    assert sorted(rig.committed(), key=int) == sent


@pytest.mark.parametrize("lag", [1, 10, 40_000])
def test_an_idle_shard_whose_lag_never_becomes_zero_costs_a_few_answers_and_its_tip_is_noted(
    tmp_path: Path, lag: int
) -> None:  # R26, R36, R37
    stream = LyingStream(lag)
    rig = rig_of(tmp_path, stream)
    limits = ReadLimits(duration=timedelta(seconds=400))  # longer than an iterator lives
    sent = stream.put("a")
    rig.run("r1", limits=limits)
    for number in range(3):
        rig.time.ms += 3_600_000
        stream.now_ms = rig.time.ms - lag  # the run begins so much earlier than the place's time
        asked = stream.pages
        answer = rig.run(f"idle{number}", limits=limits)
        assert (answer.batch_id, answer.gaps) == (None, 0)
        assert stream.pages - asked <= BELIEVED + 1
        (row,) = rig.consumer().leases()
        # as of the time up to which the place is read, and a margin: not as of now, for a record may be in between
        assert row.caught_up_ms is not None
        assert rig.time.ms - lag - MARGIN_MS - 1000 < row.caught_up_ms <= rig.time.ms - lag - MARGIN_MS
        assert row.checkpoint == after(sent[-1])
    sent += stream.put("b")
    rig.run("r2", limits=limits)
    assert rig.committed() == sent


class Growing(LyingStream):
    """Its lag is the time since its last record arrived."""

    def _says(self, lag: int | None) -> int:
        return self.pages * 1000


def test_a_lag_that_grows_on_an_idle_shard_ends_the_read_in_time_and_its_tip_is_not_noted(tmp_path: Path) -> None:
    stream = Growing()
    rig = rig_of(tmp_path, stream)
    limits = ReadLimits(duration=timedelta(days=1))
    sent = stream.put("a")
    rig.run("r1", limits=limits)
    (before,) = rig.consumer().leases()
    asked = stream.pages
    rig.run("idle", limits=limits)
    (row,) = rig.consumer().leases()
    assert stream.pages - asked <= STILL_SECONDS + 5
    assert (row.checkpoint, row.caught_up_ms) == (before.checkpoint, before.caught_up_ms)
    (told,) = [line for line in rig.said if "nothing was read" in line]
    assert "reset" not in told
    sent += stream.put("b")
    rig.run("r2", limits=limits)
    assert rig.committed() == sent


def test_a_sparse_old_stretch_that_is_scanned_is_not_taken_for_an_idle_shard(tmp_path: Path) -> None:
    """Far more empty answers, and far more time, than an idle shard gets: each comes nearer by a minute."""

    class Sparse(LyingStream):
        def _says(self, lag: int | None) -> int | None:
            return lag if lag is None or lag > 300 else lag * 60_000

    stream = Sparse(empty=300)
    rig = rig_of(tmp_path, stream)
    sent = stream.put("a")
    rig.run("r1", limits=ReadLimits(duration=timedelta(hours=1)))
    assert rig.committed() == sent


@pytest.mark.parametrize("seconds", [1, 60, 400])
def test_a_read_in_which_no_answer_came_is_an_error_and_nothing_is_advised_that_loses_records(
    tmp_path: Path, seconds: int
) -> None:
    stream = LyingStream(lag=None, empty=10**6)
    rig = rig_of(tmp_path, stream)
    sent = stream.put("a")
    found = rig.claim("r1")
    with pytest.raises(Throttled, match="No answer came") as told:
        rig.land("r1", found, limits=ReadLimits(duration=timedelta(seconds=seconds)))
    assert not any("reset" in line for line in [*rig.said, str(told.value)])
    stream.lag, stream.empty = HONEST, 0
    rig.over("r1")
    rig.run("r2")
    assert rig.committed() == sent


def test_a_shard_that_does_not_answer_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    class Refused(ScriptedStream):
        def read(self, shard_id: str, position: Position) -> Iterator[Page]:
            while shard_id == next(iter(self.shards)):
                yield Page(self._batch([]), position, silent=True)
                rig.time.ms += 1000
            yield from super().read(shard_id, position)

    rig = Rig(tmp_path / "staging", Refused(shards=2))
    first, second = rig.stream.shards
    sent = rig.stream.put("a", shard_id=second)
    (landed,) = rig.land("r1", rig.claim("r1"), limits=ReadLimits(duration=timedelta(seconds=60), concurrency=1))
    assert "No answer came" in landed.errors[first]
    assert (landed.shards, landed.records) == (1, len(sent))


def test_a_shard_that_is_refused_once_when_its_time_is_over_is_asked_again(tmp_path: Path) -> None:
    """Its turn comes late, or its run did: one answer of it is read whatever the time."""

    class Once(ScriptedStream):
        def read(self, shard_id: str, position: Position) -> Iterator[Page]:
            yield Page(self._batch([]), position, silent=True)
            yield from super().read(shard_id, position)

    rig = Rig(tmp_path / "staging", Once())
    sent = rig.stream.put("a")
    rig.run("r1", limits=ReadLimits(duration=timedelta(microseconds=1)))
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
