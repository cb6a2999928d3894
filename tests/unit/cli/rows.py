# SPDX-License-Identifier: Apache-2.0
"""A small application in a memory store: one free, held, landed, frozen and completed shard each."""

from __future__ import annotations

from shardbatch.core import lease as leases
from shardbatch.core.application import Application
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.owner import Owner
from shardbatch.core.position import SHARD_END, TRIM_HORIZON
from shardbatch.core.rows import Namespace
from shardbatch.core.shard import Shard
from shardbatch.core.slice import Slice
from shardbatch.core.start import Start
from shardbatch.stores.memory import MemoryStore

NAMESPACE = Namespace("orders-etl", "orders")
OWNER = str(Owner("prod", "orders", "scheduled__2026-11-28T00:00:00+00:00", "orders"))
OTHER = str(Owner("staging", "orders", "manual__2026-11-27T00:00:00+00:00", "orders"))
NOW = 1_800_000_000_000


def landed(shard_id: str, records: int, behind: int) -> Slice:
    return Slice(shard_id, TRIM_HORIZON, SHARD_END, ended=True, records=records, millis_behind_latest=behind)


def fresh(shard_id: str, parents: tuple[str, ...] = ()) -> Lease:
    return leases.add(NAMESPACE, "", Shard(shard_id, parents), TRIM_HORIZON, 7, NOW)


def frozen_batch(batch_id: str = "b2", owner: str = OWNER, state: BatchState = BatchState.FROZEN) -> Batch:
    return Batch(
        NAMESPACE, "", batch_id, owner, 3, state, attempt=2, attempt_ref="2:client:w1:42", records=10, bytes=2048,
        created_at_ms=NOW - 60_000,
    )  # fmt: skip


def of_interval(batch_id: str, root: str, number: int = 1, state: BatchState = BatchState.COMMITTED) -> Batch:
    """A batch that a run of its own read for the hour before the live application's last."""
    scope = str(Owner("prod", "orders", f"backfill__{batch_id}", "orders", "interval"))
    start = (Start("s1", 1, "transform", (root,)),) if state is BatchState.COMMITTED else ()
    return Batch(
        NAMESPACE, scope, batch_id, scope, 3, state, attempt=1, decided=len(start), records=5, bytes=100,
        created_at_ms=NOW - 600_000, committed_at_ms=NOW - 500_000 if start else None, starts=start,
        roots=(root,) if start else (), from_ms=NOW - 7_200_000, to_ms=NOW - 3_600_000, number=number if start else 0,
    )  # fmt: skip


def filled() -> MemoryStore:
    store = MemoryStore()
    store.prepare()
    store.create(Application(NAMESPACE, "arn:orders:1", TRIM_HORIZON, 1, deployments=("prod", "staging")))
    held = leases.take(fresh("s-held"), OWNER, "g0", NOW)
    full = leases.land(leases.take(fresh("s-landed"), OTHER, "g0", NOW), OTHER, landed("s-landed", 5, 9_000), NOW)
    frozen = leases.land(leases.take(fresh("s-frozen"), OWNER, "g0", NOW), OWNER, landed("s-frozen", 10, 70_000), NOW)
    frozen = leases.stamp(frozen, OWNER, "b2", NOW)
    ended = leases.land(leases.take(fresh("s-done"), OWNER, "g0", NOW), OWNER, landed("s-done", 4, 0), NOW)
    ended = leases.roll_forward(leases.stamp(ended, OWNER, "b1", NOW), "b1", NOW)
    for row in (fresh("s-free", ("s-done",)), held, full, frozen, ended):
        assert store.create(row)
    store.create(
        Batch(
            NAMESPACE, "", "b1", OWNER, 9, BatchState.COMMITTED, attempt=1, decided=1, records=4, bytes=100,
            created_at_ms=NOW - 900_000, committed_at_ms=NOW - 300_000,
        )
    )  # fmt: skip
    store.create(frozen_batch())
    return store
