# SPDX-License-Identifier: Apache-2.0
"""What every Kinesis server with enhanced fan-out has to do; a clause names no server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.integration.local.conftest import Target
from tests.integration.local.test_conformance import ROOT, data, refused
from tests.support.waiting import wait_until


class Fan:
    """A stream with a consumer."""

    def __init__(self, target: Target, stream: str) -> None:
        self.target, self.stream = target, stream
        target.create(stream)
        summary = target.client.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]
        self.stream_arn = summary["StreamARN"]
        self.arn = self.register("etl")

    def register(self, name: str) -> str:
        registered = self.target.client.register_stream_consumer(StreamARN=self.stream_arn, ConsumerName=name)
        wait_until(lambda: self.status(name) == "ACTIVE", 10, f"{name} to be active")
        return str(registered["Consumer"]["ConsumerARN"])

    def status(self, name: str) -> str:
        answer = self.target.client.describe_stream_consumer(StreamARN=self.stream_arn, ConsumerName=name)
        return str(answer["ConsumerDescription"]["ConsumerStatus"])

    def put(self, *texts: bytes) -> list[str]:
        put = self.target.client.put_record
        return [put(StreamName=self.stream, PartitionKey="a", Data=text)["SequenceNumber"] for text in texts]

    def subscribe(self, kind: str = "TRIM_HORIZON", **place: Any) -> Iterator[dict[str, Any]]:
        answer = self.target.client.subscribe_to_shard(
            ConsumerARN=self.arn, ShardId=ROOT, StartingPosition={"Type": kind, **place}
        )
        return (event["SubscribeToShardEvent"] for event in answer["EventStream"])


def received(events: Iterator[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Events until so many records have come."""
    found: list[dict[str, Any]] = []
    while sum(len(event["Records"]) for event in found) < count:
        found.append(next(events))
    return found


def test_a_consumer_is_registered_listed_and_removed(fan_out_target: Target, unique_name: str) -> None:
    fan, client = Fan(fan_out_target, unique_name), fan_out_target.client
    code = refused(client.register_stream_consumer, StreamARN=fan.stream_arn, ConsumerName="etl")
    assert code == "ResourceInUseException"
    fan.register("other")
    listed = client.list_stream_consumers(StreamARN=fan.stream_arn)["Consumers"]
    assert sorted(consumer["ConsumerName"] for consumer in listed) == ["etl", "other"]
    summary = client.describe_stream_summary(StreamName=unique_name)["StreamDescriptionSummary"]
    assert summary["ConsumerCount"] == 2
    client.deregister_stream_consumer(StreamARN=fan.stream_arn, ConsumerName="other")
    client.deregister_stream_consumer(ConsumerARN=fan.arn)

    def gone() -> bool:
        return not client.list_stream_consumers(StreamARN=fan.stream_arn)["Consumers"]

    wait_until(gone, 10, "the consumers to be gone")
    code = refused(client.describe_stream_consumer, ConsumerARN=fan.arn)
    assert code == "ResourceNotFoundException"


def test_a_subscription_gives_what_is_there_and_what_comes(fan_out_target: Target, unique_name: str) -> None:
    fan_out_target.need("initial-response")
    fan = Fan(fan_out_target, unique_name)
    fan.put(b"0", b"1")
    events = fan.subscribe()
    first = received(events, 2)
    assert data([record for event in first for record in event["Records"]]) == [b"0", b"1"]
    numbers = fan.put(b"2")
    (event,) = (event for event in received(events, 1) if event["Records"])
    assert data(event["Records"]) == [b"2"]
    assert event["ContinuationSequenceNumber"] == numbers[-1]
    assert event["MillisBehindLatest"] == 0


def test_a_subscription_begins_at_a_sequence_number(fan_out_target: Target, unique_name: str) -> None:
    fan_out_target.need("initial-response")
    fan = Fan(fan_out_target, unique_name)
    numbers = fan.put(b"0", b"1", b"2")
    events = received(fan.subscribe("AFTER_SEQUENCE_NUMBER", SequenceNumber=numbers[0]), 2)
    assert data([record for event in events for record in event["Records"]]) == [b"1", b"2"]


def test_a_second_subscription_within_five_seconds_is_refused(fan_out_target: Target, unique_name: str) -> None:
    fan_out_target.need("initial-response")
    fan = Fan(fan_out_target, unique_name)
    next(fan.subscribe())
    assert refused(fan.subscribe) == "ResourceInUseException"


def test_the_end_of_a_shard_ends_the_subscription(fan_out_target: Target, unique_name: str) -> None:  # KV-7
    fan_out_target.need("initial-response")
    fan_out_target.need("lineage")
    fan = Fan(fan_out_target, unique_name)
    fan.put(b"0", b"1")
    children = fan_out_target.split(unique_name, ROOT)
    events = list(fan.subscribe())
    assert data([record for event in events for record in event["Records"]]) == [b"0", b"1"]
    assert sorted(child["ShardId"] for child in events[-1]["ChildShards"]) == children
    assert events[-1].get("ContinuationSequenceNumber") is None
