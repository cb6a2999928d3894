# SPDX-License-Identifier: Apache-2.0
"""A table that Bloop and we read: changes by ordinary calls of boto3, in the shard and second that a test says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from shardbatch.landing.batch import open_batch
from shardbatch.local import StreamServer
from shardbatch.local.stream import hash_of
from tests.integration.sources.dynamodb_world import TABLE, World, rig_of
from tests.support.aws import REGION
from tests.support.bloop_process import Record
from tests.support.rig import Rig

#: When the scene begins. It is past for Bloop, which takes a time to come for "latest".
BEGIN = 1_700_000_000


@dataclass(frozen=True)
class Seen:
    """A change as a reader sees it: what it is called, its place, and what the item's name was before and after it."""

    name: str
    event: str
    seconds: int
    number: str
    key: str | None
    new: str | None
    old: str | None


class Scene:
    """The world of one table, whose clock the scene sets."""

    def __init__(self, server: StreamServer, shards: int = 1, view: str = "NEW_AND_OLD_IMAGES") -> None:
        self.world = World(server, shards=shards, view=view)
        self.server = server
        self.sent: list[str] = []
        self._pad: dict[str, Any] = {}

    def at(self, second: float) -> None:
        """Go to a second of the scene."""
        ms = round((BEGIN + second) * 1000) - self.server.clock.now_ms()
        self.server.clock.advance(ms / 1000)

    def pad(self, size: int) -> None:
        """From now on items have so many bytes more."""
        self._pad = {"pad": {"S": "x" * size}} if size else {}

    def put(self, shard: str, *changes: tuple[str, float]) -> None:
        """Put items of these names at these seconds, into one shard."""
        for name, second in changes:
            self.change(self.key_in(shard, name), name, second)

    def change(self, key: str, name: str, second: float) -> None:
        """Put an item again, or for the first time, at a second; the change is called so."""
        self.at(second)
        self.world.tables.put_item(TableName=TABLE, Item={"id": {"S": key}, "v": {"S": name}, **self._pad})
        self.sent.append(name)

    def key_in(self, shard: str, name: str) -> str:
        """A key whose changes go into a shard."""
        held = self.server.tables._stream(TABLE, REGION).shards[shard]
        for salt in count():
            key = f"{name}-{salt}"
            if held.hash_start <= hash_of(json.dumps(["id", {"S": key}], separators=(",", ":"))) <= held.hash_end:
                return key
        raise AssertionError

    def shards(self) -> list[str]:
        return list(self.server.tables._stream(TABLE, REGION).shards)

    def open_shards(self) -> list[str]:
        return [shard.shard_id for shard in self.server.tables._stream(TABLE, REGION).open_shards()]

    def calls(self, operation: str = "GetRecords") -> int:
        """How many calls there were since this was asked last; refused ones count."""
        found = self.world.calls(operation)
        self.server.calls.clear()
        return found


def by_bloop(records: Sequence[Record]) -> list[Seen]:
    """What Bloop has handed out."""
    found = []
    for record in records:
        item = record["new"] or record["old"] or record["key"] or {"id": None}
        new, old = (record[name] and record[name]["v"] for name in ("new", "old"))
        place = int(record["seconds"]), record["number"]
        found.append(Seen(new or old or "", record["event"], *place, item["id"], new, old))
    return found


def by_us(uri: str) -> list[Seen]:
    """What a batch holds, in one order."""
    found = []
    for row in (row for piece in open_batch(uri).merged() for row in piece.to_pylist()):
        data, event = json.loads(row["data"]), dict(row["attributes"])["event_name"].lower()
        new, old = (data.get(name, {}).get("v", {}).get("S") for name in ("NewImage", "OldImage"))
        place = int(row["arrival_time"].timestamp()), row["sequence_number"]
        found.append(Seen(new or old or "", event, *place, data["Keys"]["id"]["S"], new, old))
    return found


def names(seen: Sequence[Seen]) -> list[str]:
    return [change.name for change in seen]


class Runs:
    """Our runs over the scene's table, each of which commits a batch."""

    def __init__(self, folder: Path, scene: Scene, **options: Any) -> None:
        self.rig: Rig = rig_of(folder, scene.world, **options)
        self._count = count(1)

    def one(self, **changes: Any) -> list[Seen]:
        """The changes of one more run; none if it finds none."""
        committed = self.rig.run(f"r{next(self._count)}", **changes)
        return by_us(committed.manifest_uri) if committed.manifest_uri else []

    def gaps(self) -> list[str]:
        """The reasons of the gaps of all batches."""
        manifests = (self.rig.manifest(batch.batch_id) for batch in self.rig.batches())
        return [gap["reason"] for held in manifests for entry in held["slices"] for gap in entry.get("gaps", ())]
