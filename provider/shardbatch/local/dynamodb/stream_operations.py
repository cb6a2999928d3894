# SPDX-License-Identifier: Apache-2.0
"""The API of DynamoDB Streams."""

from __future__ import annotations

import json
import re
from enum import StrEnum
from typing import Any

from shardbatch.local.dynamodb.addressing import STREAM, TABLE, TableAddressing
from shardbatch.local.dynamodb.reading import ChangeReader
from shardbatch.local.dynamodb.shard import ChangeShard
from shardbatch.local.dynamodb.stream import ChangeStream
from shardbatch.local.failure import ServiceError, malformed
from shardbatch.local.faults import FaultKind
from shardbatch.local.records import IteratorType
from shardbatch.local.request import Request

MOST_RECORDS = 1_000
MOST_LISTED = 100
LISTINGS_A_SECOND = 5
DESCRIPTIONS_A_SECOND = 10
LONGEST_ITERATOR = 2_048
_SHARD = re.compile(r"[a-zA-Z0-9_.-]{28,65}")
_NUMBER = re.compile(r"[0-9]{21,40}")
Json = dict[str, Any]


class ShardFilterType(StrEnum):
    """Which shards a description shows, as the service names it."""

    CHILD_SHARDS = "CHILD_SHARDS"


class ChangeStreamOperations:
    """ListStreams, DescribeStream, GetShardIterator, GetRecords."""

    def __init__(self, addressing: TableAddressing) -> None:
        self._addressing = addressing
        self._tables = addressing.tables
        self._engine = addressing.tables.engine
        self._reader = ChangeReader(addressing.tables)

    def list_streams(self, request: Request) -> bytes:
        """ListStreams."""
        fields = request.fields
        limit = fields.integer("Limit", 1, MOST_LISTED) or MOST_LISTED
        after = fields.text("ExclusiveStartStreamArn", STREAM) or ""
        table = fields.text("TableName", TABLE)
        home, name = (self._addressing.home(request), None) if table is None else self._addressing.named(request, table)
        self._tables.check_rate("ListStreams", home, LISTINGS_A_SECOND)
        streams = [stream for stream in self._tables.list_streams(home, name) if stream.arn > after]
        page = streams[:limit]
        answer: Json = {
            "Streams": [{"StreamArn": s.arn, "TableName": s.table, "StreamLabel": s.label} for s in page],
        }
        if len(page) == limit:
            answer["LastEvaluatedStreamArn"] = page[-1].arn
        return json.dumps(answer).encode()

    def describe_stream(self, request: Request) -> bytes:
        """DescribeStream."""
        fields = request.fields
        limit = fields.integer("Limit", 1, MOST_LISTED) or MOST_LISTED
        after = fields.text("ExclusiveStartShardId", _SHARD) or ""
        parent = self._child_filter(request)
        stream = self._addressing.find_stream(request)
        self._tables.check_rate("DescribeStream", self._addressing.home(request), DESCRIPTIONS_A_SECOND)
        now_ms, options = self._engine.clock.now_ms(), self._engine.options
        shards = stream.listed(now_ms)
        stream.listings += 1
        if parent is not None and options.child_filter:
            shards = [shard for shard in shards if shard.parent_id == parent]
        size = min(limit, options.page_size or MOST_LISTED)
        seen = sum(shard.shard_id <= after for shard in shards)
        start = max(seen - min(options.repeated_shards, size - 1), 0)
        page = shards[start : start + size]
        description = stream.describe(now_ms)
        description["Shards"] = _show(request, stream, page)
        if len(page) == size:  # Perhaps nothing comes after it: the service promises no more.
            description["LastEvaluatedShardId"] = page[-1].shard_id
        return json.dumps({"StreamDescription": description}).encode()

    def get_shard_iterator(self, request: Request) -> bytes:
        """GetShardIterator."""
        fields = request.fields
        shard_id, kind = fields.need("ShardId", _SHARD), fields.choice("ShardIteratorType", IteratorType)
        if kind is None:
            raise malformed("ShardIteratorType is required")
        number, timestamp_ms = fields.text("SequenceNumber", _NUMBER), fields.timestamp_ms("Timestamp")
        stream = self._addressing.find_stream(request)
        iterator = self._reader.make_iterator(stream, shard_id, kind, number, timestamp_ms)
        return b'{"ShardIterator":"%s"}' % iterator.encode()

    def get_records(self, request: Request) -> bytes:
        """GetRecords."""
        fields = request.fields
        iterator = self._reader.open_iterator(fields.any_text("ShardIterator", LONGEST_ITERATOR))
        limit = fields.integer("Limit", 1, 2**31 - 1) or MOST_RECORDS
        if limit > MOST_RECORDS:
            raise ServiceError("LimitExceededException", f"Limit must be from 1 to {MOST_RECORDS}, got {limit}")
        page = self._reader.read(iterator, limit, empty=request.fault(FaultKind.EMPTY) is not None)
        request.records = len(page.records)
        tail = b"]"
        if request.fault(FaultKind.NO_ITERATOR) is None:
            onward = b"null" if page.next_iterator is None else b'"%s"' % page.next_iterator.encode()
            tail += b',"NextShardIterator":' + onward
        return b"".join((b'{"Records":[', b",".join(page.records), tail, b"}"))

    @staticmethod
    def _child_filter(request: Request) -> str | None:
        wanted = request.fields.inner("ShardFilter")
        if wanted is None:
            return None
        if wanted.choice("Type", ShardFilterType) is None:
            raise malformed("ShardFilter.Type is required")
        return wanted.need("ShardId", _SHARD)


def _show(request: Request, stream: ChangeStream, shards: list[ChangeShard]) -> list[Json]:
    hidden = request.fault(FaultKind.HIDE_CHILDREN)
    if hidden is not None:
        parents = set(stream.shards) if hidden.shard is None else {hidden.shard}
        shards = [shard for shard in shards if shard.parent_id not in parents]
    request.shards = len(shards)
    shown = [shard.describe() for shard in shards]
    opened = request.fault(FaultKind.OPEN_PARENT)
    if opened is not None:
        for entry in shown:
            if opened.shard in (None, entry["ShardId"]):
                entry["SequenceNumberRange"].pop("EndingSequenceNumber", None)
    return shown
