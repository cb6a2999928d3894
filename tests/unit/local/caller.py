# SPDX-License-Identifier: Apache-2.0
"""Calls the API of the stream server without a server: JSON in, JSON out, on a clock that stands still."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from shardbatch.local.api import TARGET, Api
from shardbatch.local.calls import Calls
from shardbatch.local.clock import Clock
from shardbatch.local.engine import Engine
from shardbatch.local.faults import Faults
from shardbatch.local.options import Options

NOW = 1_700_000_000.0
Json = dict[str, Any]


class RefusedError(Exception):
    """The API answered with an error."""

    def __init__(self, code: str, message: str, status: int) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


class Caller:
    """A client of the API."""

    targets: Mapping[str, str] = defaultdict(lambda: TARGET)
    """Which API an operation belongs to."""

    def __init__(self, **options: Any) -> None:
        self.clock = Clock(lambda: NOW)
        self.options = Options(**options)
        self.engine = Engine(self.clock, self.options)
        self.faults = Faults()
        self.calls = Calls()
        self.api = Api(self.engine, self.faults, self.calls)

    def call(self, operation: str, *, key: str = "AKIDEXAMPLE", region: str = "us-east-1", **fields: Any) -> Json:
        credential = f"AWS4-HMAC-SHA256 Credential={key}/20231114/{region}/kinesis/aws4_request, SignedHeaders=host"
        reply = self.api.answer(f"{self.targets[operation]}.{operation}", json.dumps(fields).encode(), credential)
        answer: Json = json.loads(reply.body) if reply.body else {}
        if reply.status != 200:
            raise RefusedError(answer["__type"].rpartition("#")[2], answer["message"], reply.status)
        return answer

    def refused(self, operation: str, **fields: Any) -> str:
        """The error name of a call that must fail."""
        try:
            answer = self.call(operation, **fields)
        except RefusedError as error:
            return error.code
        raise AssertionError(f"{operation} {fields} was answered with {answer}")

    def create(self, name: str = "s", shards: int = 1) -> None:
        self.call("CreateStream", StreamName=name, ShardCount=shards)

    def put(self, *data: str, key: str = "k", stream: str = "s", hash_key: int | None = None) -> list[Json]:
        """One PutRecord for each of ``data``."""
        more = {} if hash_key is None else {"ExplicitHashKey": str(hash_key)}
        return [
            self.call("PutRecord", StreamName=stream, PartitionKey=key, Data=b64encode(item.encode()).decode(), **more)
            for item in data
        ]

    def shards(self, stream: str = "s", **fields: Any) -> list[Json]:
        listed: list[Json] = self.call("ListShards", StreamName=stream, **fields)["Shards"]
        return listed

    def shard_ids(self, stream: str = "s", **fields: Any) -> list[int]:
        """Numbers of the listed shards."""
        return [int(shard["ShardId"][-12:]) for shard in self.shards(stream, **fields)]

    def iterator(self, shard: int = 0, kind: str = "TRIM_HORIZON", *, stream: str = "s", **fields: Any) -> str:
        answer = self.call(
            "GetShardIterator", StreamName=stream, ShardId=shard_id(shard), ShardIteratorType=kind, **fields
        )
        return str(answer["ShardIterator"])

    def get(self, iterator: str, **fields: Any) -> Json:
        return self.call("GetRecords", ShardIterator=iterator, **fields)

    def read(self, shard: int = 0, kind: str = "TRIM_HORIZON", **fields: Any) -> list[str]:
        """Data of the first page."""
        return texts(self.get(self.iterator(shard, kind, **fields)))

    def split(self, shard: int, middle: int | None = None) -> None:
        listed = next(item for item in self.shards() if item["ShardId"] == shard_id(shard))["HashKeyRange"]
        middle = middle or (int(listed["StartingHashKey"]) + int(listed["EndingHashKey"]) + 1) // 2
        self.call("SplitShard", StreamName="s", ShardToSplit=shard_id(shard), NewStartingHashKey=str(middle))

    def merge(self, shard: int, adjacent: int) -> None:
        self.call("MergeShards", StreamName="s", ShardToMerge=shard_id(shard), AdjacentShardToMerge=shard_id(adjacent))

    def status(self, stream: str = "s") -> str:
        summary = self.call("DescribeStreamSummary", StreamName=stream)["StreamDescriptionSummary"]
        return str(summary["StreamStatus"])


def shard_id(number: int) -> str:
    return f"shardId-{number:012d}"


def texts(answer: Json) -> list[str]:
    """Data of the records in an answer."""
    return [b64decode(record["Data"]).decode() for record in answer["Records"]]
