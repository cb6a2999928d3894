# SPDX-License-Identifier: Apache-2.0
"""Park and unpark: a batch waits for a person, its shards with it, and all others go on (PROTOCOL B5)."""

from __future__ import annotations

from shardbatch.control.action import Action, Done, Stays
from shardbatch.core import batch as batches
from shardbatch.core.batch import Batch, BatchState

#: Why a batch that is over is neither parked nor resumed.
OVER = {BatchState.COMMITTED: "it is committed", BatchState.VOID: "it was discarded"}


def park(action: Action, batch_id: str) -> tuple[Done, ...]:
    """Make a frozen batch wait for ``unpark``. Its leases stay stamped, so its shards wait and order holds.

    The run that works on it ends with ``BatchParked`` and commits nothing: no owner is asked, since this is how a
    person stops one. Without a scope the batch is looked for wherever it may be.

    :raises ConfigurationError: if application or batch is not there, or the reason is empty.
    """
    return _turn(action, batch_id, BatchState.FROZEN, BatchState.PARKED)


def unpark(action: Action, batch_id: str) -> tuple[Done, ...]:
    """Resume a parked batch: its owner goes on with it, or the next run takes it over if that owner is over.

    ``max_attempts`` counts anew from here on. Without a scope the batch is looked for wherever it may be.

    :raises ConfigurationError: if application or batch is not there, or the reason is empty.
    """
    return _turn(action, batch_id, BatchState.PARKED, BatchState.FROZEN)


def _turn(action: Action, batch_id: str, before: BatchState, after: BatchState) -> tuple[Done, ...]:
    action, batch = action.at_batch(batch_id)
    make = batches.park if after is BatchState.PARKED else batches.unpark

    def stays(row: Batch) -> Stays | None:
        if row.state is before:
            return None
        if row.state is after:
            return Stays(f"it is {after.value} already", already=True)
        return Stays(OVER[row.state])

    def effect(row: Batch) -> str:
        shards = len(action.leases(batch_id=row.batch_id))
        if after is BatchState.PARKED:
            return f"its {shards} shards wait, all others go on"
        who = "its owner goes on with it, or the next run once that is over" if row.owner else "the next run takes it"
        return f"{who}; {shards} shards wait for it"

    if stays(batch) is None:
        action.record(f"batch {batch_id}")
    return (action.change(batch, stays, lambda row: make(row, action.note()), effect)[0],)
