# SPDX-License-Identifier: Apache-2.0
"""Aggregates through whole runs on the embedded stream server: what limits cut is resumed, what is odd is counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from shardbatch.control.status import batches
from shardbatch.core.limits import ReadLimits
from shardbatch.core.position import Position, after
from shardbatch.core.rows import Namespace
from shardbatch.sources.kinesis.options import Deaggregate
from tests.integration.sources.kinesis_world import FIRST, World, stopped_server
from tests.support.aggregates import FIXTURE, Packed, pack
from tests.support.rig import Rig

BROKEN = FIXTURE[:-1] + b"\0"


@pytest.fixture
def world() -> Iterator[World]:
    with stopped_server() as server:
        yield World(server)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def checkpoint(rig: Rig, shard_id: str = FIRST) -> Position:
    row = rig.consumer().lease(shard_id)
    assert row is not None
    return row.checkpoint


def landed(rig: Rig) -> list[bytes]:
    """The data of all committed batches, batch after batch."""
    found: list[bytes] = []
    for batch in sorted(rig.batches(), key=lambda batch: batch.batch_id):
        for entry in rig.manifest(batch.batch_id)["slices"]:
            for file in entry["files"]:
                found += pq.read_table(rig.folder / file["path"]).column("data").to_pylist()
    return found


def test_the_last_record_of_an_aggregate_is_the_checkpoint(world: World, rig: Rig) -> None:  # R39
    (sent,) = world.put(pack(*(Packed("k", b"%d" % n) for n in range(4))))
    assert rig.run("r1", source=world.source()).records == 4
    assert checkpoint(rig) == after(sent, 3)
    assert rig.run("r2", source=world.source()).records == 0


def test_one_whole_and_one_damaged_aggregate_are_four_records_and_a_warning(world: World, rig: Rig) -> None:  # R42
    world.put(FIXTURE, BROKEN)
    committed = rig.run("r1", source=world.source())
    assert (committed.records, landed(rig)) == (4, [b"one", b"two", b"three", BROKEN])
    assert rig.manifest(committed.batch_id or "")["totals"]["broken"] == 1
    assert [text for text in rig.said if "1 records look like aggregates" in text]


@pytest.mark.parametrize("limits", [{"records": 5}, {"records": 1}, {"bytes": 3}])
@pytest.mark.parametrize("page_records", [1, 2, 3, 7])
def test_limits_cut_aggregates_and_every_record_comes_once(
    world: World, rig: Rig, limits: dict[str, int], page_records: int
) -> None:  # K-42, KV-2, R39
    wanted = [b"%d" % n for n in range(30)]
    for first in range(0, 30, 10):
        world.put(pack(*(Packed(f"k{n % 3}", b"%d" % n) for n in range(first, first + 8))))
        world.put(b"%d" % (first + 8), pack(Packed("alone", b"%d" % (first + 9))))
    cut = False
    for run in range(60):
        done = rig.run(f"r{run}", source=world.source(page_records=page_records), limits=ReadLimits(**limits))
        place = checkpoint(rig)
        cut = cut or 0 < place.sub_sequence_number < 7
        if not done.records:
            break
    assert landed(rig) == wanted
    assert len(set(rig.committed())) == 30
    assert rig.sink() == sorted(rig.committed(), key=Position.parse)
    assert cut


def test_a_slice_that_ends_inside_an_aggregate_is_resumed_at_the_end_of_its_shard(world: World, rig: Rig) -> None:
    (sent,) = world.put(pack(*(Packed("k", b"%d" % n) for n in range(5))))
    world.split()
    first = rig.run("r1", source=world.source(page_records=2), limits=ReadLimits(records=2))
    assert (first.records, first.completed, checkpoint(rig)) == (2, 0, after(sent, 1))
    second = rig.run("r2", source=world.source(page_records=2))
    assert (second.records, landed(rig)) == (3, [b"0", b"1", b"2", b"3", b"4"])
    lease = rig.consumer().lease(FIRST)
    assert lease is not None
    assert lease.completed


def test_foreign_records_are_delivered_and_counted_up_to_the_manifest(world: World, rig: Rig) -> None:  # R41
    world.split()
    world.put(FIXTURE)
    found = rig.claim("r1", source=world.source())
    answers = rig.land("r1", found, source=world.source())
    assert sum(answer.oddities.foreign for answer in answers) == 1
    frozen = rig.freeze("r1", source=world.source())
    manifest = rig.manifest(frozen.batch_id or "")
    assert (manifest["totals"]["foreign"], manifest["totals"]["dropped"]) == (1, 0)
    assert [entry["oddities"]["foreign"] for entry in manifest["slices"] if entry["records"]] == [1]
    assert (frozen.record_count, landed(rig)) == (3, [b"one", b"two", b"three"])
    assert [text for text in rig.said if "1 records belong to another shard" in text]


def test_what_strict_drops_is_on_the_batch_and_in_its_event(world: World, rig: Rig) -> None:  # K-43
    world.split()
    sent = world.put(FIXTURE, b"plain", FIXTURE)
    source: Any = world.source(deaggregate=Deaggregate.STRICT)
    done = rig.run("r1", source=source)
    assert (done.records, done.dropped, landed(rig)) == (1, 6, [b"plain"])
    assert checkpoint(rig, "shardId-000000000001") == after(sent[-1], 2)
    (row,) = batches(rig.store, Namespace("etl", "orders"), 5)
    assert row.dropped == 6
    again = rig.run("r2", source=source)
    assert (again.records, again.dropped) == (0, 0)  # a checkpoint lies behind what was dropped


def test_a_batch_of_dropped_records_alone_moves_the_checkpoint(world: World, rig: Rig) -> None:  # K-43
    world.split()
    (sent,) = world.put(FIXTURE)
    done = rig.run("r1", source=world.source(deaggregate=Deaggregate.STRICT))
    assert (done.records, done.dropped, done.gaps) == (0, 3, 0)
    assert checkpoint(rig, "shardId-000000000001") == after(sent, 2)
