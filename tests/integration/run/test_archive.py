# SPDX-License-Identifier: Apache-2.0
"""Intervals older than the retention of real sources: copied from committed batches, with real landing and clean-up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from shardbatch.core.interval import Interval
from shardbatch.errors import GapFound
from shardbatch.local import StreamServer
from tests.integration.sources import dynamodb_world, kinesis_world
from tests.integration.sources.kinesis_world import STREAM, stopped_server
from tests.support.aged import HOUR, backfilled
from tests.support.aws import REGION
from tests.support.clean_rig import clean
from tests.support.rig import Rig


@dataclass
class Scene:
    """An application that reads twice a day, and what it was sent: when, and which records."""

    rig: Rig
    sleep: Callable[[float], None]
    now_ms: Callable[[], int]
    put: Callable[[str], list[str]]
    reshard: Callable[[], Any]
    name_of: Callable[[bytes], str]

    def live(self, rounds: int, reshard_at: tuple[int, ...] = ()) -> list[tuple[int, list[str]]]:
        told = []
        for number in range(rounds):
            self.sleep(12 * 3600)
            if number in reshard_at:
                self.reshard()
            told.append((self.now_ms(), self.put(f"{number}")))
            self.sleep(1)
            self.rig.run(f"live-{self.now_ms()}")
        return told

    def interval(self, span: Interval, run: str = "backfill") -> list[str]:
        done = backfilled(self.rig, span, run)
        files = [file for entry in self.rig.manifest(done.batch_id or "")["slices"] for file in entry["files"]]
        tables = [pq.read_table(self.rig.folder / file["path"]) for file in files]
        return [self.name_of(data) for table in tables for data in table.column("data").to_pylist()]


def kinesis(server: StreamServer, folder: Path) -> Scene:
    world = kinesis_world.World(server, shards=2)
    rig = Rig(folder / "staging", SimpleNamespace(name=STREAM, now_ms=1 << 50))  # type: ignore[arg-type]
    rig.options.update(source=world.source(), clock=world.time.clock)

    def put(name: str) -> list[str]:
        names = [f"{name}-{half}" for half in range(2)]
        for half, each in enumerate(names):
            world.put(each.encode(), hash_key=half * (1 << 127))
        return names

    def reshard() -> None:
        opened = [shard for shard in world.source().list_shards() if not shard.closed]
        wide = max(opened, key=lambda shard: shard.hash_range.size if shard.hash_range else 0)
        assert wide.hash_range is not None
        middle = str(wide.hash_range.start + wide.hash_range.size // 2)
        world.client.split_shard(StreamName=STREAM, ShardToSplit=wide.shard_id, NewStartingHashKey=middle)

    return Scene(rig, world.time.sleep, world.time.clock.now_ms, put, reshard, bytes.decode)


def dynamodb(server: StreamServer, folder: Path) -> Scene:
    world = dynamodb_world.World(server, shards=2)
    rig = dynamodb_world.rig_of(folder, world)
    keys = "abcdef"
    return Scene(
        rig,
        world.time.sleep,
        world.time.clock.now_ms,
        lambda name: world.put(*keys),
        lambda: world.roll(world.shards()[-1]),
        dynamodb_world.name_of,
    )


@pytest.fixture(params=[kinesis, dynamodb], ids=lambda make: make.__name__)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    stopped = stopped_server() if request.param is kinesis else StreamServer(region=REGION)
    with stopped as server:
        made = request.param(server, tmp_path)
        made.rig.run("first")
        yield made


def test_a_day_that_the_stream_has_dropped_is_copied_across_a_reshard(scene: Scene) -> None:
    told = scene.live(9, reshard_at=(2, 4))
    found = scene.interval(Interval(told[1][0] - HOUR, told[4][0] + HOUR))
    assert sorted(found) == sorted(name for _, names in told[1:5] for name in names)


def test_from_the_archive_the_read_goes_on_in_the_stream(scene: Scene) -> None:
    told = scene.live(7, reshard_at=(1,))
    scene.sleep(3600)
    late = scene.put("late")  # no live run has read it
    to_ms = scene.now_ms() + HOUR
    scene.sleep(2 * 3600)
    found = scene.interval(Interval(told[1][0] - HOUR, to_ms))
    assert sorted(found) == sorted([name for _, names in told[1:] for name in names] + late)


def test_what_clean_up_has_retired_is_named_and_what_it_kept_can_be_had(scene: Scene) -> None:
    told = scene.live(9)
    clean(scene.rig, archive_for=timedelta(hours=60), clock=scene.rig.options["clock"])
    retired = [batch for batch in scene.rig.batches() if batch.retired_ms is not None and batch.records]
    assert retired
    with pytest.raises(GapFound, match=f"{retired[0].batch_id} was retired on .*archive_for"):
        scene.interval(Interval(told[0][0] - HOUR, told[2][0] + HOUR), "too-old")
    kept = [entry for entry in told if entry[0] > 1000 + max(batch.max_arrival_ms or 0 for batch in retired)]
    found = scene.interval(Interval(kept[1][0] - HOUR, kept[2][0] + HOUR), "young-enough")
    assert sorted(found) == sorted(name for _, names in kept[1:3] for name in names)
