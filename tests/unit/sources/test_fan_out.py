# SPDX-License-Identifier: Apache-2.0
"""When polling is too slow: the budget arithmetic, from what was measured."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

from shardbatch.core.ports import Clock
from shardbatch.sources.kinesis.decoder import Decoded
from shardbatch.sources.kinesis.fan_out import Deadline, Progress
from shardbatch.sources.records import SCHEMA

MIB = 1024 * 1024
DAY = 86_400


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    @property
    def clock(self) -> Clock:
        return Clock(now_ms=lambda: 0, monotonic=lambda: self.now, sleep=lambda _: None)


def answer(first_s: float, last_s: float, size: int, lag_s: float) -> Decoded:
    """Two records that arrived then, and the lag behind them."""
    columns = [["1", "2"], [0, 0], ["k", "k"], [round(first_s * 1e6), round(last_s * 1e6)], [b"", b""]]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    records = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    return Decoded(records, "next", (), round(lag_s * 1000), size)


def progress(*, read_s: float, span_s: float, size: int, lag_s: float, waited_s: float = 0) -> Progress:
    """Polling that in ``read_s`` seconds has got ``size`` bytes, which arrived within ``span_s``, of ten minutes."""
    time = Time()
    deadline = Deadline(time.clock, timedelta(minutes=10))
    deadline.left()
    time.now += read_s + waited_s
    made = Progress(deadline)
    made.add(answer(0, span_s / 2, size // 2, lag_s + span_s / 2), read_s / 2)
    made.add(answer(span_s / 2, span_s, size - size // 2, lag_s), read_s / 2)
    return made


def test_a_day_written_at_the_full_rate_is_too_much_for_a_quarter_of_the_shard() -> None:
    """facts: 24 h at 1 MiB/s; four polling consumers, so that each gets 0.5 MiB/s; ten minutes."""
    assert progress(read_s=60, span_s=30, size=30 * MIB, lag_s=DAY).too_slow()


def test_with_the_shard_to_itself_polling_is_as_fast_as_fan_out() -> None:
    assert not progress(read_s=60, span_s=110, size=110 * MIB, lag_s=DAY).too_slow()


@pytest.mark.parametrize(("lag_s", "chosen"), [(500, True), (250, False)])
def test_the_backlog_is_held_against_the_time_that_is_left(lag_s: float, chosen: bool) -> None:
    """At 0.5 MiB/s, 540 seconds read 270 MiB; a second of the stream has 1 MiB."""
    assert progress(read_s=60, span_s=30, size=30 * MIB, lag_s=lag_s).too_slow() is chosen


@pytest.mark.parametrize(
    "changed",
    [
        {"lag_s": 0},  # at the tip
        {"lag_s": 500, "size": 3 * MIB},  # 50 MiB: not worth it
        {"lag_s": DAY, "span_s": 0},  # all in one moment: nothing to measure by
        {"lag_s": DAY, "read_s": 20, "size": 10 * MIB, "span_s": 10},  # too early to tell
        {"lag_s": DAY, "read_s": 580},  # too late to begin
        {"lag_s": DAY, "read_s": 30, "size": 50 * MIB, "waited_s": 200},  # it is other shards that take the time
    ],
)
def test_what_is_no_reason(changed: dict[str, float]) -> None:
    given = {"read_s": 60, "span_s": 30, "size": 30 * MIB, "lag_s": DAY, **changed}
    assert not progress(**given).too_slow()  # type: ignore[arg-type]


def test_without_records_there_is_no_reason() -> None:
    """R37: an idle shard may report any lag."""
    time = Time()
    made = Progress(Deadline(time.clock, timedelta(minutes=10)))
    made.add(Decoded(pa.RecordBatch.from_arrays([[]] * 5, schema=SCHEMA), "next", (), DAY * 1000, 0), 60)
    assert not made.too_slow()


def test_the_time_of_a_task_begins_with_its_first_read() -> None:
    time = Time()
    deadline = Deadline(time.clock, timedelta(minutes=10))
    time.now += 100
    assert deadline.left() == 600
    time.now += 100
    assert deadline.left() == 500
