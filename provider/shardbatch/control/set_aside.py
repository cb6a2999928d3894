# SPDX-License-Identifier: Apache-2.0
"""Set aside: a batch that cannot be processed is decided without output, and its shards go on (PROTOCOL B9)."""

from __future__ import annotations

from functools import partial

from shardbatch.control.action import FORCE, Action, Done, Stays
from shardbatch.core import batch as batches
from shardbatch.core.batch import KEPT, Batch, BatchState
from shardbatch.run.batch_status import arrived
from shardbatch.run.settle import roll_forward


def set_aside(action: Action, batch_id: str) -> tuple[Done, ...]:
    """Decide a frozen or parked batch as committed without output: its checkpoints move, no reader sees its records.

    Slices and manifest are kept until the batch is replayed or dropped by name. A batch whose owner is at work, or
    may be because Airflow does not say, is left, unless by force; that owner's commit fails then and changes nothing.
    Called again, it moves the checkpoints that a call before it did not. Without a scope the batch is looked for
    wherever it may be.

    :raises ConfigurationError: if application or batch is not there, or the reason is empty.
    """
    action, batch = action.at_batch(batch_id)
    if _stays(action, batch) is None:
        action.record(f"batch {batch_id}")
    done, row = action.change(batch, partial(_stays, action), partial(_aside, action), partial(_effect, action))
    if row.set_aside == KEPT and not action.dry_run:
        move_on(action, row)
    return (done,)


def at_work(action: Action, batch: Batch) -> Stays | None:
    """Why an undecided batch is left to its owner: that is at work, or it is unknown whether it is over."""
    working = f"its owner is at work on it; end that run, or {FORCE}: then its commit fails and changes nothing"
    why = action.left_to(batch.owner, working)
    return Stays(why) if why else None


def _stays(action: Action, batch: Batch) -> Stays | None:
    if batch.set_aside == KEPT:
        return Stays("it is set aside already", already=True)
    if batch.set_aside is not None:
        return Stays("it is dropped already", already=True)  # whose roots only a drop may tell, before its leases move
    if batch.state is BatchState.COMMITTED:
        return Stays("it is committed")
    if batch.state is BatchState.VOID:
        return Stays("it was discarded; its records are in later batches")
    return at_work(action, batch)


def _aside(action: Action, batch: Batch) -> Batch:
    return batches.set_aside(batch, action.note(), action.now_ms())


def _effect(action: Action, batch: Batch) -> str:
    when = arrived(batch.min_arrival_ms, batch.max_arrival_ms)
    return "{} shards go on behind its {} records{}, which no reader sees until a replay; {}".format(
        len(action.leases(batch_id=batch.batch_id)),
        batch.records,
        f" (arrived {when})" if when else "",
        action.fate(batch.owner),
    )


def move_on(action: Action, batch: Batch) -> None:
    """L5, for a batch without output whose roots are told. An interval's side leases have served (L13)."""
    for moved in roll_forward(action, batch, action.leases(batch_id=batch.batch_id)):
        if action.scope:
            action.store.delete(moved)  # one that moves on meanwhile may stay: nothing reads it
