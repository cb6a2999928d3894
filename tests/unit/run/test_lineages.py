# SPDX-License-Identifier: Apache-2.0
"""Whole lineages, drained by runs with and without limits: which shards share a batch, and in which order."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbatch.core.limits import ReadLimits
from shardbatch.core.manifest import Manifest
from shardbatch.core.policies import ClaimOptions, Policies
from shardbatch.core.position import SHARD_END
from tests.breaker.memory_landing import MemoryLanding
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream

KEYS = "abcdefgh"
#: What happens to a stream: records of some keys, a split, or a merge of an open shard and its neighbour.
EVENTS = st.one_of(
    st.tuples(st.just("put"), st.text(KEYS, min_size=1, max_size=5)),
    st.tuples(st.sampled_from(["split", "merge"]), st.integers(0, 7)),
)
Event = tuple[str, Any]

SHAPES: dict[str, tuple[int, Sequence[Event]]] = {
    "split": (1, [("put", KEYS), ("split", 0), ("put", KEYS)]),
    "merge": (2, [("put", KEYS), ("merge", 0), ("put", KEYS)]),
    "a parent of a merge is empty": (2, [("put", "a"), ("merge", 0), ("put", KEYS)]),
    "merge, then split": (2, [("put", KEYS), ("merge", 0), ("put", KEYS), ("split", 0), ("put", KEYS)]),
    "a chain of empty closed shards": (1, [("put", KEYS), *[("split", 0), ("merge", 0)] * 6, ("put", KEYS)]),
    "only empty closed shards": (2, [("merge", 0), ("split", 0), ("merge", 0)]),
    "many generations after an outage": (3, [("put", KEYS), ("split", 1), ("put", KEYS), ("merge", 0)] * 5),
    "a merge with a shard of another generation": (2, [("split", 0), ("put", KEYS), ("merge", 1), ("put", KEYS)]),
}


@dataclass
class Batch:
    """A committed batch: its manifest, and its records in the order of generation and place."""

    manifest: Manifest
    records: list[str]


class Application:
    """Runs over a stream that happens as it is told; what every batch must be is looked at in each."""

    def __init__(self, shards: int, **options: Any) -> None:
        self.landing = MemoryLanding()
        self.rig = Rig(Path(tempfile.gettempdir()), ScriptedStream(shards=shards, page_size=2))
        self.rig.options = {"landing": self.landing, "policies": Policies(sink="own"), **options}  # type: ignore[arg-type]
        self.stream = self.rig.stream
        self.sent: dict[str, list[str]] = {}
        self.batches: list[Batch] = []
        self._runs = 0

    def happen(self, events: Sequence[Event]) -> None:
        for what, value in events:
            still = sorted((s for s in self.stream.shards.values() if not s.closed), key=lambda s: s.hash_range.start)
            if what == "put":
                for key in value:
                    self.sent.setdefault(key, []).extend(self.stream.put(key))
            elif what == "merge" and len(still) > 1:
                at = value % (len(still) - 1)
                self.stream.merge(still[at].shard_id, still[at + 1].shard_id)
            elif what == "split":
                self.stream.split(still[value % len(still)].shard_id)

    def run(self) -> Batch | None:
        self._runs += 1
        run = f"r{self._runs}"
        found = self.rig.claim(run)
        self.rig.land(run, found)
        frozen = self.rig.freeze(run)
        self.rig.commit(run, frozen)
        self.rig.over(run)
        if frozen.batch_id is None:
            return None
        manifest = Manifest.loads(self.landing.manifests[frozen.batch_id])
        entries = sorted(manifest.slices, key=lambda entry: (entry.shard_generation, entry.slice.shard_id))
        rows = [row for entry in entries for file in entry.slice.files for row in self.landing.files[file.path]]
        batch = Batch(manifest, rows)
        self._generations_rise(manifest)
        self.batches.append(batch)
        return batch

    def _generations_rise(self, manifest: Manifest) -> None:
        """A key lives in one line of shards, parent to child: its records' generations must tell their order."""
        depth = {entry.slice.shard_id: entry.shard_generation for entry in manifest.slices}
        for shard_id, generation in depth.items():
            above = [depth[parent] for parent in self.stream.shards[shard_id].parents if parent in depth]
            assert generation == max(above, default=-1) + 1

    def drain(self) -> None:
        idle = 0
        while idle <= len(self.stream.shards):  # with max_shards a run may find one that has nothing
            idle = idle + 1 if self.run() is None else 0
            assert self._runs < 300, "the stream is not drained"
        self.complete()

    def complete(self) -> None:
        """All records are committed, once, those of each key in the order in which they were sent."""
        done = [row for batch in self.batches for row in batch.records]
        assert sorted(done, key=int) == sorted((row for rows in self.sent.values() for row in rows), key=int)
        for key, rows in self.sent.items():
            assert [row for row in done if row in set(rows)] == rows, f"the records of {key} are out of order"
        closed = {shard.shard_id for shard in self.stream.shards.values() if shard.closed}
        assert {row.shard_id for row in self.rig.consumer().leases() if row.checkpoint == SHARD_END} == closed

    @property
    def depth(self) -> int:
        """How many generations the stream has."""
        depths: dict[str, int] = {}
        for shard in self.stream.shards.values():  # parents first
            depths[shard.shard_id] = max((depths[parent] for parent in shard.parents), default=-1) + 1
        return max(depths.values()) + 1


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tasks", [1, 4])
@pytest.mark.parametrize("concurrency", [1, 3])
def test_one_run_drains_a_lineage_into_one_batch(shape: str, tasks: int, concurrency: int) -> None:  # R02, K-14, K-37
    shards, events = SHAPES[shape]
    limits = ReadLimits(concurrency=concurrency)
    application = Application(shards, limits=limits, options=ClaimOptions(read_tasks=tasks))
    application.happen(events)
    assert application.run() is not None
    application.complete()
    assert application.run() is None


@pytest.mark.parametrize("shape", SHAPES)
def test_without_drain_lineage_every_batch_holds_one_generation(shape: str) -> None:
    shards, events = SHAPES[shape]
    application = Application(shards, options=ClaimOptions(drain_lineage=False))
    application.happen(events)
    application.drain()
    assert {entry.shard_generation for batch in application.batches for entry in batch.manifest.slices} == {0}
    with_records = sum(1 for batch in application.batches if batch.records)
    assert application.depth - 1 <= len(application.batches) <= application.depth
    assert with_records <= application.depth


@settings(max_examples=20, deadline=None)
@given(
    shards=st.integers(1, 3),
    before=st.lists(EVENTS, max_size=14),
    between=st.lists(st.lists(EVENTS, max_size=5), max_size=4),
    drain=st.booleans(),
    most=st.none() | st.integers(1, 2),
    tasks=st.integers(1, 3),
    concurrency=st.sampled_from([1, 1, 2]),
    records=st.none() | st.integers(1, 3),
    named=st.booleans(),
)
def test_whatever_becomes_of_the_shards_each_keys_records_are_committed_once_and_in_order(
    shards: int,
    before: list[Event],
    between: list[list[Event]],
    drain: bool,
    most: int | None,
    tasks: int,
    concurrency: int,
    records: int | None,
    named: bool,
) -> None:
    application = Application(
        shards,
        options=ClaimOptions(drain_lineage=drain, max_shards=most, read_tasks=tasks),
        limits=ReadLimits(concurrency=concurrency, records=records),
    )
    application.stream.names_children = named
    application.happen(before)
    for events in between:
        application.run()
        application.happen(events)
    application.drain()
    if drain and most is None and records is None and not between:
        assert len(application.batches) <= 1


def test_a_run_without_time_leaves_the_children_to_the_next() -> None:
    application = Application(1, limits=ReadLimits(duration=timedelta(microseconds=1)))
    application.happen(SHAPES["merge, then split"][1])
    batch = application.run()
    assert batch is not None
    assert {entry.shard_generation for entry in batch.manifest.slices} == {0}
    application.drain()
    assert len(application.batches) > 1
    starts = [batch.manifest.created_at_ms for batch in application.batches]
    assert all(earlier < later for earlier, later in pairwise(starts))
