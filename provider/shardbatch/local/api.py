# SPDX-License-Identifier: Apache-2.0
"""The Kinesis API: from the body of a request to the body of an answer, faults and the log of calls included."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from shardbatch.local.addressing import Addressing
from shardbatch.local.calls import Call, Calls
from shardbatch.local.consumer_operations import ConsumerOperations
from shardbatch.local.consumers import Consumers
from shardbatch.local.engine import Engine
from shardbatch.local.event_stream import OPENING
from shardbatch.local.failure import ServiceError
from shardbatch.local.faults import FaultKind, Faults
from shardbatch.local.fields import Fields
from shardbatch.local.listing import Listing
from shardbatch.local.listing_operations import ListingOperations
from shardbatch.local.record_operations import RecordOperations
from shardbatch.local.records import Records
from shardbatch.local.request import Request
from shardbatch.local.stream_operations import StreamOperations
from shardbatch.local.subscription import Subscription, Subscriptions

TARGET = "Kinesis_20131202"
Operation = Callable[[Request], "bytes | Subscription"]


@dataclass(frozen=True)
class Reply:
    """An answer, and what shall go wrong with it on its way."""

    status: int
    body: bytes
    error: str | None = None
    delay: float = 0.0
    keep: float | None = None
    reset: bool = False
    subscription: Subscription | None = None
    """What comes after the body, event by event."""


class Api:
    """All operations over one engine."""

    def __init__(self, engine: Engine, faults: Faults, calls: Calls) -> None:
        self.engine = engine
        self.faults = faults
        self.calls = calls
        self.records = Records(engine)
        self._addressing = Addressing(engine)
        consumers = Consumers(engine)
        subscriptions = Subscriptions(engine, consumers, faults, calls)
        streams = StreamOperations(self._addressing, consumers)
        listing = ListingOperations(self._addressing, Listing(engine), consumers)
        fan_out = ConsumerOperations(self._addressing, consumers, self.records, subscriptions)
        records = RecordOperations(self._addressing, self.records)
        self._operations: dict[str, Operation] = {
            "AddTagsToStream": streams.add_tags,
            "CreateStream": streams.create_stream,
            "DecreaseStreamRetentionPeriod": streams.decrease_retention,
            "DeleteStream": streams.delete_stream,
            "DeregisterStreamConsumer": fan_out.deregister,
            "DescribeLimits": streams.describe_limits,
            "DescribeStream": listing.describe_stream,
            "DescribeStreamConsumer": fan_out.describe,
            "DescribeStreamSummary": listing.describe_stream_summary,
            "GetRecords": records.get_records,
            "GetShardIterator": records.get_shard_iterator,
            "IncreaseStreamRetentionPeriod": streams.increase_retention,
            "ListShards": listing.list_shards,
            "ListStreamConsumers": fan_out.list,
            "ListStreams": streams.list_streams,
            "ListTagsForStream": streams.list_tags,
            "MergeShards": streams.merge_shards,
            "PutRecord": records.put_record,
            "PutRecords": records.put_records,
            "RegisterStreamConsumer": fan_out.register,
            "RemoveTagsFromStream": streams.remove_tags,
            "SplitShard": streams.split_shard,
            "SubscribeToShard": fan_out.subscribe,
            "UpdateMaxRecordSize": streams.update_max_record_size,
            "UpdateShardCount": streams.update_shard_count,
            "UpdateStreamMode": streams.update_stream_mode,
        }

    def answer(self, target: str, body: bytes, authorization: str = "") -> Reply:
        """Serve one call.

        :param target: the header X-Amz-Target
        :param body: the request's JSON
        :param authorization: the header Authorization; read for account and region, never verified
        """
        arrived = time.monotonic()
        account, region = self._addressing.caller(authorization)
        request = Request(target.rpartition(".")[2], Fields({}), account, region)
        with self.engine.lock:
            clock_ms = self.engine.clock.now_ms()
            try:
                operation = self._resolve(target)
                request.fields = Fields(_parse(body))
                self._addressing.note(request)
                request.faults = self.faults.take(request.operation, request.stream, request.shard)
                reply = self._serve(operation, request)
            except ServiceError as error:
                reply = _refuse(error)
        reply = _spoil(reply, request)
        self.calls.add(
            Call(
                operation=request.operation,
                stream=request.stream,
                shard=request.shard,
                monotonic=arrived,
                clock_ms=clock_ms,
                status=0 if reply.reset else reply.status,
                error=reply.error,
                records=request.records,
                shards=request.shards,
            )
        )
        return reply

    def _resolve(self, target: str) -> Operation:
        service, _, name = target.rpartition(".")
        if service != TARGET or name not in self._operations:
            raise ServiceError("UnknownOperationException", f"X-Amz-Target {target!r} is unknown here")
        return self._operations[name]

    @staticmethod
    def _serve(operation: Operation, request: Request) -> Reply:
        planned, reset = request.fault(FaultKind.ERROR), request.fault(FaultKind.RESET)
        lost = [fault for fault in (planned, reset) if fault is not None and not fault.applied]
        body = b"" if lost else operation(request)
        if planned is not None:
            raise ServiceError(planned.error, planned.message, planned.status)
        return Reply(200, body) if isinstance(body, bytes) else Reply(200, OPENING, subscription=body)


def _parse(body: bytes) -> dict[str, Any]:
    try:
        values = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise ServiceError("SerializationException", "the request's body is not JSON") from None
    if not isinstance(values, dict):
        raise ServiceError("SerializationException", "the request's body is not a JSON object")
    return values


def _refuse(error: ServiceError) -> Reply:
    body = json.dumps({"__type": error.code, "message": error.message}).encode()
    return Reply(error.status, body, error.code)


def _spoil(reply: Reply, request: Request) -> Reply:
    cut = request.fault(FaultKind.CUT)
    delay = sum(fault.seconds for fault in request.faults if fault.kind is FaultKind.LATENCY)
    if cut is None and not delay and request.fault(FaultKind.RESET) is None:
        return reply
    keep = None if cut is None else cut.keep
    return replace(reply, delay=delay, keep=keep, reset=request.fault(FaultKind.RESET) is not None)
