# SPDX-License-Identifier: Apache-2.0
"""From KCL's table in DynamoDB to committed batches of what it had left unread, over the real source and stores."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from shardbatch.core.batch import BatchState
from shardbatch.core.ports import SYSTEM_CLOCK
from shardbatch.errors import WorkersAlive
from shardbatch.kcl.lease import of_stream
from shardbatch.kcl.table import KclTable
from shardbatch.kcl.take_over import import_kcl
from shardbatch.local import Options, StreamServer
from shardbatch.run import land
from shardbatch.sources.kinesis.source import KinesisSource
from shardbatch.stores.dynamodb import DynamoDBStore
from tests.support.aws import AwsServer
from tests.support.kcl import Item, Worker, item_1, item_2, item_3, item_of_many, make_table
from tests.support.rig import Rig
from tests.support.verbs import application, told

SHARDS = [f"shardId-{number:012d}" for number in range(5)]
MIDDLE = 2**127
#: Three records that a producer packed into one: "one", "two", "three".
AGGREGATE = base64.b64decode("84mawgoBYQoBYhoHCAAaA29uZRoHCAEaA3R3bxoJCAAaBXRocmVl7LQL+ttKeb2aTeDcIlFt/Q==")


@pytest.fixture(scope="module")
def streams() -> Iterator[StreamServer]:
    with StreamServer(options=Options()) as started:
        yield started


@pytest.fixture(params=["dynalite", "ministack"])
def tables(request: pytest.FixtureRequest) -> AwsServer:
    found: AwsServer = request.getfixturevalue(request.param)
    return found


class Scene:
    """A stream of two shards, of which the first was split and one child merged with the second; and a KCL table."""

    def __init__(self, folder: Path, streams: StreamServer, tables: AwsServer, name: str) -> None:
        self.client = AwsServer("local", streams.endpoint_url).client("kinesis")
        self.dynamodb = tables.client("dynamodb")
        self.name = name
        self.client.create_stream(StreamName=name, ShardCount=2)
        self.source = KinesisSource(self.client, name)
        store = DynamoDBStore(self.dynamodb, f"{name}-leases")
        self.rig = Rig(folder / "staging", stream=self.source, store=store, options={"clock": SYSTEM_CLOCK})  # type: ignore[arg-type]
        self.first = self.put(0, 4)
        self.second = self.put(MIDDLE, 3)
        self.client.split_shard(StreamName=name, ShardToSplit=SHARDS[0], NewStartingHashKey=str(MIDDLE // 2))
        self.settle()
        self.low = self.put(0, 2)
        self.high = self.put(MIDDLE - 1, 2)
        self.client.merge_shards(StreamName=name, ShardToMerge=SHARDS[3], AdjacentShardToMerge=SHARDS[1])
        self.settle()
        self.merged = self.put(MIDDLE, 3)

    def put(self, hash_key: int, count: int) -> list[str]:
        records = [{"Data": b"x", "PartitionKey": "k", "ExplicitHashKey": str(hash_key)} for _ in range(count)]
        answer = self.client.put_records(StreamName=self.name, Records=records)
        return [record["SequenceNumber"] for record in answer["Records"]]

    def settle(self) -> None:
        self.client.get_waiter("stream_exists").wait(StreamName=self.name, WaiterConfig={"Delay": 1})

    def kcl(self, *items: Item) -> KclTable:
        make_table(self.dynamodb, f"{self.name}-kcl", *items)
        return KclTable(self.dynamodb, f"{self.name}-kcl")

    def bring(self, kcl: KclTable, watched: float = 0.2, **chosen: Any) -> set[str]:
        given = {"source": self.source, "kcl": kcl, "watched": timedelta(seconds=watched), **chosen}
        return {item.result for item in told(import_kcl, self.rig, **given)}

    def drain(self) -> list[str]:
        for number in range(3):
            owner = f"r{number}"
            found = self.rig.claim(owner)
            for group in found.groups:
                land(self.rig.consumer(), self.rig.owner(owner), group.group, time.time_ns() // 1_000_000)
            frozen = self.rig.freeze(owner, found.batch_id)
            if frozen.record_count:
                self.rig.work(frozen)
            self.rig.commit(owner, frozen)
            self.rig.over(owner)
        return self.rig.sink()

    def landed(self) -> list[tuple[Any, ...]]:
        """The records of all committed batches, with their place and data."""
        found: list[tuple[Any, ...]] = []
        for batch in self.rig.batches(BatchState.COMMITTED):
            for entry in self.rig.manifest(batch.batch_id)["slices"]:
                for file in entry["files"]:
                    rows = pq.read_table(self.rig.folder / file["path"]).to_pylist()
                    found += [(row["sequence_number"], row["sub_sequence_number"], row["data"]) for row in rows]
        return found

    def close(self) -> None:
        self.rig.store.close()
        self.client.close()


@pytest.fixture
def scene(tmp_path: Path, streams: StreamServer, tables: AwsServer, unique_name: str) -> Iterator[Scene]:
    made = Scene(tmp_path, streams, tables, unique_name)
    yield made
    made.close()


def numbers(*parts: list[str]) -> list[str]:
    return sorted((number for part in parts for number in part), key=int)


def test_after_kcl_1_exactly_the_unread_records_are_committed(scene: Scene) -> None:
    """Its workers were stopped in the middle of both first shards; it makes leases of children only when these end."""
    kcl = scene.kcl(item_1(SHARDS[0], scene.first[1]), item_1(SHARDS[1], scene.second[0], owner="stopped"))
    assert scene.bring(kcl, dry_run=True) == {"would import"}
    assert scene.bring(kcl) == {"imported"}
    unread = numbers(scene.first[2:], scene.second[1:], scene.low, scene.high, scene.merged)
    assert scene.drain() == unread
    assert application(scene.rig).stream_id == scene.source.identity()


def test_after_kcl_2_ended_shards_stay_ended_and_their_children_are_read(scene: Scene) -> None:
    """One parent ended, one child half, the other child and the rest as they were made."""
    kcl = scene.kcl(
        item_2(SHARDS[0], "SHARD_END", children=(SHARDS[2], SHARDS[3]), hash_range=(0, MIDDLE - 1)),
        item_2(SHARDS[1], scene.second[2], hash_range=(MIDDLE, 2**128 - 1), prepared=(scene.second[2], 0)),
        item_2(SHARDS[2], scene.low[0], parents=(SHARDS[0],)),
        item_2(SHARDS[3], "TRIM_HORIZON", parents=(SHARDS[0],)),
    )
    assert scene.bring(kcl) == {"imported"}
    assert scene.drain() == numbers(scene.low[1:], scene.high, scene.merged)


def test_after_kcl_3_what_it_has_cleaned_up_is_not_read_again(scene: Scene) -> None:
    """It deletes leases of shards whose children have begun (K-38): only the youngest have one."""
    kcl = scene.kcl(
        item_3(SHARDS[2], scene.low[1], parents=(SHARDS[0],), owner="stopped"),
        item_3(SHARDS[4], scene.merged[0], parents=(SHARDS[1], SHARDS[3]), checkpoint_owner="older"),
        {"leaseKey": {"S": "leader"}, "entityType": {"S": "LEADER"}},
    )
    assert scene.bring(kcl) == {"imported"}
    later = scene.put(0, 1)
    assert scene.drain() == numbers(scene.merged[1:], later)


def test_of_an_aggregate_that_kcl_has_read_in_part_the_rest_is_read(scene: Scene) -> None:  # K-42, KV-10
    entry = {"Data": AGGREGATE, "PartitionKey": "k", "ExplicitHashKey": "0"}
    (packed,) = scene.client.put_records(StreamName=scene.name, Records=[entry])["Records"]
    kcl = scene.kcl(
        item_2(SHARDS[2], packed["SequenceNumber"], sub=1, parents=(SHARDS[0],)),
        item_2(SHARDS[4], scene.merged[2], parents=(SHARDS[1], SHARDS[3])),
    )
    assert scene.bring(kcl) == {"imported"}
    assert scene.drain() == [f"{packed['SequenceNumber']}/2"]
    assert scene.landed() == [(packed["SequenceNumber"], 2, b"three")]


def test_of_a_table_for_several_streams_only_this_one_is_read(scene: Scene) -> None:
    arn, _, created = scene.source.identity().rpartition("@")
    place = (arn.split(":")[4], scene.name, int(created) // 1000)
    kcl = scene.kcl(
        item_of_many(*place, SHARDS[0], "SHARD_END"),
        item_of_many(*place, SHARDS[1], "TRIM_HORIZON", parents=()),
        item_of_many(place[0], "others", place[2], SHARDS[0], "TRIM_HORIZON"),
    )
    assert len(of_stream(kcl.leases(), scene.source.identity())) == 2
    assert scene.bring(kcl) == {"imported"}
    assert scene.drain() == numbers(scene.second, scene.low, scene.high, scene.merged)


def test_beside_a_live_worker_nothing_is_imported(scene: Scene) -> None:  # K-24, K-26
    kcl = scene.kcl(item_1(SHARDS[0], scene.first[1], owner="alive"), item_1(SHARDS[1], "TRIM_HORIZON"))
    with (
        Worker(scene.dynamodb, kcl.name, SHARDS[0], every=0.3),
        pytest.raises(WorkersAlive, match=f"{SHARDS[0]} was written by alive"),
    ):
        scene.bring(kcl, watched=6)
    assert scene.rig.consumer().application() is None
    assert scene.bring(kcl) == {"imported"}  # the worker is stopped
