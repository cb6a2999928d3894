# SPDX-License-Identifier: Apache-2.0
"""Drop: a batch is given up. An undecided batch never commits; a batch that was set aside is no longer kept (B6, L6).

An interval's committed batch is taken back: it is decided anew, without output (B11).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import cast

from shardbatch.control.action import STAGING, Action, Done, Stays
from shardbatch.control.set_aside import at_work, move_on
from shardbatch.core import batch as batches
from shardbatch.core.batch import DROPPED, KEPT, Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.ports import Landing
from shardbatch.core.rows import BATCH
from shardbatch.errors import ConfigurationError, StagingError
from shardbatch.run.intervals import highest_numbers, how_to_read
from shardbatch.run.settle import mark, roots_of, unstamp
from shardbatch.run.staging_place import stands_in


def drop(action: Action, batch_id: str) -> tuple[Done, ...]:
    """Discard a frozen or parked batch: its shards are free, and the next run freezes the same slices in another batch.

    No record is lost. What an application may have written for it stays in the sink as orphans, which the answer and
    the list of batches name; with staging at hand, the answer names the folders that finished starts wrote. A batch
    whose owner is at work, or may be because Airflow does not say, is left, unless by force. Of a batch that was set
    aside, the slices are no longer kept for a replay. A committed batch of an interval is decided anew, without output,
    and every root is told, for which staging is needed; called again, it tells roots that a call before it did not. A
    replay, of its cleared run, gives it output again. Without a scope the batch is looked for wherever it may be.

    :raises ConfigurationError: if application or batch is not there, the reason is empty, or staging is needed.
    :raises StagingError: if a root of an interval's batch cannot be reached; nothing was changed, or call it again.
    :raises OutputTaken: if such a root is another application's now; nothing was changed.
    """
    action, batch = action.at_batch(batch_id)
    if _stays(action, batch) is None:
        if not action.dry_run and _is_taken_back(batch):
            _look(action, batch)
        action.record(f"batch {batch_id}")
    done, row = action.change(batch, partial(_stays, action), partial(_dropped, action), partial(effect, action))
    if row.state is BatchState.VOID and not action.dry_run:
        free(action, row)
    if row.scope and row.set_aside == DROPPED and not action.dry_run:
        if row.roots:
            mark(_landing(action, row), row)
        move_on(action, row)
    return (done,)


def discard(action: Action, batch: Batch) -> Batch:
    """B6 on the way of another action, after its own checks; the row then, void unless it was decided meanwhile."""
    current = batch
    while current.state in (BatchState.FROZEN, BatchState.PARKED):
        changed = batches.discard(current, action.note())
        if action.store.replace(current, changed):
            return changed
        current = action.expect_batch(batch.batch_id)
    return current


def free(action: Action, batch: Batch) -> list[Lease]:
    """L6 for every lease of a void batch: landed, without an owner."""
    return unstamp(action, batch.batch_id, action.leases(batch_id=batch.batch_id))


def effect(action: Action, batch: Batch) -> str:
    """What follows when a batch is discarded."""
    if _is_taken_back(batch):
        return _no_longer_seen(action, batch)
    if batch.set_aside is not None:
        return f"its {batch.records} records cannot be relied on for a replay any more"
    shards = len(action.leases(batch_id=batch.batch_id))
    parts = [f"the slices of {shards} shards go into a later batch", action.fate(batch.owner)]
    return "; ".join([*parts, *orphans(action, batch)])


def orphans(action: Action, batch: Batch) -> list[str]:
    """What may stay in the sink under the id of a batch that never commits: said unless it is sure that nothing can."""
    if not batch.records:
        return []
    said = f"POSSIBLE ORPHANS: rows of batch_id={batch.batch_id}"
    if batch.sink == "starts":
        said += " in start folders, which read_committed never shows"
    if batch.attempt_ref:
        said += f", written by application {batch.attempt_ref}"
    if action.landing is not None:
        said += _finished(action.landing, batch)
    return [said]


def _finished(landing: Landing, batch: Batch) -> str:
    if not stands_in(landing, batch):
        return f", and this staging is not the batch's, which says where: {batch.manifest_uri}"
    try:
        starts = landing.finished_starts(batch.namespace, batch.batch_id)
    except StagingError as error:
        return f", staging does not say where ({error})"
    named = sorted({output for start in starts for output in start.outputs})
    return ", finished below {}".format(", ".join(named)) if named else ", none finished"


def _stays(action: Action, batch: Batch) -> Stays | None:
    if batch.state is BatchState.VOID:
        return Stays("it is discarded already", already=True)
    if batch.state is BatchState.COMMITTED:
        if batch.set_aside == KEPT:
            return None
        if batch.set_aside is not None:
            return Stays("it is dropped already", already=True)
        if not _is_taken_back(batch):
            why = "it has no output that readers see" if batch.scope else "it is committed, so its records are done"
            return Stays(why)
        _landing(action, batch)
        return at_work(action, batch) if _is_replayed(batch) else None
    return at_work(action, batch)


def _dropped(action: Action, batch: Batch) -> Batch:
    if _is_taken_back(batch):
        return batches.withdraw(batch, action.note(), roots_of(_landing(action, batch), batch), action.now_ms())
    if batch.state is BatchState.COMMITTED:
        return batches.drop(batch, action.note())
    return batches.discard(batch, action.note())


# ------------------------------------------------------------------ intervals


def _is_taken_back(batch: Batch) -> bool:
    """Whether it is an interval's batch with output, which nothing else undoes."""
    decided = batch.state is BatchState.COMMITTED and batch.set_aside is None
    return bool(batch.scope) and decided and batch.told


def _is_replayed(batch: Batch) -> bool:
    """Whether a replay of it was begun and is not decided."""
    return batch.attempt > batch.decided


def _landing(action: Action, batch: Batch) -> Landing:
    if action.landing is None:
        raise ConfigurationError(
            f"Batch {batch.batch_id} is taken back by telling its output roots, which are reached as staging is.",
            remedy=STAGING,
        )
    return action.landing


def _look(action: Action, batch: Batch) -> None:
    """See that all roots can be told, while that still costs nothing."""
    landing = _landing(action, batch)
    for root in roots_of(landing, batch):
        landing.outputs.look(root, (), str(batch.namespace), shared=batch.shared)


def _no_longer_seen(action: Action, batch: Batch) -> str:
    every = cast("Iterator[Batch]", action.store.list(BATCH, batch.namespace, None))
    highest = highest_numbers(every).get(batch.interval, 0) if batch.interval else 0
    calls = ", ".join(how_to_read(root, batch) for root in roots_of(_landing(action, batch), batch))
    if batch.number < highest:
        return f"readers go by a later run over its interval already: {calls}"
    said = "its {} records are no longer shown by {}; its run, cleared, gives it output again"
    fate = [f"; {action.fate(batch.owner)}"] if _is_replayed(batch) else []
    return "".join([said.format(batch.records, calls), *fate])
