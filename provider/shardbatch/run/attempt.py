# SPDX-License-Identifier: Apache-2.0
"""Attempts of a batch: opening, the turn of the work task, its heartbeat and its end (PROTOCOL D2, D3, B7)."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import cast

from shardbatch.core import batch as batches
from shardbatch.core.batch import DROPPED, Batch, BatchState
from shardbatch.core.owner import Owner
from shardbatch.core.rows import BATCH, Row
from shardbatch.errors import AttemptAlive, BatchParked, LeaseLost, ProtocolError, SlicesGone
from shardbatch.run.batch_status import utc
from shardbatch.run.consumer import Consumer, Rows
from shardbatch.run.signs_of_life import Watched, watch

#: Ends the recorded applications of a batch's latest attempt; true if all that it started is known to have ended.
Ended = Callable[[Batch], bool]


def nothing_ended(batch: Batch) -> bool:
    """Ends nothing, so that the caller waits for the attempt."""
    return False


class Turn(StrEnum):
    """``RUN``: do the work. ``ALREADY_COMMITTED``: this attempt is already decided; do nothing and succeed."""

    RUN = "run"
    ALREADY_COMMITTED = "already_committed"


def expect_batch(rows: Rows, batch_id: str) -> Batch:
    """The row of a batch that must be there.

    :raises LeaseLost: if it does not.
    """
    batch = rows.batch(batch_id)
    if batch is None:
        raise LeaseLost(f"Batch {batch_id} has no row any more.")
    return batch


def begin(rows: Rows, owner: Owner, batch_id: str, attempt: int) -> Turn:
    """Whether the work of this attempt may start.

    :raises LeaseLost: if the batch belongs to another owner, or was discarded.
    :raises BatchParked: if it waits for a person.
    :raises SlicesGone: if it was retired since this attempt was opened.
    """
    batch = expect_batch(rows, batch_id)
    live = batch.state in (BatchState.FROZEN, BatchState.COMMITTED)
    if live and batch.owner == str(owner) and attempt > batch.decided:
        require_kept(batch)
        return Turn.RUN
    if batch.state is BatchState.COMMITTED and attempt <= batch.decided:
        return Turn.ALREADY_COMMITTED
    raise lost(batch)


def beat(rows: Rows, owner: Owner, batch_id: str, attempt: int, application: str | None, work: str = "") -> None:
    """Show that the attempt is alive, and keep the id of the application that works for a task.

    :raises LeaseLost: if the batch no longer belongs to this owner, or a newer attempt was opened.
    :raises BatchParked: if it waits for a person.
    """

    def change(batch: Batch) -> Batch:
        require_held(owner, batch)
        if batch.attempt != attempt:
            raise LeaseLost(
                f"Attempt {attempt} of batch {batch_id} is not the latest: {batch.attempt} was opened.",
                remedy="Nothing is lost: the run that has the batch does its work in the newer attempt.",
            )
        return batches.heartbeat(batch, rows.now_ms(), application, work)

    write(rows, batch_id, change)


def end(rows: Rows, batch_id: str, attempt: int) -> None:
    """The work of this attempt has ended, its application with it; the next attempt need not wait."""

    def change(batch: Batch) -> Batch:
        return batch if batch.attempt_closed >= attempt else batches.close_attempt(batch, attempt)

    write(rows, batch_id, change)


def write(rows: Rows, batch_id: str, change: Callable[[Batch], Batch]) -> Batch:
    """Change a batch row by compare-and-set until the write succeeds; returns the row."""
    while True:
        batch = expect_batch(rows, batch_id)
        changed = change(batch)
        if changed is batch or rows.store.replace(batch, changed):
            return changed


def lost(batch: Batch) -> ProtocolError:
    """The error for a batch that its caller may not work on: another owner has it, or it waits for a person."""
    error = _lost(batch)
    error.batch_id, error.owner = batch.batch_id, batch.owner
    return error


def _lost(batch: Batch) -> ProtocolError:
    if batch.state is BatchState.PARKED:
        return BatchParked(f"Batch {batch.batch_id} is parked: {batch.note}.")
    if batch.state is BatchState.VOID:
        return LeaseLost(
            "Batch {} was given up: {}.".format(batch.batch_id, batch.note or "its freeze was considered dead"),
            remedy="Nothing is lost: the next run freezes or reads again what it held. So does this run if you clear "
            "all of it.",
        )
    return LeaseLost(
        "Batch {} is {} and belongs to {}.".format(batch.batch_id, batch.state.value, batch.owner or "no owner")
    )


def open_next(consumer: Consumer, owner: Owner, batch: Batch, ended: Ended = nothing_ended, claim: str = "") -> Batch:
    """Open the next attempt of a frozen or committed batch of this owner, after the attempt before it has ended.

    :param ended: ends what the attempt before has left behind, and says whether that attempt has ended.
    :param claim: the claim after which it is opened, empty if that is unknown.
    :raises AttemptAlive: if the attempt before shows life.
    :raises LeaseLost: if the batch went to another owner meanwhile.
    :raises BatchParked: if it waits for a person.
    :raises SlicesGone: if it was retired.
    """
    current = batch
    while True:
        require_held(owner, current)  # also before anything is ended: it may be the rightful owner's by now
        if not ended(current):
            current = wait_for_end(consumer, current)
            require_held(owner, current)
        require_kept(current)  # as the row stands that is replaced: clean-up may retire it at any time
        opened = batches.open_attempt(current, consumer.now_ms(), claim)
        if consumer.store.replace(current, opened):
            consumer.landing.note_attempt(opened.namespace, opened.batch_id, opened.attempt)
            return opened
        current = expect_batch(consumer, current.batch_id)


def require_held(owner: Owner, batch: Batch) -> None:
    """Check that this owner may work on a batch: the owner has it, and it is frozen or committed.

    :raises LeaseLost: if not.
    :raises BatchParked: if it waits for a person.
    """
    if batch.owner != str(owner) or batch.state not in (BatchState.FROZEN, BatchState.COMMITTED):
        raise lost(batch)


def require_kept(batch: Batch) -> None:
    """Check that a batch was not retired (B17): clean-up removes the files of one that was.

    :raises SlicesGone: if it was.
    """
    if batch.retired_ms is not None:
        raise SlicesGone(
            f"Batch {batch.batch_id} was retired at {utc(batch.retired_ms)}, after archive_for: it is not worked on "
            "again, and its files are removed.",
            remedy="Its output stays as it is. A longer archive_for keeps later batches for longer.",
        )


def require_never_frozen(consumer: Consumer, claim: str) -> None:
    """Check that no batch was frozen after this claim. If its run has no batch, such a batch went to another run, or
    was given up.

    :raises LeaseLost: if one was.
    """
    for batch in consumer.store.list(BATCH, consumer.namespace, consumer.scope):
        if isinstance(batch, Batch) and claim in batch.claims:
            raise lost(batch)


def over(batch: Batch) -> bool:
    """Whether the row alone shows that its latest attempt has ended: it was closed, or has no application of its own.

    A drop opens an attempt, to decide that there is no output (B11), and does not wait. After that, the last attempt
    with an application counts, because its application may still run without a task.
    """
    recorded = batch.spark_application[0]
    if batch.set_aside == DROPPED and batch.decided == batch.attempt:
        return batch.attempt_closed >= recorded
    return batch.attempt_closed >= batch.attempt or recorded != batch.attempt


def wait_for_end(consumer: Consumer, batch: Batch) -> Batch:
    """Wait until the latest attempt is over: it was closed, or showed no sign of life here for ``attempt_grace``.

    :raises AttemptAlive: if it shows life for three times that long.
    :raises LeaseLost: if the batch's row is gone.
    """
    if over(batch):
        return batch
    current, grace = batch, consumer.options.attempt_grace.total_seconds()

    def moved(row: Row | None) -> bool:
        nonlocal current
        current = cast("Batch", row) if row is not None else expect_batch(consumer, batch.batch_id)
        return not over(current)

    watched = {batch.batch_id: Watched(batch, grace)}
    if watch(consumer.store, consumer.clock, watched, moved=moved, limit=3 * grace):
        consumer.say(f"Attempt {current.attempt} of {current.batch_id} shows no life; going on.")
    elif not over(current):
        raise AttemptAlive(f"Attempt {current.attempt} of batch {current.batch_id} is alive as {current.attempt_ref}.")
    return current
