# SPDX-License-Identifier: Apache-2.0
"""Where the read of a shard ends: at the tip, at a limit, at an interval's end, or cut short."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shardbatch.core.interval import Interval
from shardbatch.core.limits import Budget, ReadLimits
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.errors import SourceError, Throttled
from shardbatch.run.read_end import ReadEnd
from tests.support.rig import FakeTime
from tests.support.scripted import ScriptedStream

SHARD = "shardId-000000000000"


@dataclass
class Read:
    """A read of one scripted shard, page after page."""

    stream: ScriptedStream
    time: FakeTime
    budget: Budget
    end: ReadEnd

    def pages(self, most: int = 50) -> int:
        """So many pages are read until it ends, or until ``most`` are."""
        last = TRIM_HORIZON
        for count, page in enumerate(self.stream.read(SHARD, TRIM_HORIZON), 1):
            rows = page.records.num_rows
            self.budget.records += rows
            self.end.add(page, self.stream.now_ms, moved=page.next != last)
            last = page.next
            arrived = page.records.column("arrival_time")[-1].value // 1000 if rows else None
            if self.end.here(page, arrived) or count == most:
                return count
        raise AssertionError("the shard ended, and the read did not")


def begun(*, interval: Interval | None = None, deadline: float = math.inf, records: int | None = None) -> Read:
    stream, time = ScriptedStream(), FakeTime()
    limits = ReadLimits() if records is None else ReadLimits(records=records)
    budget = Budget(limits, stream.now_ms + 1, deadline)
    return Read(stream, time, budget, ReadEnd(SHARD, budget, interval, time.clock(), lambda: 0))


def test_it_ends_at_the_tip_with_the_first_answer_that_has_no_record() -> None:
    read = begun()
    read.stream.put(*"abcdef")
    assert read.pages() == 3
    read.end.require_answer("Others read it too")
    assert read.end.cut is None


def test_it_ends_behind_the_end_of_the_shard() -> None:
    read = begun()
    read.stream.put(*"abcd")
    read.stream.split(SHARD)
    assert read.pages() == 2


def test_it_ends_at_a_limit() -> None:
    read = begun(records=3)
    read.stream.put(*"abcdefgh")
    assert read.pages() == 1


def test_it_ends_when_the_time_is_over_behind_one_answer() -> None:
    read = begun(deadline=0.0)
    read.stream.put(*"abcdefgh")
    assert read.pages() == 1
    assert read.end.late()
    assert read.end.cut is None  # a limit is no error: the next run goes on


def test_an_interval_ends_behind_a_record_of_after_it() -> None:
    read = begun(interval=Interval(0, FakeTime().ms + 1))
    read.stream.put(*"abc")
    read.stream.now_ms += 3_600_000
    read.stream.put(*"def")
    assert read.pages() == 2
    assert read.end.interval_over


def test_an_interval_that_is_not_read_in_time_is_cut_with_what_to_do() -> None:
    read = begun(interval=Interval(0, FakeTime().ms + 1), deadline=0.0)
    read.stream.put(*"abcdef")
    assert read.pages() == 1
    assert not read.end.interval_over
    assert isinstance(read.end.cut, SourceError)
    assert "A retry goes on from there" in str(read.end.cut)


def test_a_shard_of_which_nothing_was_heard_is_no_empty_one() -> None:
    read = begun()
    read.end.require_answer("Others read it too")
    assert isinstance(read.end.cut, Throttled)
    assert "No answer came" in str(read.end.cut)
    assert "Others read it too" in str(read.end.cut)
