# SPDX-License-Identifier: Apache-2.0
"""The embedded server under a clock that only sleeping moves, and sources on it: no test waits."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

from shardbatch.core.ports import Clock, Page
from shardbatch.local import Clock as ServerClock
from shardbatch.local import StreamServer
from shardbatch.sources.kinesis.options import KinesisOptions
from shardbatch.sources.kinesis.source import KinesisSource
from tests.support.aws import REGION, AwsServer

STREAM = "orders"
FIRST = "shardId-000000000000"


class SharedTime:
    """One time for server and source: a sleep moves it for both. The first moment is the real one, so that signing and
    the server agree."""

    def __init__(self, server: StreamServer) -> None:
        self._server = server
        self.slept: list[float] = []
        self._lock = threading.Lock()

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.slept.append(seconds)
            self._server.clock.advance(seconds)

    @property
    def clock(self) -> Clock:
        server = self._server.clock
        return Clock(now_ms=server.now_ms, monotonic=server.now, sleep=self.sleep)


class World:
    """A server with one stream."""

    def __init__(self, server: StreamServer, shards: int = 1) -> None:
        self.server = server
        self.time = SharedTime(server)
        self.aws = AwsServer("local", server.endpoint_url)
        self.client = self.aws.client("kinesis", attempts=1)
        self.client.create_stream(StreamName=STREAM, ShardCount=shards)

    def source(self, *, attempts: int = 1, **options: Any) -> KinesisSource:
        """:param attempts: of botocore's own retries."""
        client = self.client if attempts == 1 else self.aws.client("kinesis", attempts=attempts)
        return KinesisSource(client, STREAM, clock=self.time.clock, options=KinesisOptions(**options))

    def put(self, *records: bytes, hash_key: int = 0) -> list[str]:
        entries = [{"Data": data, "PartitionKey": "k", "ExplicitHashKey": str(hash_key)} for data in records]
        answer = self.client.put_records(StreamName=STREAM, Records=entries)
        assert answer["FailedRecordCount"] == 0
        return [record["SequenceNumber"] for record in answer["Records"]]

    def split(self, shard_id: str = FIRST) -> None:
        self.client.split_shard(StreamName=STREAM, ShardToSplit=shard_id, NewStartingHashKey=str(2**127))

    def spacing_ms(self, operation: str = "GetRecords") -> list[int]:
        """Time between calls as the server saw them, refused ones included."""
        times = [call.clock_ms for call in self.server.calls.list(operation)]
        return [later - earlier for earlier, later in itertools.pairwise(times)]


def stopped_server(**options: Any) -> StreamServer:
    """A server whose time stands still until it is moved."""
    now = ServerClock().now()
    return StreamServer(clock=ServerClock(lambda: now), region=REGION, **options)


def take(pages: Iterator[Page], count: int) -> list[Page]:
    return [next(pages) for _ in range(count)]


def until(pages: Iterator[Page], records: int) -> list[Page]:
    """Pages until so many records have come, or the end."""
    found: list[Page] = []
    for page in pages:
        found.append(page)
        assert len(found) < 500, "the records do not come"
        if page.ended or sum(p.records.num_rows for p in found) >= records:
            break
    return found


def payloads(pages: list[Page]) -> list[bytes]:
    return [data for page in pages for data in page.records.column("data").to_pylist()]
