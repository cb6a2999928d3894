# SPDX-License-Identifier: Apache-2.0
"""Set aside: a batch that cannot be processed is decided without output, and its shards go on (PROTOCOL B9)."""

from __future__ import annotations

from functools import partial

from shardbatch.control.action import Action, Done, Stays
from shardbatch.core import batch as batches
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.ports import LeaseStore, Liveness
from shardbatch.core.rows import Namespace
from shardbatch.run.batch_status import arrived
from shardbatch.run.settle import roll_forward


def set_aside(
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
) -> tuple[Done, ...]:
    """Decide a frozen or parked batch as committed without output: its checkpoints move, no reader sees its records.

    Slices and manifest are kept until the batch is replayed or dropped by name. A commit of its owner that comes
    later fails and changes nothing. Called again, it moves the checkpoints that a call before it did not.

    :param scope: that of an interval run's batch, default: wherever the batch is found.
    :param dry_run: only say what would be done (default).
    :param liveness: says whether the owner is over; default: nobody does, and the preview names the owner.
    :param force: also if the owner is at work.
    :raises ConfigurationError: if application or batch is not there, or the reason is empty.
    """
    action = Action(
        namespace=namespace, store=store, scope=scope, verb="set aside", past="set aside",
        actor=actor, reason=reason, dry_run=dry_run, liveness=liveness, force=force,
    )  # fmt: skip
    action, batch = action.at_batch(batch_id)
    if _stays(action, batch) is None:
        action.record("batch {}".format(batch_id))
    done, row = action.change(batch, partial(_stays, action), partial(_aside, action), partial(_effect, action))
    if row.set_aside is not None and not dry_run:
        move_on(action, row)
    return (done,)


def at_work(action: Action, batch: Batch) -> Stays | None:
    """Why an undecided batch is left to its owner, if that is known to be at work."""
    if action.force or action.over(batch.owner) is not False:
        return None
    return Stays("its owner is at work on it; end that run, or use force: its commit fails then, changing nothing")


def fate(action: Action, batch: Batch) -> str:
    """What happens to an owner that is at work on a batch that is decided or discarded."""
    if action.over(batch.owner):
        return "its owner is over"
    return "if its owner is at work, its commit fails and changes nothing"


def _stays(action: Action, batch: Batch) -> Stays | None:
    if batch.set_aside is not None:
        return Stays("it is set aside already", already=True)
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
        " (arrived {})".format(when) if when else "",
        fate(action, batch),
    )


def move_on(action: Action, batch: Batch) -> None:
    """L5, for a batch without output whose roots are told. An interval's side leases have served (L13)."""
    for moved in roll_forward(action, batch, action.leases(batch_id=batch.batch_id)):
        if action.scope:
            action.store.delete(moved)
