# SPDX-License-Identifier: Apache-2.0
"""The watermark of an application that claims, reads and commits (PROTOCOL C): the stream's time, never too late."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from shardbatch.control.reset import reset
from shardbatch.control.status import committed_up_to, status
from shardbatch.core.idle import BELIEVED
from shardbatch.core.interval import CLOCKS_APART_MS, MARGIN_MS
from shardbatch.core.ports import Capabilities, Page
from shardbatch.core.position import TRIM_HORIZON, Position, at_timestamp
from shardbatch.core.watermark import Watermark
from shardbatch.errors import SourceError, Throttled
from tests.support.rig import FakeTime, Rig
from tests.support.scripted import ScriptedStream, of_lag
from tests.support.verbs import done

#: How far the worker's clock is ahead of the stream's.
AHEAD_MS = 240_000


class Stream(ScriptedStream):
    """A stream whose clock, answers and listings a test sets. ``passes_ms`` go by while an answer is under way."""

    tells_time = True
    refuses = False
    pushes_since: float | None = None
    passes_ms = 0
    worker: FakeTime | None = None

    def clock_ms(self) -> int | None:
        if self.refuses:
            raise Throttled("Not now.")
        return super().clock_ms() if self.tells_time else None

    def read(self, shard_id: str, position: Position) -> Iterator[Page]:
        for page in super().read(shard_id, position):
            self.now_ms += self.passes_ms
            if self.worker is not None:
                self.worker.ms += self.passes_ms
            yield replace(page, asked=self.pushes_since)


class Counting(Stream):
    """Its lag is a number of records, and a few answers are empty before each that has some."""

    def read(self, shard_id: str, position: Position) -> Iterator[Page]:
        for page in super().read(shard_id, position):
            for _ in range(BELIEVED if page.records.num_rows else 0):
                yield of_lag(Page(self._batch([]), position), 1)
            yield page


class Rangeless(Stream):
    """Shards without ranges of keys."""

    capabilities = Capabilities(lineage=True, instants=True, arrival_times=True)

    def list_shards(self):  # type: ignore[no-untyped-def]
        return [replace(shard, hash_range=None) for shard in super().list_shards()]


def rig_of(folder: Path, stream: Stream) -> Rig:
    rig = Rig(folder / "staging", stream)
    rig.time.ms = stream.now_ms + AHEAD_MS
    stream.worker = rig.time
    return rig


def mark(rig: Rig) -> Watermark:
    return committed_up_to(rig.store, rig.namespace)


def later(rig: Rig, ms: int) -> None:
    rig.stream.now_ms += ms
    rig.time.ms += ms


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return rig_of(tmp_path, Stream())


def test_a_run_that_read_to_the_tip_moves_it_to_the_streams_time_before_the_question(rig: Rig) -> None:
    rig.stream.put("a", "b")
    rig.stream.passes_ms = 5_000  # type: ignore[attr-defined]
    before = rig.stream.now_ms
    rig.run("r1")
    found = mark(rig)
    assert found.ms is not None
    asked = before + 5_000  # the tip shows in the second answer
    assert asked - MARGIN_MS <= found.ms <= asked - MARGIN_MS + 1_000
    assert status(rig.store, rig.namespace).watermark == found


def test_an_idle_stream_moves_on_by_empty_reads(rig: Rig) -> None:
    rig.run("r1")
    rig.stream.now_ms += 3_600_000
    rig.time.ms += 3_600_000
    now = rig.stream.now_ms
    rig.run("r2")
    assert (mark(rig).ms or 0) >= now - MARGIN_MS


def test_what_is_landed_and_not_committed_does_not_move_it(rig: Rig) -> None:
    rig.run("r1")
    before = mark(rig).ms
    rig.stream.now_ms += 3_600_000
    rig.stream.put("a")
    rig.land("r2", rig.claim("r2"))
    assert mark(rig).ms == before


def test_an_answer_that_was_pushed_counts_from_when_it_was_asked_for(rig: Rig) -> None:
    rig.stream.put("a")
    asked_s = (rig.time.ms - 200_000) / 1000
    rig.stream.pushes_since = asked_s  # type: ignore[attr-defined]
    last, now = rig.stream.now_ms, rig.stream.now_ms + 100_000
    rig.stream.now_ms = now
    rig.run("r1")
    assert mark(rig).ms == last - MARGIN_MS  # the tip was seen before the record arrived, by what is certain


def test_a_stream_that_tells_no_time_counts_by_the_worker_less_what_clocks_differ(tmp_path: Path) -> None:
    stream = Stream()
    stream.tells_time = False
    rig = rig_of(tmp_path, stream)
    began = rig.time.ms
    rig.run("r1")
    found = mark(rig).ms
    assert found is not None
    assert began <= found + CLOCKS_APART_MS + MARGIN_MS <= rig.time.ms
    assert found < stream.now_ms


def test_a_pushed_answer_counts_from_when_it_was_asked_for_also_by_the_workers_clock(tmp_path: Path) -> None:
    stream = Stream()
    stream.tells_time = False
    rig = rig_of(tmp_path, stream)
    asked_ms = rig.time.ms - 200_000
    stream.pushes_since = asked_ms / 1000
    rig.run("r1")
    assert (mark(rig).ms or 0) <= asked_ms - CLOCKS_APART_MS - MARGIN_MS
    (row,) = rig.consumer().leases()
    assert (row.caught_up_ms or 0) <= asked_ms  # a look at the tip is as old


def test_a_lag_alone_shows_no_tip_for_it_may_be_a_count(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, Counting())
    rig.stream.put("a")
    arrived = rig.stream.now_ms
    later(rig, 3_600_000)
    rig.run("r1")
    assert rig.committed() == []
    (row,) = rig.consumer().leases()
    assert row.caught_up_ms is not None
    assert (mark(rig).ms or 0) <= arrived


def test_a_refused_question_for_the_time_ends_no_read(rig: Rig) -> None:
    rig.stream.put("a")
    found = rig.claim("r1")
    rig.stream.refuses = True  # type: ignore[attr-defined]
    rig.land("r1", found)
    assert any("does not tell its time" in line for line in rig.said)
    rig.stream.refuses = False  # type: ignore[attr-defined]
    frozen = rig.freeze("r1")
    assert frozen.record_count == 1
    assert issubclass(Throttled, SourceError)


def test_a_reshard_does_not_lose_it(rig: Rig) -> None:
    rig.stream.put("a")
    rig.run("r1")
    before = mark(rig).ms
    assert before is not None
    for shard_id in list(rig.stream.shards):
        rig.stream.split(shard_id)
    assert (mark(rig).ms or 0) >= before
    rig.stream.now_ms += 600_000
    rig.stream.put("a", "b", "c")
    rig.run("r2")
    assert (mark(rig).ms or 0) > before + 500_000 - MARGIN_MS


def test_a_reset_begins_it_anew_and_a_forward_one_says_from_when_it_is_complete(rig: Rig) -> None:
    rig.stream.put("a")
    rig.run("r1")
    resets = mark(rig).resets
    done(reset, rig, to=TRIM_HORIZON, every=True)
    found = mark(rig)
    assert (found.ms, found.resets) == (None, resets + 1)
    rig.run("r2")
    assert mark(rig).ms is not None
    assert mark(rig).complete_from_ms is None


def test_a_reset_on_of_a_completed_shard_promises_nothing_of_children_that_begin_there_too(rig: Rig) -> None:
    rig.stream.put("a")
    rig.run("r1")
    (parent,) = rig.stream.shards
    later(rig, 1_000)
    children = rig.stream.split(parent)
    hidden = {shard_id: rig.stream.shards.pop(shard_id) for shard_id in children}
    rig.run("r2")  # the parent is read to its end, and no child is listed yet
    rig.stream.shards.update(hidden)
    passed_over = rig.stream.put("b", "c")
    later(rig, 600_000)
    moved_to = rig.stream.now_ms
    done(reset, rig, shards=[parent], to=at_timestamp(moved_to))
    assert mark(rig).complete_from_ms == moved_to
    for run in ("r3", "r4"):
        rig.run(run)
    assert not set(passed_over) & set(rig.committed())
    assert (mark(rig).ms or 0) >= moved_to - MARGIN_MS
    assert mark(rig).complete_from_ms == moved_to


def test_a_reset_back_of_a_lineage_leaves_out_nothing_though_old_shards_ended_before_the_instant(rig: Rig) -> None:
    rig.stream.put("a")
    (parent,) = rig.stream.shards
    rig.stream.split(parent)
    rig.run("r1")
    later(rig, 600_000)
    target = rig.stream.now_ms
    rig.stream.put("b", "c", "d", "e")
    rig.run("r2")
    done(reset, rig, every=True, to=at_timestamp(target - 1))
    assert mark(rig).complete_from_ms is None


def test_without_ranges_a_late_child_holds_it_back(tmp_path: Path) -> None:
    stream = Rangeless()
    rig = rig_of(tmp_path, stream)
    rig.run("r1")
    begun = stream.now_ms
    assert mark(rig).ms == begun - MARGIN_MS
    stream.now_ms += 600_000
    rig.time.ms += 600_000
    parent = next(iter(stream.shards))
    stream.split(parent)
    late = [shard_id for shard_id in stream.shards if shard_id != parent]
    hidden = {shard_id: stream.shards.pop(shard_id) for shard_id in late}
    rig.run("r2")
    assert (mark(rig).ms or 0) <= begun
    stream.shards.update(hidden)
    stream.now_ms += 600_000
    rig.time.ms += 600_000
    now = stream.now_ms
    rig.run("r3")
    assert (mark(rig).ms or 0) >= now - MARGIN_MS - 1_000
