# SPDX-License-Identifier: Apache-2.0
"""Drop: a batch is given up. One that is undecided never commits, one that was set aside is kept no longer (B6, L6)."""

from __future__ import annotations

from functools import partial

from shardbatch.consumer.action import Action, Done, Stays
from shardbatch.consumer.set_aside import at_work, fate
from shardbatch.consumer.settle import unstamp
from shardbatch.core import batch as batches
from shardbatch.core.batch import KEPT, Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.ports import Landing, LeaseStore, Liveness
from shardbatch.core.rows import Namespace
from shardbatch.errors import StagingError


def drop(
    store: LeaseStore,
    namespace: Namespace,
    batch_id: str,
    *,
    actor: str,
    reason: str,
    scope: str = "",
    dry_run: bool = True,
    liveness: Liveness | None = None,
    force: bool = False,
    landing: Landing | None = None,
) -> tuple[Done, ...]:
    """Discard a frozen or parked batch: its shards are free, and the next run freezes the same slices in another batch.

    No record is lost. What an application may have written for it stays in the sink as orphans, which the answer and
    the list of batches name. Of a batch that was set aside, the slices are no longer kept for a replay.

    :param scope: that of an interval run's batch, default: the live application.
    :param dry_run: only say what would be done (default).
    :param liveness: says whether the owner is over; default: nobody does, and the preview names the owner.
    :param force: also if the owner is at work.
    :param landing: names the folders that finished starts wrote; default: they are not looked for.
    :raises ConfigurationError: if application or batch is not there, or the reason is empty.
    """
    action = Action(
        namespace=namespace, store=store, scope=scope, verb="drop", past="dropped",
        actor=actor, reason=reason, dry_run=dry_run, liveness=liveness, force=force, landing=landing,
    )  # fmt: skip
    action.begin()
    batch = action.expect_batch(batch_id)
    if _stays(action, batch) is None:
        action.record("batch {}".format(batch_id))
    done, row = action.change(batch, partial(_stays, action), partial(_dropped, action), partial(effect, action))
    if row.state is BatchState.VOID and not dry_run:
        free(action, row)
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
    """L6 for every lease of a void batch: landed, and nobody's."""
    return unstamp(action, batch.batch_id, action.leases(batch_id=batch.batch_id))


def effect(action: Action, batch: Batch) -> str:
    """What follows when a batch is discarded."""
    if batch.set_aside is not None:
        return "its {} records cannot be relied on for a replay any more".format(batch.records)
    shards = len(action.leases(batch_id=batch.batch_id))
    parts = ["the slices of {} shards go into a later batch".format(shards), fate(action, batch)]
    return "; ".join([*parts, *orphans(action, batch)])


def orphans(action: Action, batch: Batch) -> list[str]:
    """What may stay in the sink under the id of a batch that never commits: said unless it is sure that nothing can."""
    if not batch.records:
        return []
    said = "POSSIBLE ORPHANS: rows of batch_id={}".format(batch.batch_id)
    if batch.sink == "starts":
        said += " in start folders, which read_committed never shows"
    if batch.attempt_ref:
        said += ", written by application {}".format(batch.attempt_ref)
    if action.landing is not None:
        said += _finished(action.landing, batch)
    return [said]


def _finished(landing: Landing, batch: Batch) -> str:
    try:
        starts = landing.finished_starts(batch.namespace, batch.batch_id)
    except StagingError as error:
        return ", staging does not say where ({})".format(error)
    named = sorted({output for start in starts for output in start.outputs})
    return ", finished below {}".format(", ".join(named)) if named else ", none finished"


def _stays(action: Action, batch: Batch) -> Stays | None:
    if batch.state is BatchState.VOID:
        return Stays("it is discarded already", already=True)
    if batch.state is BatchState.COMMITTED:
        if batch.set_aside == KEPT:
            return None
        already = batch.set_aside is not None
        return Stays("it is dropped already" if already else "it is committed, so its records are done", already)
    return at_work(action, batch)


def _dropped(action: Action, batch: Batch) -> Batch:
    if batch.state is BatchState.COMMITTED:
        return batches.drop(batch, action.note())
    return batches.discard(batch, action.note())
