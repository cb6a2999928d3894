# SPDX-License-Identifier: Apache-2.0
"""The embedded server with one table under a clock that only sleeping moves, and sources on its stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq

from shardbatch.core.ports import Page
from shardbatch.local import StreamServer
from shardbatch.sources.dynamodb.options import DynamoDBOptions
from shardbatch.sources.dynamodb.source import DynamoDBSource
from tests.integration.sources.kinesis_world import SharedTime
from tests.support.aws import REGION, AwsServer
from tests.support.rig import Rig

TABLE = "orders"


class World:
    """A server with one table, whose items are named by the text of their key."""

    def __init__(self, server: StreamServer, shards: int = 1, view: str = "NEW_AND_OLD_IMAGES") -> None:
        self.server = server
        self.time = SharedTime(server)
        self.aws = AwsServer("local", server.endpoint_url)
        self.streams = self.aws.client("dynamodbstreams", attempts=1)
        self.tables = self.aws.client("dynamodb", attempts=1)
        self.arn = server.tables.create(TABLE, {"id": "S"}, view=view, shards=shards, region=REGION)
        self._changes = count(1)

    def source(self, table: str = TABLE, *, scans: bool = False, **options: Any) -> DynamoDBSource:
        """:param scans: as with a version of boto3 that does not know iterators of an instant."""
        made = DynamoDBSource(
            self.tables, self.streams, table, clock=self.time.clock, options=DynamoDBOptions(**options)
        )
        if scans:
            takes: Callable[[str, str], bool] = made._caller.takes
            made._caller.takes = lambda operation, name: name != "Timestamp" and takes(operation, name)  # type: ignore[method-assign]
        return made

    def put(self, *keys: str) -> list[str]:
        """Change these items; what the changes are called."""
        made = [(key, f"{key}:{next(self._changes)}") for key in keys]
        self.server.tables.fill(TABLE, ({"id": {"S": key}, "v": {"S": name}} for key, name in made), region=REGION)
        return [name for _, name in made]

    def roll(self, shard: str | None = None) -> list[str]:
        return self.server.tables.roll(TABLE, shard, region=REGION)

    def split(self, shard: str | None = None) -> list[str]:
        return self.server.tables.split(TABLE, shard, region=REGION)

    def trim(self, shard: str | None = None, **how: Any) -> int:
        return self.server.tables.trim(TABLE, shard, region=REGION, **how)

    def shards(self) -> list[str]:
        """Ids of all listed shards, the oldest first."""
        return [shard.shard_id for shard in self.source().list_shards()]

    def calls(self, operation: str) -> int:
        """How often the service was called so."""
        return len(self.server.calls.list(operation))


def changes(*pages: Page) -> list[str]:
    """What the changes of some pages are called."""
    return [name_of(data) for page in pages for data in page.records.column("data").to_pylist()]


def name_of(data: bytes) -> str:
    """What a change is called."""
    value = json.loads(data)
    return str((value.get("NewImage") or value.get("OldImage"))["v"]["S"])


def to_tip(pages: Iterator[Page], most: int = 100) -> list[Page]:
    """Pages up to the tip or the end."""
    found = []
    for page in pages:
        found.append(page)
        if page.at_tip or page.ended:
            return found
        assert len(found) < most, "neither the tip nor the end is reached"
    return found


def rig_of(folder: Path, world: World, **options: Any) -> Rig:
    """Runs of an application on the table's stream."""
    stream: Any = SimpleNamespace(name=TABLE, now_ms=1 << 50)
    rig = Rig(folder / "staging", stream)
    rig.options.update(source=world.source(**options), clock=world.time.clock)
    return rig


def committed(rig: Rig) -> list[str]:
    """What the changes in all committed batches are called, in the order of batches, slices and files."""
    found: list[str] = []
    for batch in sorted(rig.batches(), key=lambda row: row.batch_id):
        for entry in rig.manifest(batch.batch_id)["slices"]:
            for file in entry["files"]:
                found += map(name_of, pq.read_table(rig.folder / file["path"]).column("data").to_pylist())
    return found
