# SPDX-License-Identifier: Apache-2.0
"""The operations of enhanced fan-out."""

from __future__ import annotations

import json
import re
from typing import Any

from shardbatch.local.addressing import Addressing
from shardbatch.local.consumers import CONSUMER_ARN, Consumer, Consumers
from shardbatch.local.failure import ServiceError, invalid, malformed, not_found
from shardbatch.local.fields import NUMBER
from shardbatch.local.records import IteratorType, Records, require_place
from shardbatch.local.request import Request
from shardbatch.local.stream import Stream
from shardbatch.local.stream_operations import seconds
from shardbatch.local.subscription import Subscription, Subscriptions

MOST_LISTED = 10_000
_TOKEN = re.compile(r".{1,1048576}")
Json = dict[str, Any]


class ConsumerOperations:
    """Register-, Describe-, List- and DeregisterStreamConsumer(s), SubscribeToShard."""

    def __init__(
        self, addressing: Addressing, consumers: Consumers, records: Records, subscriptions: Subscriptions
    ) -> None:
        self._addressing = addressing
        self._consumers = consumers
        self._records = records
        self._subscriptions = subscriptions

    def register(self, request: Request) -> bytes:
        """RegisterStreamConsumer."""
        name = request.fields.need("ConsumerName")
        consumer = self._consumers.register(self._stream(request), name)
        return json.dumps({"Consumer": _describe(consumer)}).encode()

    def describe(self, request: Request) -> bytes:
        """DescribeStreamConsumer."""
        stream, consumer = self._consumer(request)
        return json.dumps({"ConsumerDescription": _describe(consumer) | {"StreamARN": stream.arn}}).encode()

    def list(self, request: Request) -> bytes:
        """ListStreamConsumers."""
        fields = request.fields
        stream = self._stream(request)
        created_ms = fields.timestamp_ms("StreamCreationTimestamp")
        if created_ms not in (None, stream.created_ms):
            raise not_found(f"stream {stream.name} was not created at StreamCreationTimestamp")
        sealer, engine = self._addressing.engine.sealer, self._addressing.engine
        after, token = "", fields.text("NextToken", _TOKEN)
        if token is not None:
            opened = sealer.open("consumers", token)
            if opened is None:
                raise invalid("NextToken is not one that this server gave out")
            after, issued_ms = str(opened[0]), int(str(opened[1]))
            if engine.clock.now_ms() - issued_ms > engine.options.token_seconds * 1000:
                raise ServiceError("ExpiredNextTokenException", "NextToken is too old; list anew")
        size = fields.integer("MaxResults", 1, MOST_LISTED) or 100
        consumers = [consumer for consumer in self._consumers.list(stream) if consumer.name > after]
        answer: Json = {"Consumers": [_describe(consumer) for consumer in consumers[:size]]}
        if len(consumers) > size:
            answer["NextToken"] = sealer.seal("consumers", (consumers[size - 1].name, engine.clock.now_ms()))
        return json.dumps(answer).encode()

    def deregister(self, request: Request) -> bytes:
        """DeregisterStreamConsumer."""
        self._consumers.deregister(*self._consumer(request))
        return b""

    def subscribe(self, request: Request) -> Subscription:
        """SubscribeToShard: the answer goes on for minutes."""
        fields = request.fields
        arn, shard_id = fields.need("ConsumerARN", CONSUMER_ARN), fields.need("ShardId")
        place = fields.inner("StartingPosition")
        kind = place.choice("Type", IteratorType) if place is not None else None
        if place is None or kind is None:
            raise malformed("StartingPosition.Type is required")
        number, timestamp_ms = place.text("SequenceNumber", NUMBER), place.timestamp_ms("Timestamp")
        require_place(kind, "SequenceNumber", number, timestamp_ms)
        stream, consumer = self._consumers.find(arn)
        stream = self._addressing.engine.find_readable(stream.home, stream.name)
        shard, position = self._records.find_place(stream, shard_id, kind, number or "", timestamp_ms or 0)
        return self._subscriptions.open(stream, consumer, shard, position)

    def _stream(self, request: Request) -> Stream:
        if not request.fields.has("StreamARN"):
            raise malformed("StreamARN is required")
        return self._addressing.find(request)

    def _consumer(self, request: Request) -> tuple[Stream, Consumer]:
        """The consumer that is named by its ARN, or by its name and its stream's ARN."""
        arn, name = request.fields.text("ConsumerARN", CONSUMER_ARN), request.fields.text("ConsumerName")
        if arn is not None:
            stream, consumer = self._consumers.find(arn)
            if name not in (None, consumer.name):
                raise invalid(f"ConsumerName {name} and ConsumerARN {arn} are two consumers")
            if request.fields.has("StreamARN") and self._addressing.find(request) is not stream:
                raise invalid(f"StreamARN is not that of the stream of {arn}")
            return stream, consumer
        if name is None:
            raise invalid("give ConsumerARN, or StreamARN and ConsumerName")
        stream = self._stream(request)
        return stream, self._consumers.named(stream, name)


def _describe(consumer: Consumer) -> Json:
    return {
        "ConsumerName": consumer.name,
        "ConsumerARN": consumer.arn,
        "ConsumerStatus": consumer.status.value,
        "ConsumerCreationTimestamp": seconds(consumer.created_ms),
    }
