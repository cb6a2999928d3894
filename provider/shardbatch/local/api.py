# SPDX-License-Identifier: Apache-2.0
"""From the body of a request to the body of an answer, faults and the log of calls included."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import Any

from shardbatch.local.addressing import Addressing
from shardbatch.local.calls import Call, Calls
from shardbatch.local.consumer_operations import ConsumerOperations
from shardbatch.local.consumers import Consumers
from shardbatch.local.dynamodb.service import dynamodb_services
from shardbatch.local.dynamodb.tables import Tables
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
from shardbatch.local.service import JSON_1_1, Operation, Service
from shardbatch.local.stream_operations import StreamOperations
from shardbatch.local.subscription import Subscription, Subscriptions

TARGET = "Kinesis_20131202"


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
    content_type: str = JSON_1_1


class Api:
    """All operations of all services, over one engine."""

    def __init__(self, engine: Engine, faults: Faults, calls: Calls) -> None:
        self.engine = engine
        self.faults = faults
        self.calls = calls
        self.records = Records(engine)
        self.tables = Tables(engine)
        self._addressing = Addressing(engine)
        self._services = {service.target: service for service in (self._kinesis(), *dynamodb_services(self.tables))}

    def _kinesis(self) -> Service:
        consumers = Consumers(self.engine)
        subscriptions = Subscriptions(self.engine, consumers, self.faults, self.calls)
        streams = StreamOperations(self._addressing, consumers)
        listing = ListingOperations(self._addressing, Listing(self.engine), consumers)
        fan_out = ConsumerOperations(self._addressing, consumers, self.records, subscriptions)
        records = RecordOperations(self._addressing, self.records)
        operations: dict[str, Operation] = {
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
        return Service(TARGET, operations, self._addressing.note)

    def answer(self, target: str, body: bytes, authorization: str = "") -> Reply:
        """Serve one call.

        :param target: the header X-Amz-Target
        :param body: the request's JSON
        :param authorization: the header Authorization; read for account and region, never verified
        """
        arrived = time.monotonic()
        account, region = self._addressing.caller(authorization)
        service_name, _, operation_name = target.rpartition(".")
        request = Request(operation_name, Fields({}), account, region)
        service = self._services.get(service_name)
        with self.engine.lock:
            clock_ms = self.engine.clock.now_ms()
            try:
                if service is None:
                    raise ServiceError("UnknownOperationException", f"X-Amz-Target {target!r} is unknown here")
                operation = _resolve(service, operation_name)
                request.fields = Fields(_parse(body))
                service.note(request)
                request.faults = self.faults.take(request.operation, request.stream, request.shard)
                reply = self._serve(operation, request, service.content_type)
            except ServiceError as error:
                reply = _refuse(error, service)
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

    @staticmethod
    def _serve(operation: Operation, request: Request, content_type: str) -> Reply:
        planned, reset = request.fault(FaultKind.ERROR), request.fault(FaultKind.RESET)
        lost = [fault for fault in (planned, reset) if fault is not None and not fault.applied]
        body = b"" if lost else operation(request)
        if planned is not None:
            raise ServiceError(planned.error, planned.message, planned.status)
        if isinstance(body, bytes):
            return Reply(200, body, content_type=content_type)
        return Reply(200, OPENING, subscription=body)


def _resolve(service: Service, name: str) -> Operation:
    if name not in service.operations:
        raise ServiceError("UnknownOperationException", f"{service.target} has no {name!r} here{service.scope}")
    return service.operations[name]


def _parse(body: bytes) -> dict[str, Any]:
    try:
        values = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise ServiceError("SerializationException", "the request's body is not JSON") from None
    if not isinstance(values, dict):
        raise ServiceError("SerializationException", "the request's body is not a JSON object")
    return values


def _refuse(error: ServiceError, service: Service | None) -> Reply:
    space, content_type = ("", JSON_1_1) if service is None else (service.error_space, service.content_type)
    body = json.dumps({"__type": space + error.code, "message": error.message}).encode()
    return Reply(error.status, body, error.code, content_type=content_type)


def _spoil(reply: Reply, request: Request) -> Reply:
    cut = request.fault(FaultKind.CUT)
    delay = sum(fault.seconds for fault in request.faults if fault.kind is FaultKind.LATENCY)
    if cut is None and not delay and request.fault(FaultKind.RESET) is None:
        return reply
    keep = None if cut is None else cut.keep
    return replace(reply, delay=delay, keep=keep, reset=request.fault(FaultKind.RESET) is not None)
