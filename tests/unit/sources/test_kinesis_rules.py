# SPDX-License-Identifier: Apache-2.0
"""The pure rules of reading Kinesis: names, ranges of options, pace, patience, ends, iterators."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from shardbatch.core.ports import Clock
from shardbatch.core.position import TRIM_HORIZON, Position, after, at_timestamp
from shardbatch.core.shard import KeyRange, Shard
from shardbatch.core.waiting import NO_WAITING, Waiting
from shardbatch.errors import ConfigurationError, InvalidAnswer, SourceError, Throttled
from shardbatch.sources.aws.pace import Pace, Patience
from shardbatch.sources.kinesis import event_stream
from shardbatch.sources.kinesis.deaggregation import fresh
from shardbatch.sources.kinesis.ending import Ending, confirmed, judge
from shardbatch.sources.kinesis.listing import to_shard
from shardbatch.sources.kinesis.options import KinesisOptions, StreamName
from shardbatch.sources.kinesis.pace import MIB, RATE
from shardbatch.sources.kinesis.reader import EPOCH, checkpoint_gone, iterator_parameters
from shardbatch.sources.records import SCHEMA

ARN = "arn:aws:kinesis:eu-west-1:210987654321:stream/orders"


class Time:
    """A clock that moves only by being slept on."""

    def __init__(self) -> None:
        self.now = 100.0

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds

    @property
    def clock(self) -> Clock:
        return Clock(now_ms=lambda: int(self.now * 1000), monotonic=lambda: self.now, sleep=self.sleep)


def numbered(*numbers: int) -> pa.RecordBatch:
    rows = [
        {"sequence_number": str(n), "sub_sequence_number": 0, "partition_key": "k", "arrival_time": 0, "data": b""}
        for n in numbers
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


# names and options


def test_a_stream_is_named_by_name_or_arn() -> None:
    assert StreamName.parse("orders").address == {"StreamName": "orders"}
    assert StreamName.parse("orders").owner == {}
    named = StreamName.parse(ARN)
    assert (named.name, named.address, named.owner) == ("orders", {"StreamARN": ARN}, {"StreamARN": ARN})


@pytest.mark.parametrize(
    "text", ["", "a/b", "a:b", "arn:aws:sqs:eu-west-1:1:orders", "arn:aws:kinesis:eu-west-1:1:stream/", ARN + "/x"]
)
def test_what_names_no_stream_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        StreamName.parse(text)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("page_records", 0),
        ("page_records", 10_001),
        ("calls_per_second", 0),
        ("calls_per_second", 5.1),
        ("idle_interval", timedelta(seconds=-1)),
        ("listed_shards", 1_001),
        ("attempts", 0),
        ("throttles", 0),
        ("creating_timeout", timedelta(seconds=-1)),
    ],
)
def test_an_option_out_of_its_range_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=name):
        KinesisOptions(**{name: value})


# listings


def test_parents_are_whichever_of_the_two_fields_is_set() -> None:  # K-2
    def parents(**fields: str) -> tuple[str, ...]:
        return to_shard({"ShardId": "s", **fields}).parent_shard_ids

    assert parents() == ()
    assert parents(ParentShardId="a") == ("a",)
    assert parents(AdjacentParentShardId="b") == ("b",)
    assert parents(ParentShardId="a", AdjacentParentShardId="b") == ("a", "b")
    assert parents(ParentShardId="a", AdjacentParentShardId="a") == ("a",)


def test_an_ending_number_closes_whatever_its_value() -> None:  # K-1
    item: dict[str, Any] = {
        "ShardId": "s",
        "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": str(2**128 - 1)},
        "SequenceNumberRange": {"StartingSequenceNumber": "49680629832520021470711316227327402784640272148308426754"},
    }
    shard = to_shard(item)
    assert not shard.closed
    assert shard.hash_range == KeyRange(0, 2**128 - 1)
    # An emulator ends every shard at a number far below those of its records.
    item["SequenceNumberRange"]["EndingSequenceNumber"] = "9223372036854775807"
    assert to_shard(item).closed


# the end of a shard


@pytest.mark.parametrize(  # KV-7, K-34
    ("iterator", "children", "ending"),
    [
        (None, [("c", ("p",))], Ending.ENDED),
        (None, [("c", ("p",)), ("d", ("p", "q"))], Ending.ENDED),
        (None, [], Ending.CLAIMED),
        (None, [("c", ())], Ending.CONTRADICTORY),
        (None, [("c", ("p",)), ("d", ())], Ending.CONTRADICTORY),
        ("it", [], Ending.OPEN),
        ("it", [("c", ("p",))], Ending.CONTRADICTORY),
        ("", [], Ending.CLAIMED),
    ],
)
def test_what_an_answer_says_of_the_end(
    iterator: str | None, children: list[tuple[str, tuple[str, ...]]], ending: Ending
) -> None:
    assert judge(iterator, [Shard(name, parents) for name, parents in children]) is ending


def test_a_listing_confirms_the_end_only_if_it_shows_the_shard_closed_or_not_at_all() -> None:
    child = Shard("c", ("p",))
    assert confirmed("p", [Shard("p", closed=True), child, Shard("x", ("q",))]) == (True, (child,))
    assert confirmed("p", [child]) == (True, (child,))
    assert confirmed("p", [Shard("p"), child]) == (False, ())


# iterators


@pytest.mark.parametrize(  # KV-2, K-32, K-39
    ("start", "last_read", "kind", "where"),
    [
        (TRIM_HORIZON, None, "TRIM_HORIZON", {}),
        (
            at_timestamp(1_790_000_000_123),
            None,
            "AT_TIMESTAMP",
            {"Timestamp": EPOCH + timedelta(milliseconds=1_790_000_000_123)},
        ),
        (after("100"), None, "AT_SEQUENCE_NUMBER", {"StartingSequenceNumber": "100"}),
        (after("100", 1), None, "AT_SEQUENCE_NUMBER", {"StartingSequenceNumber": "100"}),
        (TRIM_HORIZON, "7", "AFTER_SEQUENCE_NUMBER", {"StartingSequenceNumber": "7"}),
        (at_timestamp(1), "7", "AFTER_SEQUENCE_NUMBER", {"StartingSequenceNumber": "7"}),
        (after("100"), "100", "AFTER_SEQUENCE_NUMBER", {"StartingSequenceNumber": "100"}),
    ],
)
def test_where_an_iterator_is_asked_for(
    start: Position, last_read: str | None, kind: str, where: dict[str, Any]
) -> None:
    assert iterator_parameters(start, last_read) == {"ShardIteratorType": kind, **where}


@pytest.mark.parametrize(  # KV-2, K-4, KV-1
    ("start", "records", "left", "read"),
    [
        (TRIM_HORIZON, [1, 2], [1, 2], 0),
        (after("100"), [100, 101], [100, 101], 1),
        (after("100"), [100], [100], 1),
        (after("9"), [9, 10, 11], [9, 10, 11], 1),
        (after("10"), [9, 10, 100], [10, 100], 1),
        (after("100", 1), [100, 101], [100, 101], 2),
        (after("100", 9), [99], [], 0),
        (after("100"), [102], [102], 0),
    ],
)
def test_what_is_new_after_a_checkpoint(start: Position, records: list[int], left: list[int], read: int) -> None:
    found, before = fresh(numbered(*records), start)
    assert (list(map(int, found.column("sequence_number").to_pylist())), before) == (left, read)


def test_a_checkpoint_is_gone_when_the_first_record_is_a_later_one_or_there_is_none() -> None:  # K-7
    assert not checkpoint_gone("9", numbered(9, 10), at_tip=True)
    assert checkpoint_gone("9", numbered(10), at_tip=False)
    assert checkpoint_gone("9", numbered(), at_tip=True)
    assert not checkpoint_gone("9", numbered(), at_tip=False)


# pace and patience


def test_calls_keep_their_distance() -> None:
    time = Time()
    pace = Pace(time.clock, 0.25, 1.0, RATE)
    starts = []
    for _ in range(5):
        pace.take()
        starts.append(time.now)
        pace.answered(10, idle=False)
    assert [b - a for a, b in itertools.pairwise(starts)] == [0.25] * 4


def test_an_idle_shard_is_asked_once_a_second() -> None:  # R62
    time = Time()
    pace = Pace(time.clock, 0.25, 1.0, RATE)
    pace.take()
    pace.answered(0, idle=True)
    assert pace.remaining() == 1.0


@pytest.mark.parametrize(
    ("metered", "rest"), [(MIB, 0.5), (4 * MIB, 2.0), (9 * MIB, 5.0), (10 * MIB, 5.0), (12 * MIB, 6.0)]
)
def test_bytes_are_paid_for_from_the_end_of_the_answer(metered: int, rest: float) -> None:
    time = Time()
    pace = Pace(time.clock, 0.25, 1.0, RATE)
    pace.take()
    time.now += 3.0  # the answer takes its time to come in
    pace.answered(metered, idle=False)
    assert pace.remaining() == rest


def test_a_short_answer_does_not_shorten_the_distance() -> None:
    time = Time()
    pace = Pace(time.clock, 0.25, 1.0, RATE)
    pace.take()
    pace.answered(1, idle=False)
    assert pace.remaining() == 0.25


def test_throttled_calls_wait_longer_and_longer_with_jitter() -> None:  # R61
    def waits(draw: float) -> list[float]:
        patience = Patience(6, 20, draw=lambda: draw)
        return [patience.throttled(Throttled()) for _ in range(20)]

    low, high = waits(0.0), waits(1.0)
    assert low == sorted(low)
    assert high == sorted(high)
    assert all(2 * a == b for a, b in zip(low, high, strict=True))
    assert (high[0], high[-1]) == (0.25, 5.0)


def test_patience_ends_and_begins_anew_after_a_good_answer() -> None:
    patience = Patience(3, 3)
    for _ in range(2):
        for _ in range(2):
            patience.failed(SourceError())
        for _ in range(3):
            patience.throttled(Throttled())
        for _ in range(2):
            patience.expired(SourceError())
        with pytest.raises(SourceError):
            patience.failed(SourceError())
        with pytest.raises(Throttled):
            patience.throttled(Throttled())
        with pytest.raises(InvalidAnswer):
            patience.expired(SourceError())
        patience.reset()


def test_only_waiting_for_the_services_limits_counts_as_that() -> None:
    time = Time()
    pace = Pace(time.clock, 0.25, 10.0, RATE)
    assert pace.take() == 0
    pace.answered(0, idle=True)
    assert pace.wait() == 0.25  # of the ten seconds
    assert pace.take() == 0
    pace.answered(4 * MIB, idle=False)
    assert pace.wait() == 2.0


def test_waiting_adds_up_and_comes_back_from_json() -> None:
    found = Waiting(0.5) + Waiting(0.25, refused=2) + Waiting(resubscribed=1)
    assert found == Waiting(0.75, 2, 1)
    assert Waiting.from_json(found.to_json()) == found
    assert Waiting.from_json({}) == NO_WAITING
    assert found - Waiting(0.75, 2, 1) == NO_WAITING
    assert not Waiting(0.05)


def test_bytes_without_an_event_end_a_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy may keep a dead connection alive."""
    seconds = iter(range(0, 1000, 10))
    monkeypatch.setattr(event_stream.time, "monotonic", lambda: float(next(seconds)))

    class Body:
        closed = False

        def stream(self) -> Iterator[bytes]:
            while True:
                yield b""

        def close(self) -> None:
            self.closed = True

    body = Body()
    with pytest.raises(InvalidAnswer, match="no event for 60 seconds"):
        next(event_stream.events(body, lambda code, message: SourceError(code)))
    assert body.closed
