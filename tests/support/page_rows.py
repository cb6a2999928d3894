# SPDX-License-Identifier: Apache-2.0
"""Rows for the Streams page to show, written by the code that writes them in a run: a history with every trouble that
rows can show (docs/operations.md), a stream of thousands of shards, and an application that no DAG names."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from shardbatch.control.park import park, unpark
from shardbatch.control.set_aside import set_aside
from shardbatch.core import lease
from shardbatch.core.lease import Lease
from shardbatch.core.owner import Owner
from shardbatch.core.ports import LeaseStore
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, after
from shardbatch.core.rows import Namespace
from shardbatch.core.shard import KeyRange, Shard
from shardbatch.core.slice import Slice
from shardbatch.run import Consumer, Frozen
from shardbatch.sources.kinesis.hash_space import HASH_KEYS
from tests.support.aged import pass_time, put
from tests.support.rig import FakeTime, Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import act

#: What the Airflow that shows the rows calls itself.
DEPLOYMENT = "page"
#: Hours before now at which the history begins, with a run in each hour but the last ones.
BEGUN_HOURS, RUNS = 32, 30
HOUR_MS = 3_600_000
#: The widest stream: its first shards, how many of them were split, pairs that were merged, and splits of these.
FIRST, SPLIT, MERGED, AGAIN = 1_600, 1_000, 700, 350
WIDE = FIRST + 2 * SPLIT + MERGED + 2 * AGAIN


@dataclass
class Told(Rig):
    """A rig whose owners are runs of a DAG of the Airflow that shows the rows."""

    deployment: str = DEPLOYMENT
    random: random.Random = field(default_factory=lambda: random.Random(7))

    def owner(self, run: str) -> Owner:
        return Owner(self.deployment, self.app, run, "batch")

    def work(self, frozen: Frozen, *words: Any, **said: Any) -> str:
        """It takes some seconds or minutes."""
        self.time.sleep(self.random.uniform(5, 200))
        return super().work(frozen, *words, **said)

    def start(self, frozen: Frozen, *words: Any, **said: Any) -> str:
        return super().start(frozen, *words, **{"roots": (f"out/{self.app}",), **said})

    def consumer(self, **changes: Any) -> Consumer:
        return super().consumer(**{"deployment": self.deployment, **changes})

    @property
    def shard_ids(self) -> list[str]:
        return list(self.stream.shards)

    def fill(self, *shards: str, most: int = 60) -> None:
        """Some records in each of these shards; default: in all that are open."""
        for shard_id in shards or [one.shard_id for one in self.stream.shards.values() if not one.closed]:
            put(self, *(f"key-{n}" for n in range(self.random.randrange(1, most))), shard_id=shard_id)

    def read(self, run: str) -> Frozen:
        """Claims, reads and freezes; the run is at work from then on."""
        found = self.claim(run)
        self.land(run, found)
        return self.freeze(run, found.batch_id)


def told(folder: Path, store: LeaseStore, name: str, now_ms: int, shards: int) -> Told:
    """A rig that begins some hours before now."""
    begun = now_ms - BEGUN_HOURS * HOUR_MS
    stream = ScriptedStream(name, shards=shards, page_size=10_000)
    stream.now_ms = begun
    for shard in stream.shards.values():
        shard.born_ms = begun
    return Told(folder / "staging", stream=stream, store=store, time=FakeTime(begun), app=name)


def troubles(folder: Path, store: LeaseStore, now_ms: int) -> dict[str, str]:
    """The application `troubles`; the batches and shards with a trouble, by what it is."""
    rig = told(folder, store, "troubles", now_ms, 8)
    gap, parked, aside, stuck, landed, held = (rig.shard_ids[at] for at in (0, 2, 3, 4, 5, 6))
    waited = _batch_of(rig, "slow", gap)
    rig.over("slow")
    _act(rig, park, waited, "the table is locked")
    for run in range(RUNS):
        rig.fill()
        if run == RUNS // 3:
            rig.stream.split(rig.shard_ids[1])
        if run == RUNS // 2:
            rig.stream.merge(*rig.shard_ids[-2:])
        rig.run(f"hour-{run}")
        pass_time(rig, 1)
    _act(rig, unpark, waited, "the table is free")
    rig.run("late")
    rig.run("behind-a-gap")  # what was put while the batch was parked has expired

    names = {"gap": gap, "landed": landed, "held": held, "parked shard": parked}
    names["parked"] = named = _batch_of(rig, "poison", parked)
    _act(rig, park, named, "the job cannot read record 7")
    names["set aside"] = named = _batch_of(rig, "broken", aside)
    rig.over("broken")
    _act(rig, set_aside, named, "the producer sends these again")
    names["frozen"] = _batch_of(rig, "stuck", stuck)
    for attempt in range(2):
        rig.over("stuck" if not attempt else "again-0")
        rig.freeze(f"again-{attempt}", rig.claim(f"again-{attempt}").batch_id)
    pass_time(rig, 1)
    rig.fill(landed)
    rig.land("reading", rig.claim("reading"))
    rig.claim("holding")
    return names


def _batch_of(rig: Told, run: str, shard_id: str) -> str:
    """A batch of one shard alone, whose run is at work."""
    rig.fill(shard_id)
    frozen = rig.read(run)
    assert frozen.batch_id is not None
    return frozen.batch_id


def _act(rig: Told, verb: object, batch_id: str, reason: str) -> None:
    act(verb, rig.store, rig.namespace, batch_id, actor="ann", reason=reason, dry_run=False)


def wide(folder: Path, store: LeaseStore, now_ms: int) -> Namespace:
    """The application `wide` with thousands of shards in four generations: shards were split, most children were merged
    again, and some of those split. Each row is taken through its states, but nothing is read."""
    rig = told(folder, store, "wide", now_ms, 1)
    rig.fill()
    rig.run("first")
    [whole] = rig.consumer().leases()
    assert store.delete(whole)
    assert all(store.create_many([_row(rig, *each, now_ms) for each in enumerate(_generations(HASH_KEYS))]))
    return rig.namespace


def _generations(space: KeyRange) -> list[Shard]:
    """As many shards as :data:`WIDE`, parents before children."""
    shards: list[Shard] = []

    def add(span: KeyRange, parents: Sequence[Shard] = ()) -> Shard:
        shard_id = f"shardId-{len(shards):012d}"
        shards.append(Shard(shard_id, tuple(parent.shard_id for parent in parents), span))
        return shards[-1]

    def halves(parents: Sequence[Shard]) -> list[Shard]:
        children = []
        for parent in parents:
            middle = (parent.hash_range.start + parent.hash_range.end) // 2
            children.append(add(KeyRange(parent.hash_range.start, middle), [parent]))
            children.append(add(KeyRange(middle + 1, parent.hash_range.end), [parent]))
        return children

    width = space.size // FIRST
    roots = [add(KeyRange(n * width, (n + 1) * width - 1 if n < FIRST - 1 else space.end)) for n in range(FIRST)]
    children = halves(roots[:SPLIT])
    merged = []
    for left, right in zip(children[0 : 2 * MERGED : 2], children[1 : 2 * MERGED : 2], strict=True):
        merged.append(add(KeyRange(left.hash_range.start, right.hash_range.end), [left, right]))
    halves(merged[:AGAIN])
    return shards


def _row(rig: Told, number: int, shard: Shard, now_ms: int) -> Lease:
    """The row of a shard: completed where it has children, else free, held or landed, with some lag."""
    at = now_ms - rig.random.randrange(HOUR_MS)
    row = lease.add(rig.namespace, "", shard, TRIM_HORIZON, 1, at - HOUR_MS)
    owner = str(rig.owner(f"run-{number % 7}"))
    records = rig.random.randrange(1, 900)
    ended = _has_children(number)
    kind = "ended" if ended else rig.random.choice(("free", "free", "free", "held", "landed"))
    if kind == "free":
        return replace(row, millis_behind_latest=rig.random.choice((0, 0, 40_000, 3 * HOUR_MS)))
    taken = lease.take(row, owner, "000", at)
    if kind == "held":
        return taken
    until = SHARD_END if ended else after(str(1000 + records))
    found = Slice(
        shard.shard_id, TRIM_HORIZON, until, ended, records=records, raw_bytes=100 * records, last=str(1000 + records)
    )
    landed = lease.land(taken, owner, replace(found, first_arrival_ms=at - 5000, last_arrival_ms=at - 1000), at)
    if not ended:
        return landed
    return lease.roll_forward(lease.stamp(landed, owner, "wide-batch", at), "wide-batch", at)


def _has_children(number: int) -> bool:
    """Whether the shard of this number was split or merged."""
    first_merged = FIRST + 2 * SPLIT
    return number < SPLIT or FIRST <= number < FIRST + 2 * MERGED or first_merged <= number < first_merged + AGAIN


def elsewhere(folder: Path, store: LeaseStore, now_ms: int) -> Namespace:
    """The application `elsewhere`, of another deployment."""
    rig = told(folder, store, "elsewhere", now_ms, 2)
    rig.deployment = "other"
    rig.fill()
    rig.run("once")
    return rig.namespace
