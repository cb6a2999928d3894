# SPDX-License-Identifier: Apache-2.0
"""The operations that show a stream's shards."""

from __future__ import annotations

import json
import re
from typing import Any

from shardbatch.local.addressing import Addressing
from shardbatch.local.consumers import Consumers
from shardbatch.local.failure import invalid, malformed, not_found
from shardbatch.local.faults import FaultKind
from shardbatch.local.listing import MAX_DESCRIBED, FilterType, Listing, Selection
from shardbatch.local.request import Request
from shardbatch.local.shard import Shard
from shardbatch.local.stream import Stream
from shardbatch.local.stream_operations import mode_of, seconds

_TOKEN = re.compile(r".{1,1048576}")
_NOT_WITH_TOKEN = ("StreamName", "StreamCreationTimestamp", "ExclusiveStartShardId", "ShardFilter")
_BY_TIME = (FilterType.AT_TIMESTAMP, FilterType.FROM_TIMESTAMP)
Json = dict[str, Any]


class ListingOperations:
    """ListShards, DescribeStream, DescribeStreamSummary."""

    def __init__(self, addressing: Addressing, listing: Listing, consumers: Consumers) -> None:
        self._addressing = addressing
        self._listing = listing
        self._consumers = consumers

    def list_shards(self, request: Request) -> bytes:
        """ListShards."""
        fields = request.fields
        wanted = fields.integer("MaxResults", 1, 10_000)
        token = fields.text("NextToken", _TOKEN)
        if token is not None:
            for name in _NOT_WITH_TOKEN:
                if fields.has(name):
                    raise invalid(f"NextToken and {name} must not be given together")
            stream, page, onward = self._listing.resume(token, wanted)
            if fields.has("StreamARN") and self._addressing.named(request) != (stream.home, stream.name):
                raise invalid("StreamARN is not that of the stream of NextToken")
        else:
            stream = self._addressing.find(request)
            created_ms = fields.timestamp_ms("StreamCreationTimestamp")
            if created_ms not in (None, stream.created_ms):
                raise not_found(f"stream {stream.name} was not created at StreamCreationTimestamp")
            page, onward = self._listing.page(stream, self._selection(request), wanted)
        answer: Json = {"Shards": self._show(request, stream, page)}
        if onward is not None:
            answer["NextToken"] = onward
        return json.dumps(answer).encode()

    def describe_stream(self, request: Request) -> bytes:
        """DescribeStream."""
        fields = request.fields
        wanted = fields.integer("Limit", 1, 10_000)
        after = fields.text("ExclusiveStartShardId") or ""
        stream = self._addressing.find(request)
        shards = self._listing.select(stream, Selection(after=after))
        size = self._listing.page_size(wanted, MAX_DESCRIBED)
        description = self._describe(stream)
        description["Shards"] = self._show(request, stream, shards[:size])
        description["HasMoreShards"] = len(shards) > size
        return json.dumps({"StreamDescription": description}).encode()

    def describe_stream_summary(self, request: Request) -> bytes:
        """DescribeStreamSummary."""
        stream = self._addressing.find(request)
        summary = self._describe(stream)
        most = stream.max_record_bytes or self._addressing.engine.options.max_record_bytes
        summary |= {
            "OpenShardCount": len(stream.open_shards()),
            "ConsumerCount": len(self._consumers.list(stream)),
            "MaxRecordSizeInKiB": most // 1024,
        }
        return json.dumps({"StreamDescriptionSummary": summary}).encode()

    @staticmethod
    def _selection(request: Request) -> Selection:
        after = request.fields.text("ExclusiveStartShardId")
        shard_filter = request.fields.inner("ShardFilter")
        if shard_filter is None:
            return Selection(after=after or "")
        kind = shard_filter.choice("Type", FilterType)
        shard_id, timestamp_ms = shard_filter.text("ShardId"), shard_filter.timestamp_ms("Timestamp")
        if kind is None:
            raise malformed("ShardFilter.Type is required")
        if (kind is FilterType.AFTER_SHARD_ID) != (shard_id is not None):
            raise invalid("ShardFilter.ShardId goes with the type AFTER_SHARD_ID, and with no other")
        if (kind in _BY_TIME) != (timestamp_ms is not None):
            raise invalid("ShardFilter.Timestamp goes with AT_TIMESTAMP and FROM_TIMESTAMP, and with no other type")
        return Selection(kind, timestamp_ms or 0, max(after or "", shard_id or ""))

    @staticmethod
    def _show(request: Request, stream: Stream, shards: list[Shard]) -> list[Json]:
        request.stream = stream.name
        hidden = request.fault(FaultKind.HIDE_CHILDREN)
        if hidden is not None:
            parents = set(stream.shards) if hidden.shard is None else {hidden.shard}
            shards = [shard for shard in shards if not parents.intersection(shard.parents)]
        request.shards = len(shards)
        shown = [shard.describe() for shard in shards]
        opened = request.fault(FaultKind.OPEN_PARENT)
        if opened is not None:
            for entry in shown:
                if opened.shard in (None, entry["ShardId"]):
                    entry["SequenceNumberRange"].pop("EndingSequenceNumber", None)
        return shown

    @staticmethod
    def _describe(stream: Stream) -> Json:
        return {
            "StreamName": stream.name,
            "StreamARN": stream.arn,
            "StreamStatus": stream.status.value,
            "StreamModeDetails": mode_of(stream),
            "RetentionPeriodHours": stream.retention_hours,
            "StreamCreationTimestamp": seconds(stream.created_ms),
            "EnhancedMonitoring": [{"ShardLevelMetrics": []}],
            "EncryptionType": "NONE",
        }
