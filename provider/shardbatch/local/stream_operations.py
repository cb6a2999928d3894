# SPDX-License-Identifier: Apache-2.0
"""The operations on streams and their shards."""

from __future__ import annotations

import json
import re
from typing import Any

from shardbatch.local.addressing import Addressing
from shardbatch.local.consumers import Consumers
from shardbatch.local.engine import ON_DEMAND_SHARDS, parse_hash_key
from shardbatch.local.failure import in_use, invalid, malformed
from shardbatch.local.fields import Fields
from shardbatch.local.request import Request
from shardbatch.local.stream import Status, Stream

LONGEST_RETENTION_HOURS = 8_760
MOST_STREAMS_LISTED = 10_000
_HASH_TEXT = re.compile(r".{1,200}")
_SCALING = re.compile(r"UNIFORM_SCALING")
_MODES = ("PROVISIONED", "ON_DEMAND")
Json = dict[str, Any]


def seconds(at_ms: int) -> float:
    """A time as the service writes it."""
    return at_ms / 1000


class StreamOperations:
    """Create, delete, list, reshard, retention, mode, record size and tags."""

    def __init__(self, addressing: Addressing, consumers: Consumers) -> None:
        self._addressing = addressing
        self._consumers = consumers
        self._engine = addressing.engine

    def create_stream(self, request: Request) -> bytes:
        """CreateStream."""
        fields = request.fields
        name = fields.need("StreamName")
        on_demand = self._mode(fields) == "ON_DEMAND"
        count = fields.integer("ShardCount", 1, 100_000)
        if count is None and not on_demand:
            raise malformed("ShardCount is required in provisioned mode")
        if count is not None and on_demand:
            raise malformed("ShardCount goes with provisioned mode only")
        kib = fields.integer("MaxRecordSizeInKiB", 1_024, 10_240)
        self._engine.create(
            name,
            count or ON_DEMAND_SHARDS,
            account=request.account,
            region=request.region,
            on_demand=on_demand,
            max_record_bytes=(kib or 0) * 1024,
            tags=fields.strings("Tags"),
        )
        return b""

    def delete_stream(self, request: Request) -> bytes:
        """DeleteStream."""
        stream = self._addressing.find(request)
        if self._consumers.list(stream) and request.fields.values.get("EnforceConsumerDeletion") is not True:
            raise in_use(f"stream {stream.name} has consumers; deregister them, or give EnforceConsumerDeletion")
        self._engine.delete(stream)
        return b""

    def list_streams(self, request: Request) -> bytes:
        """ListStreams."""
        fields = request.fields
        token = fields.text("NextToken", re.compile(r".{1,1048576}"))
        after = fields.text("ExclusiveStartStreamName") or ""
        if token is not None:
            opened = self._engine.sealer.open("streams", token)
            if opened is None:
                raise invalid("NextToken is not one that this server gave out")
            after = str(opened[0])
        limit = fields.integer("Limit", 1, MOST_STREAMS_LISTED) or 100
        streams = [stream for stream in self._engine.list(self._addressing.home(request)) if stream.name > after]
        page = streams[:limit]
        answer: Json = {
            "StreamNames": [stream.name for stream in page],
            "HasMoreStreams": len(streams) > limit,
            "StreamSummaries": [
                {
                    "StreamName": stream.name,
                    "StreamARN": stream.arn,
                    "StreamStatus": stream.status.value,
                    "StreamModeDetails": mode_of(stream),
                    "StreamCreationTimestamp": seconds(stream.created_ms),
                }
                for stream in page
            ],
        }
        if len(streams) > limit:
            answer["NextToken"] = self._engine.sealer.seal("streams", (page[-1].name,))
        return json.dumps(answer).encode()

    def split_shard(self, request: Request) -> bytes:
        """SplitShard."""
        fields = request.fields
        shard_id, middle = fields.need("ShardToSplit"), fields.need("NewStartingHashKey", _HASH_TEXT)
        stream = self._addressing.find(request)
        self._engine.split(stream, shard_id, parse_hash_key("NewStartingHashKey", middle))
        return b""

    def merge_shards(self, request: Request) -> bytes:
        """MergeShards."""
        shard_id, adjacent_id = request.fields.need("ShardToMerge"), request.fields.need("AdjacentShardToMerge")
        if shard_id == adjacent_id:
            raise invalid(f"shard {shard_id} cannot be merged with itself")
        self._engine.merge(self._addressing.find(request), shard_id, adjacent_id)
        return b""

    def update_shard_count(self, request: Request) -> bytes:
        """UpdateShardCount."""
        target = request.fields.need_integer("TargetShardCount", 1, 100_000)
        request.fields.need("ScalingType", _SCALING)
        stream = self._addressing.find(request)
        present = self._engine.recount(stream, target)
        answer = {
            "StreamName": stream.name,
            "StreamARN": stream.arn,
            "CurrentShardCount": present,
            "TargetShardCount": target,
        }
        return json.dumps(answer).encode()

    def increase_retention(self, request: Request) -> bytes:
        """IncreaseStreamRetentionPeriod."""
        hours = request.fields.need_integer("RetentionPeriodHours", 1, 2**31 - 1)
        stream = self._addressing.find(request)
        if not stream.retention_hours <= hours <= LONGEST_RETENTION_HOURS:
            raise invalid(f"the retention can go from {stream.retention_hours} up to {LONGEST_RETENTION_HOURS} hours")
        self._engine.set_retention(stream, hours)
        return b""

    def decrease_retention(self, request: Request) -> bytes:
        """DecreaseStreamRetentionPeriod."""
        hours = request.fields.need_integer("RetentionPeriodHours", 1, 2**31 - 1)
        stream = self._addressing.find(request)
        if not 24 <= hours <= stream.retention_hours:
            raise invalid(f"the retention can go from {stream.retention_hours} down to 24 hours")
        self._engine.set_retention(stream, hours)
        return b""

    def update_stream_mode(self, request: Request) -> bytes:
        """UpdateStreamMode."""
        mode = self._mode(request.fields)
        self._engine.set_mode(self._addressing.find(request), on_demand=mode == "ON_DEMAND")
        return b""

    def update_max_record_size(self, request: Request) -> bytes:
        """UpdateMaxRecordSize."""
        kib = request.fields.need_integer("MaxRecordSizeInKiB", 1_024, 10_240)
        self._addressing.find(request).max_record_bytes = kib * 1024
        return b""

    def add_tags(self, request: Request) -> bytes:
        """AddTagsToStream."""
        self._addressing.find(request).tags.update(request.fields.strings("Tags") or {})
        return b""

    def remove_tags(self, request: Request) -> bytes:
        """RemoveTagsFromStream."""
        stream = self._addressing.find(request)
        for key in request.fields.array("TagKeys", 1, 50):
            stream.tags.pop(str(key), None)
        return b""

    def list_tags(self, request: Request) -> bytes:
        """ListTagsForStream."""
        limit = request.fields.integer("Limit", 1, 50) or 50
        start = str(request.fields.values.get("ExclusiveStartTagKey") or "")
        tags = sorted((k, v) for k, v in self._addressing.find(request).tags.items() if k > start)
        answer = {"Tags": [{"Key": k, "Value": v} for k, v in tags[:limit]], "HasMoreTags": len(tags) > limit}
        return json.dumps(answer).encode()

    def describe_limits(self, request: Request) -> bytes:
        """DescribeLimits."""
        streams = [s for s in self._engine.list(self._addressing.home(request)) if s.status is not Status.CREATING]
        answer = {
            "ShardLimit": self._engine.options.shard_limit,
            "OpenShardCount": sum(len(stream.open_shards()) for stream in streams),
            "OnDemandStreamCount": sum(stream.on_demand for stream in streams),
            "OnDemandStreamCountLimit": 50,
        }
        return json.dumps(answer).encode()

    @staticmethod
    def _mode(fields: Fields) -> str:
        details = fields.inner("StreamModeDetails")
        mode = str(details.values.get("StreamMode")) if details else "PROVISIONED"
        if mode not in _MODES:
            raise malformed(f"StreamMode must be one of {', '.join(_MODES)}, got {mode!r}")
        return mode


def mode_of(stream: Stream) -> Json:
    """The stream's mode, as answers show it."""
    return {"StreamMode": _MODES[stream.on_demand]}
