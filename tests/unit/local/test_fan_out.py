# SPDX-License-Identifier: Apache-2.0
"""Enhanced fan-out: consumers, subscriptions, and the frames that they send."""

from __future__ import annotations

import json
from binascii import crc32
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer

from shardbatch.local.api import TARGET
from shardbatch.local.event_stream import OPENING, frame_error
from shardbatch.local.subscription import Event, Subscription
from tests.unit.local.caller import Caller, shard_id, texts

ARN = "arn:aws:kinesis:us-east-1:123456789012:stream/s"
Json = dict[str, Any]


class Fan(Caller):
    """A client with a stream of one shard."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.create()

    def register(self, name: str = "c") -> str:
        arn: str = self.call("RegisterStreamConsumer", StreamARN=ARN, ConsumerName=name)["Consumer"]["ConsumerARN"]
        return arn

    def describe(self, name: str = "c") -> Json:
        found: Json = self.call("DescribeStreamConsumer", StreamARN=ARN, ConsumerName=name)["ConsumerDescription"]
        return found

    def names(self, **fields: Any) -> list[str]:
        return [c["ConsumerName"] for c in self.call("ListStreamConsumers", StreamARN=ARN, **fields)["Consumers"]]

    def subscribe(self, arn: str, kind: str = "TRIM_HORIZON", **place: Any) -> Subscription:
        fields = {"ConsumerARN": arn, "ShardId": shard_id(0), "StartingPosition": {"Type": kind, **place}}
        reply = self.api.answer(f"{TARGET}.SubscribeToShard", json.dumps(fields).encode())
        assert (reply.status, reply.body) == (200, OPENING)
        assert reply.subscription is not None
        return reply.subscription

    def subscription_refused(self, arn: str, **fields: Any) -> str:
        fields = {"ShardId": shard_id(0), "StartingPosition": {"Type": "TRIM_HORIZON"}, **fields}
        return self.refused("SubscribeToShard", ConsumerARN=arn, **fields)


def opened(event: Event | None) -> tuple[str, Json]:
    """Kind and content of an event."""
    assert event is not None
    buffer = EventStreamBuffer()
    buffer.add_data(event.body)
    (frame,) = list(buffer)
    headers: Any = frame.headers
    return headers.get(":exception-type") or headers[":event-type"], json.loads(frame.payload)


# consumers


def test_a_consumer_is_created_used_and_deleted_in_its_time() -> None:
    fan = Fan(consumer_seconds=5)
    arn = fan.register()
    assert fan.describe() | {"ConsumerARN": arn} == fan.describe()
    assert fan.describe()["ConsumerStatus"] == "CREATING"
    assert fan.subscription_refused(arn) == "ResourceInUseException"
    fan.clock.advance(5)
    assert fan.describe()["ConsumerStatus"] == "ACTIVE"
    fan.call("DeregisterStreamConsumer", ConsumerARN=arn)
    assert fan.describe()["ConsumerStatus"] == "DELETING"
    assert fan.refused("RegisterStreamConsumer", StreamARN=ARN, ConsumerName="c") == "ResourceInUseException"
    fan.clock.advance(5)
    assert fan.names() == []
    assert fan.register() != arn
    assert fan.refused("DescribeStreamConsumer", ConsumerARN=arn) == "ResourceNotFoundException"


def test_twenty_consumers_five_of_them_in_creation_are_the_most() -> None:
    fan = Fan(consumer_seconds=5)
    for number in range(20):
        if number % 5 == 0:
            fan.clock.advance(5)
        fan.register(f"c{number:02d}")
        if number % 5 == 4:
            assert fan.refused("RegisterStreamConsumer", StreamARN=ARN, ConsumerName="x") == "LimitExceededException"
    fan.clock.advance(5)
    assert fan.refused("RegisterStreamConsumer", StreamARN=ARN, ConsumerName="x") == "LimitExceededException"


def test_consumers_are_listed_in_pages() -> None:
    fan = Fan()
    for name in ("b", "a", "c"):
        fan.register(name)
    page = fan.call("ListStreamConsumers", StreamARN=ARN, MaxResults=2)
    assert [consumer["ConsumerName"] for consumer in page["Consumers"]] == ["a", "b"]
    assert fan.names(NextToken=page["NextToken"]) == ["c"]
    fan.clock.advance(301)
    code = fan.refused("ListStreamConsumers", StreamARN=ARN, NextToken=page["NextToken"])
    assert code == "ExpiredNextTokenException"


def test_a_stream_with_consumers_is_deleted_only_when_that_is_meant() -> None:
    fan = Fan()
    fan.register()
    assert fan.refused("DeleteStream", StreamName="s") == "ResourceInUseException"
    fan.call("DeleteStream", StreamName="s", EnforceConsumerDeletion=True)
    fan.create()
    assert fan.names() == []


@pytest.mark.parametrize("fields", [{}, {"ConsumerName": "c"}, {"ConsumerARN": ARN}, {"StreamARN": ARN}])
def test_a_consumer_that_is_not_named_is_refused(fields: dict[str, str]) -> None:
    fan = Fan()
    fan.register()
    assert fan.refused("DescribeStreamConsumer", **fields) in ("InvalidArgumentException", "ValidationException")


# subscriptions


def test_events_carry_records_their_lag_and_where_to_go_on() -> None:
    fan = Fan()
    first, second = fan.put("a", "b")
    fan.clock.advance(2)
    subscription = fan.subscribe(fan.register())
    kind, event = opened(subscription.next_event())
    assert (kind, texts(event)) == ("SubscribeToShardEvent", ["a", "b"])
    assert event["ContinuationSequenceNumber"] == second["SequenceNumber"]
    assert event["MillisBehindLatest"] == 0
    assert first["SequenceNumber"] < second["SequenceNumber"]
    assert subscription.next_event() is None
    fan.put("c")
    assert texts(opened(subscription.next_event())[1]) == ["c"]
    assert [call.records for call in fan.calls.list("SubscribeToShardEvent")] == [2, 1]


def test_an_event_has_at_most_a_mebibyte_and_tells_what_is_behind_it() -> None:
    fan = Fan()
    fan.put("x" * 600_000, "y" * 600_000)
    fan.clock.advance(3)
    subscription = fan.subscribe(fan.register())
    events = [opened(subscription.next_event())[1] for _ in range(2)]
    assert [(len(event["Records"]), event["MillisBehindLatest"]) for event in events] == [(1, 3000), (1, 0)]


def test_an_empty_shard_has_a_place_to_go_on_from() -> None:
    fan = Fan()
    arn = fan.register()
    fan.put("old")
    _, event = opened(fan.subscribe(arn, "LATEST").next_event())
    assert event["Records"] == []
    fan.put("new")
    fan.clock.advance(6)
    place = {"SequenceNumber": event["ContinuationSequenceNumber"]}
    _, event = opened(fan.subscribe(arn, "AFTER_SEQUENCE_NUMBER", **place).next_event())
    assert texts(event) == ["new"]


@pytest.mark.parametrize("end_with_records", [True, False])
def test_a_closed_shard_ends_the_subscription_and_names_its_children(end_with_records: bool) -> None:
    fan = Fan(end_with_records=end_with_records)
    fan.put("a")
    fan.split(0)
    subscription = fan.subscribe(fan.register())
    last = subscription.next_event()
    if not end_with_records:
        assert last is not None
        assert not last.last
        last = subscription.next_event()
    assert last is not None
    assert last.last
    _, event = opened(last)
    assert [child["ShardId"] for child in event["ChildShards"]] == [shard_id(1), shard_id(2)]
    assert "ContinuationSequenceNumber" not in event


def test_a_subscription_lasts_five_minutes() -> None:
    fan = Fan()
    subscription = fan.subscribe(fan.register())
    subscription.next_event()
    fan.clock.advance(299)
    assert subscription.next_event() is None
    fan.clock.advance(1)
    assert subscription.next_event() == Event(b"", last=True)


def test_the_next_subscription_waits_five_seconds_and_takes_the_last_one_over() -> None:
    fan = Fan()
    arn = fan.register()
    first = fan.subscribe(arn)
    fan.clock.advance(4.9)
    assert fan.subscription_refused(arn) == "ResourceInUseException"
    fan.subscribe(fan.register("other"))  # another consumer's is its own
    fan.clock.advance(0.1)
    second = fan.subscribe(arn)
    assert opened(first.next_event())[0] == "ResourceInUseException"
    assert opened(second.next_event())[0] == "SubscribeToShardEvent"


def test_a_removed_consumer_gets_nothing_more() -> None:
    fan = Fan(consumer_seconds=5)
    arn = fan.register()
    fan.clock.advance(5)
    subscription = fan.subscribe(arn)
    fan.call("DeregisterStreamConsumer", ConsumerARN=arn)
    assert opened(subscription.next_event())[0] == "ResourceNotFoundException"


def test_with_limits_a_shard_may_be_subscribed_to_once_a_second() -> None:
    fan = Fan(limits=True)
    arn = fan.register()
    fan.subscribe(arn)
    assert fan.subscription_refused(arn) == "LimitExceededException"
    fan.clock.advance(1)
    assert fan.subscription_refused(arn) == "ResourceInUseException"


def test_with_limits_a_subscription_gets_two_mebibytes_a_second_whatever_is_polled() -> None:
    fan = Fan(max_record_bytes=1_000_000)
    fan.put(*["x" * 1_000_000] * 8)
    fan.options.limits = True
    fan.get(fan.iterator())
    subscription = fan.subscribe(fan.register())
    sent = []
    for _ in range(4):
        count = 0
        while subscription.next_event() is not None:
            count += 1
        sent.append(count)
        fan.clock.advance(1)
    assert sent == [3, 2, 2, 1]


@pytest.mark.parametrize(
    "fields",
    [
        {"StartingPosition": None},
        {"StartingPosition": {}},
        {"StartingPosition": {"Type": "AT_SEQUENCE_NUMBER"}},
        {"StartingPosition": {"Type": "TRIM_HORIZON", "Timestamp": 1}},
        {"ShardId": None},
    ],
)
def test_a_subscription_without_a_place_is_refused(fields: dict[str, Any]) -> None:
    fan = Fan()
    assert fan.subscription_refused(fan.register(), **fields) in ("InvalidArgumentException", "ValidationException")


def test_faults_hit_single_events() -> None:
    fan = Fan()
    fan.put("a")
    fan.faults.add("SubscribeToShardEvent", "error", error="KMSDisabledException", shard=shard_id(0), after=1)
    subscription = fan.subscribe(fan.register())
    assert opened(subscription.next_event())[0] == "SubscribeToShardEvent"
    fan.put("b")
    assert opened(subscription.next_event())[0] == "KMSDisabledException"


def test_frames_have_the_services_layout() -> None:
    frame = frame_error("X", "m")
    total, head = int.from_bytes(frame[:4], "big"), int.from_bytes(frame[4:8], "big")
    assert total == len(frame)
    assert int.from_bytes(frame[8:12], "big") == crc32(frame[:8])
    assert int.from_bytes(frame[-4:], "big") == crc32(frame[:-4])
    assert json.loads(frame[12 + head : -4]) == {"message": "m"}
    assert frame[12:].startswith(b"\x0d:message-type\x07\x00\x09exception")
