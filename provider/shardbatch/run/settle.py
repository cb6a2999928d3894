# SPDX-License-Identifier: Apache-2.0
"""Resolves stamps before anything else: rolls a committed batch forward, and undoes a void one (PROTOCOL L5, L6).

The race, step by step. A batch spans many rows, and a store changes one row at a time:

1. A freeze stamps its leases with a new batch id, one by one. A stamped lease changes in one way only: its stamp is
   obeyed.
2. It writes the manifest, then creates the batch row as ``FROZEN``. That row alone decides what the stamps mean.
3. A commit turns the row to ``COMMITTED``. This one write is the decision for all shards at once.
4. The markers are written, then the leases move on, one by one.

A process may die after any of these writes, and the next process goes on from there:

* *After 1: stamps without a row.* Whether the freeze is dead or only slow is not known. So the row is created as
  ``VOID`` under the same key (:func:`void_absent`). Creating succeeds for one of the two. If the freeze was first, its
  batch stands and its stamps are kept. If the void row was first, the freeze cannot create its row any more: it learns
  that its batch was given up, and freezes anew. Only after that are stamps removed.
* *After 2: a frozen batch.* Its leases stay as they are until a run that owns it commits, or a person decides.
* *After 3: committed, but no marker.* A process that sees the row writes the markers (:func:`mark`) before it moves a
  lease. Their text comes from the row alone, so it does not matter who writes it, or how often.
* *Within 4: some leases moved.* Each is moved by compare-and-set while it carries the stamp (:func:`_change`), so a
  lease is moved once, by the first process. One that lost the race is read again: moved by another, it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from shardbatch.core import batch as batches
from shardbatch.core import lease as leases
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.decision import Decision
from shardbatch.core.lease import Lease
from shardbatch.core.ports import Landing
from shardbatch.core.start import Start
from shardbatch.run.consumer import Consumer, Rows, first_count

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
    """Write to every root of a decided batch what readers see of it there, maybe nothing, before leases move (O4).

    The text comes from the row alone, so it is the same for every caller and every repetition.
    """
    roots = roots_of(landing, batch)
    writers = writers_of(landing, batch.starts)
    for root in roots:
        landing.outputs.mark(root, _decision(batch, writers.get(landing.outputs.place(root), []), roots))


def roots_of(landing: Landing, batch: Batch) -> tuple[str, ...]:
    """All roots that get a marker of a decision of this batch; for a row of version 1 those of its starts."""
    return one_each(landing, [*batch.roots, *(output for start in batch.starts for output in start.outputs)])


def one_each(landing: Landing, roots: Iterable[str]) -> tuple[str, ...]:
    """The first spelling of every place."""
    found: dict[str, str] = {}
    for root in roots:
        found.setdefault(landing.outputs.place(root), root)
    return tuple(found.values())


def writers_of(landing: Landing, starts: Iterable[Start]) -> dict[str, list[Start]]:
    """The starts that wrote to each place, in any spelling."""
    found: dict[str, list[Start]] = {}
    for start in starts:
        for place in {landing.outputs.place(output) for output in start.outputs}:
            found.setdefault(place, []).append(start)
    return found


def decision_at(landing: Landing, batch: Batch, root: str) -> Decision:
    """The marker of a decided batch for one root."""
    writers = writers_of(landing, batch.starts).get(landing.outputs.place(root), [])
    return _decision(batch, writers, roots_of(landing, batch))


def _decision(batch: Batch, writers: Sequence[Start], roots: tuple[str, ...]) -> Decision:
    return Decision(
        batch_id=batch.batch_id,
        decided=batch.decided,
        starts=tuple(sorted((start.start_id, start.attempt) for start in writers)),
        app=str(batch.namespace),
        interval=batch.interval,
        number=batch.number,
        joins=batch.joins,
        min_arrival_ms=batch.min_arrival_ms,
        max_arrival_ms=batch.max_arrival_ms,
        committed_ms=batch.committed_at_ms,
        roots=roots,
    )


def roll_forward(rows: Rows, batch: Batch, found: Sequence[Lease]) -> list[Lease]:
    """L5 for leases of a committed batch whose marker is written; returns the rows afterwards."""

    def moved(lease: Lease, now_ms: int) -> Lease:
        return leases.roll_forward(lease, batch.batch_id, now_ms)

    return _change(rows, batch.batch_id, found, moved)


def unstamp(rows: Rows, batch_id: str, found: Sequence[Lease], owner: str | None = None) -> list[Lease]:
    """L6 for leases of a void batch: they are free afterwards, except those of ``owner``; returns the rows
    afterwards."""

    def undone(lease: Lease, now_ms: int) -> Lease:
        return leases.unstamp(lease, batch_id, now_ms, free=owner is None or lease.lease_owner != owner)

    return _change(rows, batch_id, found, undone)


def _change(rows: Rows, batch_id: str, found: Sequence[Lease], change: Callable[[Lease, int], Lease]) -> list[Lease]:
    """Change the leases while they carry the stamp of the batch."""
    settled: list[Lease] = []
    stamped = list(found)
    while stamped:
        now_ms = rows.now_ms()
        changes = [(lease, change(lease, now_ms)) for lease in stamped]
        stamped = []
        for (lease, changed), written in zip(changes, rows.store.replace_many(changes), strict=True):
            current = changed if written else rows.lease(lease.shard_id)
            if current is not None and current.batch_id == batch_id:
                stamped.append(current)
            elif current is not None:
                settled.append(current)
    return settled


def void_absent(rows: Rows, batch_id: str) -> Batch:
    """B2: give up a batch that was stamped and has no row, so that it can never exist; or return the row that came
    first."""
    # A freeze that is only slow is about to create the same row. One of the two creations succeeds.
    row = batches.void(rows.namespace, rows.scope, batch_id, first_count(), rows.now_ms())
    if rows.store.create(row):
        return row
    found = rows.batch(batch_id)
    return found if found is not None else void_absent(rows, batch_id)


def settle(
    consumer: Consumer, found: Iterable[Lease], stamped: Stamped, me: str, may_undo: Callable[[Lease], bool]
) -> list[Lease]:
    """The leases after their stamps were resolved; unchanged if a batch is undecided or nothing may be done.

    ``stamped`` has the rows of the stamps; roots of committed ones already have their markers. ``may_undo``: whether
    this caller may remove from a lease a stamp without a row, or of a void batch. A lease of another owner than ``me``
    is freed as well.
    """
    settled: list[Lease] = []
    carriers: dict[str, list[Lease]] = {}
    for lease in found:
        if lease.batch_id is None:
            settled.append(lease)
        else:
            carriers.setdefault(lease.batch_id, []).append(lease)
    for batch_id, members in carriers.items():
        settled += _obey(consumer, batch_id, members, stamped.get(batch_id), me, may_undo)
    return settled


def _obey(
    consumer: Consumer,
    batch_id: str,
    members: list[Lease],
    batch: Batch | None,
    me: str,
    may_undo: Callable[[Lease], bool],
) -> list[Lease]:
    """The leases that carry one stamp, after it was resolved."""
    undo = [lease for lease in members if may_undo(lease)] if batch is None or batch.state is BatchState.VOID else []
    if batch is None and undo:
        # The freeze may have been faster after all, and its batch even committed by now: what stands there is obeyed.
        batch = void_absent(consumer, batch_id)
        if batch.state is BatchState.COMMITTED:
            mark(consumer.landing, batch)
    if batch is not None and batch.state is BatchState.COMMITTED:
        return roll_forward(consumer, batch, members)
    if batch is None or batch.state is not BatchState.VOID:
        return members
    names = {lease.shard_id for lease in undo}
    return [lease for lease in members if lease.shard_id not in names] + unstamp(consumer, batch_id, undo, me)
