# SPDX-License-Identifier: Apache-2.0
"""Streams of DynamoDB tables behind the face of the source suite: on the embedded server, and on a public one."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from itertools import count
from typing import Any

import pytest

from shardbatch.core.ports import Page, Source
from shardbatch.core.shard import Shard
from shardbatch.local import StreamServer
from shardbatch.local.stream import hash_of
from shardbatch.sources.dynamodb.options import DynamoDBOptions
from shardbatch.sources.dynamodb.source import DynamoDBSource
from tests.contract.sources_servers import Hurried
from tests.support.aws import REGION, AwsServer
from tests.support.waiting import wait_until


@dataclass(frozen=True)
class TableAbilities:
    """What a server can do with the stream of a table."""

    trims: bool = True
    looks_ahead: bool = True
    merges: bool = False
    deletes: bool = True
    reshards: bool = True
    tells_recreation: bool = True


@dataclass
class TableWorld:
    """One server. ``embedded`` is it where it is ours, whose clock moves and whose shards roll and split on demand."""

    server: AwsServer
    can: TableAbilities
    embedded: StreamServer | None = None
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    restore: Callable[[], None] = lambda: None

    @cached_property
    def tables(self) -> Any:
        """What the tests write with."""
        return self.server.client("dynamodb")

    @cached_property
    def readers(self) -> tuple[Any, Any]:
        """What sources read with."""
        return self.server.client("dynamodb", attempts=1), self.server.client("dynamodbstreams", attempts=1)

    def unmade(self, name: str) -> TableStream:
        return TableStream(self, name)

    def stream(self, shards: int = 1) -> TableStream:
        made = self.unmade(f"t-{uuid.uuid4().hex[:12]}")
        made.create(shards)
        return made

    def texts(self, *pages: Page) -> list[str]:
        found = [json.loads(data) for page in pages for data in page.records.column("data").to_pylist()]
        return [change["NewImage"]["v"]["S"] for change in found]

    def key(self, text: str) -> str:
        return json.dumps({"id": {"S": f"k-{text}"}}, separators=(",", ":"))


@dataclass
class TableStream:
    """The stream of one table."""

    world: TableWorld
    name: str

    def create(self, shards: int) -> None:
        if self.world.embedded is not None:
            self.world.embedded.tables.create(self.name, {"id": "S"}, shards=shards, region=REGION)
            return
        self._need_lineage(shards > 1)
        self.world.tables.create_table(
            TableName=self.name,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        )

    def delete(self) -> None:
        """The stream of a deleted table can be read for a day more."""
        self.world.tables.delete_table(TableName=self.name)
        wait_until(self._is_gone, 10, "deletion")
        if self.world.embedded is not None:
            self.world.embedded.clock.advance(timedelta(hours=25).total_seconds())

    def _is_gone(self) -> bool:
        try:
            self.world.tables.describe_table(TableName=self.name)
        except self.world.tables.exceptions.ResourceNotFoundException:
            return True
        return False

    def source(self, *, page_records: int = 1_000) -> Source:
        options = DynamoDBOptions(page_records=page_records, idle_interval=timedelta(0))
        return DynamoDBSource(*self.world.readers, self.name, clock=Hurried(self.world.now_ms).clock, options=options)

    def put(self, *texts: str, into: Shard | None = None) -> list[str]:
        ids = {text: self._id_in(text, into) for text in texts}
        for text, name in ids.items():
            self.world.tables.put_item(TableName=self.name, Item={"id": {"S": name}, "v": {"S": text}})
        numbers = self._numbers(into)
        return [numbers[name] for name in ids.values()]

    def split(self, shard: Shard) -> None:
        self._need_lineage()
        assert self.world.embedded is not None
        self.world.embedded.tables.split(self.name, shard.shard_id, region=REGION)

    def merge(self, shard: Shard, adjacent: Shard) -> None:
        raise NotImplementedError("the service makes no shard of two")

    def expire(self) -> None:
        assert self.world.embedded is not None
        self.world.embedded.clock.advance(timedelta(hours=25).total_seconds())

    def _need_lineage(self, needed: bool = True) -> None:
        if needed and not self.world.can.reshards:
            pytest.xfail("3.1: its streams have one shard, which never ends")

    def _id_in(self, text: str, into: Shard | None) -> str:
        """A key of an item whose changes go into a shard."""
        if into is None or self.world.embedded is None:
            return f"k-{text}"
        shard = self.world.embedded.tables._stream(self.name, REGION).shards[into.shard_id]
        for salt in count():
            name = f"k-{text}-{salt}"
            spot = hash_of(json.dumps(["id", {"S": name}], separators=(",", ":")))
            if shard.hash_start <= spot <= shard.hash_end:
                return name
        raise AssertionError

    def _numbers(self, into: Shard | None) -> dict[str, str]:
        """The sequence number of the last change of each item that can be read."""
        streams, found = self.world.readers[1], {}
        arn = self.world.tables.describe_table(TableName=self.name)["Table"]["LatestStreamArn"]
        for shard in _shards(streams, arn):
            place = {"StreamArn": arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
            page = streams.get_records(ShardIterator=streams.get_shard_iterator(**place)["ShardIterator"])
            found.update((r["dynamodb"]["Keys"]["id"]["S"], r["dynamodb"]["SequenceNumber"]) for r in page["Records"])
        return found


def _shards(streams: Any, arn: str, **after: str) -> Iterator[dict[str, Any]]:
    page = streams.describe_stream(StreamArn=arn, **after)["StreamDescription"]
    yield from page["Shards"]
    if page.get("LastEvaluatedShardId"):
        yield from _shards(streams, arn, ExclusiveStartShardId=page["LastEvaluatedShardId"])


def local(stack: ExitStack, *, ends_late: bool, **options: Any) -> TableWorld:
    """The embedded server in one of the two ways in which servers end a shard."""
    server = StreamServer(region=REGION, end_with_records=not ends_late, **options).start()
    stack.callback(server.stop)
    return TableWorld(AwsServer("local", server.endpoint_url), TableAbilities(), server, server.clock.now_ms)


def public(request: pytest.FixtureRequest) -> TableWorld:
    """A public server, whose clock stands and whose streams have one shard."""
    return TableWorld(request.getfixturevalue("ministack"), TableAbilities(trims=False, deletes=False, reshards=False))


WORLDS: dict[str, Callable[[ExitStack, pytest.FixtureRequest], TableWorld]] = {
    "tables": lambda stack, _: local(stack, ends_late=False),
    "tables-ends-late": lambda stack, _: local(
        stack, ends_late=True, child_filter=False, page_size=2, repeated_shards=1
    ),
    "tables-ministack": lambda _, request: public(request),
}
