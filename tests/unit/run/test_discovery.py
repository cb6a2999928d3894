# SPDX-License-Identifier: Apache-2.0
"""What a run asks of the store and of the stream, however many shards and read tasks there are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from shardbatch.core.limits import ReadLimits
from shardbatch.core.policies import ClaimOptions
from shardbatch.core.rows import BATCH, SHARD_LEASE
from shardbatch.core.shard import Shard
from shardbatch.errors import SourceError
from shardbatch.run import land
from shardbatch.stores.memory import MemoryStore
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream


class Listed(ScriptedStream):
    """Counts its listings."""

    listings = 0

    def list_shards(self) -> list[Shard]:
        self.listings += 1
        return super().list_shards()


class Counted(MemoryStore):
    """Counts reads: single rows by table, and lists by their conditions."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()

    def get(self, key: Any) -> Any:
        self.reads[f"get {key.table.name}"] += 1
        return super().get(key)

    def list(self, table: Any, namespace: Any, scope: str | None = "", **equal: str) -> Any:
        self.reads[" ".join(["list", table.name, *sorted(equal)])] += 1
        return super().list(table, namespace, scope, **equal)

    def taken(self) -> dict[str, int]:
        """What was read since the last look."""
        found, self.reads = dict(self.reads), Counter()
        return found


def test_the_reads_of_a_run_do_not_grow_with_shards_times_tasks(tmp_path: Path) -> None:
    stream, store = Listed(shards=200), Counted()  # R65: 200 shards, 20 tasks; R63: one listing
    rig = Rig(tmp_path / "staging", stream, store)
    options, limits = ClaimOptions(read_tasks=20), ReadLimits(concurrency=1)
    rig.run("r0", options=options, limits=limits)
    for shard_id in stream.shards:
        stream.put("a", shard_id=shard_id)
    stream.listings = 0
    store.taken()
    found = rig.claim("r1", options=options, limits=limits)
    assert len(found.groups) == 20
    claiming = store.taken()
    assert claiming.pop("get application") <= 3  # once more behind the list of leases: it may have been removed (X3)
    assert claiming == {"list shard_lease": 1, "list batch owner": 1}
    for group in found.groups:
        land(rig.consumer(options=options, limits=limits), rig.owner("r1"), group.group, stream.now_ms + 1)
        assert store.taken() == {"list shard_lease lease_owner read_group": 1}
    frozen = rig.freeze("r1")
    freezing = store.taken()
    assert freezing.pop("get application") <= 2
    assert freezing == {"list shard_lease lease_owner": 1, "list batch owner": 1}
    rig.work(frozen)
    rig.commit("r1", frozen)
    committing = store.taken()
    assert committing.pop("get batch") <= 2
    assert committing == {"get application": 1, "list shard_lease batch_id": 1, "list shard_lease": 1}
    assert stream.listings == 1
    assert len(rig.committed()) == 200


def test_a_freeze_reads_parents_one_by_one_only_while_they_are_few(tmp_path: Path) -> None:
    stream, store = Listed(shards=100), Counted()
    rig = Rig(tmp_path / "staging", stream, store)
    for shard_id in list(stream.shards):
        stream.split(shard_id)
    rig.run("r0")  # R65
    for shard_id, shard in stream.shards.items():
        if not shard.closed:
            stream.put("a", shard_id=shard_id)
    rig.land("r1", rig.claim("r1"))
    store.taken()
    assert rig.freeze("r1").shards == 200
    freezing = store.taken()
    assert freezing.get(f"get {SHARD_LEASE.name}", 0) <= 25
    assert freezing.get(f"list {SHARD_LEASE.name}", 0) <= 1
    assert f"list {BATCH.name}" not in freezing


def test_fifty_shards_that_end_together_are_listed_once(tmp_path: Path) -> None:
    stream = Listed(shards=50)  # R23: 10 tasks
    rig = Rig(tmp_path / "staging", stream)
    options, limits = ClaimOptions(read_tasks=10), ReadLimits(concurrency=1)
    sent = [number for shard_id in stream.shards for number in stream.put("a", shard_id=shard_id)]
    found = rig.claim("r1", options=options, limits=limits)
    for shard_id in list(stream.shards):
        for child in stream.split(shard_id):
            sent += stream.put("b", shard_id=child)
    rig.land("r1", found, options=options, limits=limits)
    assert stream.listings == 1
    frozen = rig.freeze("r1")
    rig.work(frozen)
    rig.commit("r1", frozen)
    assert sorted(rig.committed(), key=int) == sorted(sent, key=int)


def test_a_child_waits_for_a_parent_that_is_younger_than_the_claim(tmp_path: Path) -> None:
    stream = Listed(shards=2)  # K-37: one of two parents has no row yet
    rig = Rig(tmp_path / "staging", stream)
    first, second = stream.shards
    limits = ReadLimits(concurrency=1)
    found = rig.claim("r1", limits=limits)
    middle, _ = stream.split(second)
    merged = stream.merge(first, middle)
    sent = [stream.put("a", shard_id=shard_id)[0] for shard_id in (middle, merged)]
    rig.land("r1", found, limits=limits)
    read = [shard_id for shard_id, _ in stream.reads]
    assert read.index(first) < read.index(middle) < read.index(merged)
    frozen = rig.freeze("r1")
    assert frozen.batch_id is not None
    assert rig.records(frozen.batch_id) == sent


def test_a_stream_that_names_no_children_is_listed_once_by_each_task(tmp_path: Path) -> None:
    stream = Listed(shards=50)
    stream.names_children = False
    rig = Rig(tmp_path / "staging", stream)
    options, limits = ClaimOptions(read_tasks=10), ReadLimits(concurrency=1)
    found = rig.claim("r1", options=options, limits=limits)
    for shard_id in list(stream.shards):
        stream.split(shard_id)
    rig.land("r1", found, options=options, limits=limits)
    assert stream.listings == 11
    assert rig.freeze("r1").shards == 50


def test_one_shard_that_always_fails_keeps_no_other_from_being_found(tmp_path: Path) -> None:
    stream = ScriptedStream(shards=700)  # R21: a run has time for 200
    rig = Rig(tmp_path / "staging", stream)
    sent = [number for shard_id in stream.shards for number in stream.put("a", shard_id=shard_id)]
    broken = "shardId-000000000100"
    stream.failing[broken] = SourceError("refused")
    options = ClaimOptions(max_shards=200)
    usable, reported = [], []
    for cycle in range(4):
        found = rig.claim(f"r{cycle}", options=options)
        reported += [error for landed in rig.land(f"r{cycle}", found, options=options) for error in landed.errors]
        frozen = rig.freeze(f"r{cycle}")
        rig.work(frozen)
        rig.commit(f"r{cycle}", frozen)
        rig.over(f"r{cycle}")
        usable.append(frozen.shards)
    assert usable == [199, 200, 200, 100]
    assert set(reported) == {broken}
    assert sorted(rig.committed(), key=int) == [number for number in sent if number != sent[100]]
