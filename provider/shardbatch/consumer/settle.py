# SPDX-License-Identifier: Apache-2.0
"""Stamps are obeyed first: a committed batch is rolled forward, a void one is undone (PROTOCOL L5, L6)."""

from __future__ import annotations

from collections.abc import Sequence

from shardbatch.consumer.consumer import Consumer, Rows, first_count
from shardbatch.core import batch as batches
from shardbatch.core import lease as leases
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.ports import Landing

#: The batch row of every stamp that some leases carry; ``None`` where there is no row.
Stamped = dict[str, Batch | None]


def read_batches(consumer: Consumer, rows: Sequence[Lease]) -> Stamped:
    """The batch row of every stamp; committed ones get their markers before any lease moves."""
    found = {lease.batch_id for lease in rows if lease.batch_id is not None}
    stamped: Stamped = {batch_id: consumer.batch(batch_id) for batch_id in sorted(found)}
    for batch in stamped.values():
        if batch is not None and batch.state is BatchState.COMMITTED:
            mark(consumer.landing, batch)
    return stamped


def mark(landing: Landing, batch: Batch) -> None:
    """Leave the committed marker of a decided batch beside its data, so that readers find it before leases move (I)."""
    outputs = sorted({output for start in batch.start for output in start.outputs})
    for output in outputs:
        writers = [start for start in batch.start if output in start.outputs]
        landing.mark_committed(output, batch.batch_id, batch.decided, *writers)


def roll_forward(rows: Rows, batch: Batch, lease: Lease) -> Lease | None:
    """L5 for one lease of a committed batch whose marker is written; the row as it stands then."""
    current: Lease | None = lease
    while current is not None and current.batch_id == batch.batch_id:
        moved = leases.roll_forward(current, batch.batch_id, rows.now_ms())
        if rows.store.replace(current, moved):
            return moved
        current = rows.lease(lease.shard_id)
    return current


def void_absent(rows: Rows, batch_id: str) -> Batch:
    """B2: from now on a batch that was stamped and has no row can never be; or the row that came first."""
    row = batches.void(rows.namespace, rows.scope, batch_id, first_count(), rows.now_ms())
    if rows.store.create(row):
        return row
    found = rows.batch(batch_id)
    return found if found is not None else void_absent(rows, batch_id)


def unstamp(rows: Rows, lease: Lease, batch_id: str, *, free: bool) -> Lease | None:
    """L6 for one lease of a void batch; the row as it stands then."""
    current: Lease | None = lease
    while current is not None and current.batch_id == batch_id:
        undone = leases.unstamp(current, batch_id, rows.now_ms(), free=free)
        if rows.store.replace(current, undone):
            return undone
        current = rows.lease(lease.shard_id)
    return current


def settle(consumer: Consumer, lease: Lease, batch: Batch | None, *, mine: bool, may_undo: bool) -> Lease | None:
    """The lease after its stamp was obeyed; unchanged where the batch is undecided or nothing may be done.

    ``batch`` is the row of its stamp, marked already if committed. ``may_undo``: a stamp without a row, or of a void
    batch, may be removed by this caller. A lease that is not ``mine`` is freed as well.
    """
    if lease.batch_id is None:
        return lease
    if batch is None:
        if not may_undo:
            return lease
        batch = void_absent(consumer, lease.batch_id)
        if batch.state is BatchState.COMMITTED:
            mark(consumer.landing, batch)
    if batch.state is BatchState.COMMITTED:
        return roll_forward(consumer, batch, lease)
    if batch.state is BatchState.VOID and may_undo:
        return unstamp(consumer, lease, lease.batch_id, free=not mine)
    return lease
