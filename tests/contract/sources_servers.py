# SPDX-License-Identifier: Apache-2.0
"""The servers of the source suite behind one face: a client to write with, a clock to move, and what it can do."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

import pytest

from shardbatch.core.ports import Clock, Page, Source
from shardbatch.core.position import Position
from shardbatch.core.shard import Shard
from shardbatch.local import StreamServer
from shardbatch.sources.kinesis.options import KinesisOptions
from shardbatch.sources.kinesis.source import KinesisSource
from tests.support.aws import REGION, AwsServer
from tests.support.waiting import wait_until

MIDDLE = 2**127


@dataclass(frozen=True)
class Abilities:
    """What a server can do beyond the least that a Kinesis server does."""

    names_children: bool = True
    trims: bool = True
    pages_listings: bool = True
    takes_arns: bool = True
    looks_ahead: bool = True  # answers AT_TIMESTAMP when no record has come since
    recounts: bool = True
    tells_recreation: bool = True
    merges: bool = True
    deletes: bool = True


class Hurried:
    """A clock for sources: sleeping takes next to no time and counts in full."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self.skipped = 0.0

    def sleep(self, seconds: float) -> None:
        nap = min(seconds, 0.01)
        time.sleep(nap)
        self.skipped += seconds - nap

    @property
    def clock(self) -> Clock:
        return Clock(
            now_ms=self.now_ms,
            monotonic=lambda: time.monotonic() + self.skipped,
            sleep=self.sleep,
        )


@dataclass
class World:
    """One server."""

    server: AwsServer
    can: Abilities
    advance: Callable[[timedelta], None]
    restore: Callable[[], None] = lambda: None
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000

    def texts(self, *pages: Page) -> list[str]:
        return texts(*pages)

    def key(self, text: str) -> str:
        return key(text)

    @cached_property
    def client(self) -> Any:
        """What the tests write with."""
        return self.server.client("kinesis")

    @cached_property
    def reader(self) -> Any:
        """What sources read with."""
        return self.server.client("kinesis", attempts=1)

    def unmade(self, name: str) -> Stream:
        """A stream that is not made yet."""
        return Stream(self, name)

    def stream(self, shards: int = 1) -> Stream:
        """A new stream, active."""
        stream = Stream(self, f"t-{uuid.uuid4().hex[:12]}")
        stream.create(shards)
        return stream


@dataclass
class Stream:
    """One stream of a server, and sources on it."""

    world: World
    name: str

    def create(self, shards: int) -> None:
        self.world.client.create_stream(StreamName=self.name, ShardCount=shards)
        self.settle()

    def delete(self) -> None:
        self.world.client.delete_stream(StreamName=self.name)
        wait_until(lambda: self.name not in self.world.client.list_streams(Limit=1000)["StreamNames"], 10, "deletion")

    def summary(self) -> dict[str, Any]:
        answer = self.world.client.describe_stream_summary(StreamName=self.name)
        return dict(answer["StreamDescriptionSummary"])

    def settle(self) -> None:
        wait_until(lambda: self.summary()["StreamStatus"] == "ACTIVE", 20, f"{self.name} to be active")

    def source(self, *, by_arn: bool = False, hurried: bool = True, **options: Any) -> KinesisSource:
        named = self.summary()["StreamARN"] if by_arn else self.name
        options = {"idle_interval": timedelta(0), "calls_per_second": 5.0, **options}
        clock = Hurried(self.world.now_ms).clock if hurried else None
        return KinesisSource(self.world.reader, named, clock=clock, options=KinesisOptions(**options))

    def put(self, *texts: str, hash_key: int = 0, into: Shard | None = None) -> list[str]:
        """Write records into a shard, or into that which owns a hash key; their sequence numbers."""
        if into is not None and into.hash_range is not None:
            hash_key = into.hash_range.start
        entries = [{"Data": t.encode(), "PartitionKey": f"k-{t}", "ExplicitHashKey": str(hash_key)} for t in texts]
        answer = self.world.client.put_records(StreamName=self.name, Records=entries)
        assert answer["FailedRecordCount"] == 0
        return [record["SequenceNumber"] for record in answer["Records"]]

    def put_bytes(self, *payloads: bytes) -> list[str]:
        """Write records that are no texts; their sequence numbers."""
        entries = [{"Data": payload, "PartitionKey": "k"} for payload in payloads]
        answer = self.world.client.put_records(StreamName=self.name, Records=entries)
        assert answer["FailedRecordCount"] == 0
        return [record["SequenceNumber"] for record in answer["Records"]]

    def split(self, shard: Shard) -> None:
        assert shard.hash_range is not None
        middle = (shard.hash_range.start + shard.hash_range.end + 1) // 2
        self.world.client.split_shard(StreamName=self.name, ShardToSplit=shard.shard_id, NewStartingHashKey=str(middle))
        self.settle()

    def expire(self) -> None:
        """All that was written is too old now."""
        self.world.advance(timedelta(hours=25))

    def merge(self, shard: Shard, adjacent: Shard) -> None:
        self.world.client.merge_shards(
            StreamName=self.name, ShardToMerge=shard.shard_id, AdjacentShardToMerge=adjacent.shard_id
        )
        self.settle()


def texts(*pages: Page) -> list[str]:
    return [data.decode() for page in pages for data in page.records.column("data").to_pylist()]


def key(text: str) -> str:
    """The partition key of the record that a text makes."""
    return f"k-{text}"


def only(source: Source) -> Shard:
    """The one open shard."""
    (shard,) = [shard for shard in source.list_shards() if not shard.closed]
    return shard


def to_end(source: Source, shard_id: str, start: Position, *, most: int = 100) -> list[Page]:
    """All pages of a shard that has ended."""
    pages = []
    for page in source.read(shard_id, start):
        pages.append(page)
        assert len(pages) < most, "the shard does not end"
    return pages


def to_tip(pages: Iterator[Page]) -> list[Page]:
    """Pages up to the first empty one at which the shard is not known to hold more."""
    found = []
    for page in pages:
        found.append(page)
        assert len(found) < 100, "the tip is not reached"
        if page.ended or page.at_tip:
            break
    return found


def local(stack: ExitStack, *, ends_late: bool) -> World:
    """The embedded server in one of the two ways in which servers end a shard."""
    changes = {"end_with_records": not ends_late, "name_children": not ends_late, "heartbeat_seconds": 0.1}
    server = StreamServer(region=REGION, **changes).start()
    stack.callback(server.stop)
    aws = AwsServer("local", server.endpoint_url)

    def advance(by: timedelta) -> None:
        server.clock.advance(by.total_seconds())

    return World(aws, Abilities(names_children=not ends_late), advance, now_ms=server.clock.now_ms)


def node(request: pytest.FixtureRequest, name: str, can: Abilities) -> World:
    """A public server, whose clock can be set back."""
    server = request.getfixturevalue(name)
    return World(server, can, server.advance, lambda: server.advance(timedelta(0)))


WORLDS: dict[str, Callable[[ExitStack, pytest.FixtureRequest], World]] = {
    "local": lambda stack, _: local(stack, ends_late=False),
    "local-ends-late": lambda stack, _: local(stack, ends_late=True),
    "kinesis-local": lambda _, request: node(request, "kinesis_local", Abilities(trims=False)),
    "kinesalite": lambda _, request: node(
        request,
        "kinesalite",
        Abilities(names_children=False, pages_listings=False, takes_arns=False, looks_ahead=False, recounts=False),
    ),
}
