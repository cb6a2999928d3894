# SPDX-License-Identifier: Apache-2.0
"""Replay: the work of a committed batch runs again in a run that was told to do so (PROTOCOL B10)."""

from __future__ import annotations

from typing import cast

from shardbatch.core import batch as batches
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.looks import Looks
from shardbatch.core.owner import Owner
from shardbatch.core.ports import LeaseStore, Verdict
from shardbatch.core.rows import BATCH, Key, Namespace
from shardbatch.errors import ConfigurationError, ReplayRefused, SlicesGone
from shardbatch.run.attempt import Ended, expect_batch, lost, open_next, require_kept, wait_for_end
from shardbatch.run.consumer import Consumer
from shardbatch.run.staging_place import require_batch_here
from shardbatch.run.watch import abandoned

#: What helps where a batch is not committed.
REMEDIES = {
    BatchState.FROZEN: "The next run finishes it; or fix its work and clear it in the run that has the batch.",
    BatchState.PARKED: "Resume it with 'airflow shardbatch unpark --batch {0}', or let its shards go on without output "
    "with 'airflow shardbatch set-aside --batch {0}'; after that it can be replayed.",
    BatchState.VOID: "It was given up: what it held was read again, or is in later batches; replay those.",
}


def find_committed(store: LeaseStore, namespace: Namespace, batch_id: str) -> Batch:
    """The row of a live batch that can be replayed.

    :raises ConfigurationError: if there is no such batch.
    :raises ReplayRefused: naming its state and what helps, if it is not committed.
    """
    batch = cast("Batch | None", store.get(Key(BATCH, namespace, ("", batch_id))))
    if batch is None:
        raise ConfigurationError(
            f"There is no batch {batch_id!r} in {namespace}.",
            remedy="'airflow shardbatch batches' lists them; the batch of an interval run is replayed by clearing it.",
        )
    require_committed(batch)
    return batch


def require_committed(batch: Batch) -> None:
    """Check that a batch is committed.

    :raises ReplayRefused: if it is not.
    """
    if batch.state is not BatchState.COMMITTED:
        raise ReplayRefused(
            f"Batch {batch.batch_id} is {batch.state.value} and not committed, so there is nothing to replay.",
            remedy=REMEDIES[batch.state].format(batch.batch_id),
        )


def look(consumer: Consumer, owner: Owner, batch_id: str) -> Batch:
    """The batch that this run was told to replay, if it may. This changes nothing and does not call the stream.

    :raises ReplayRefused: if it is not committed, or its owner is at work.
    :raises SlicesGone: if files of it are no longer in staging.
    """
    batch = find_committed(consumer.store, consumer.namespace, batch_id)
    if batch.owner != str(owner) and _verdict(consumer, batch) is Verdict.ACTIVE:
        raise _at_work(batch)
    require_files(consumer, batch)
    consumer.say(f"Replaying batch {batch_id}: {batch.records} records, committed by {batch.owner or 'no owner'}.")
    return batch


def require_files(consumer: Consumer, batch: Batch) -> None:
    """Check that the manifest and all files of a committed batch are in staging.

    :raises StagingMoved: if it was frozen in another staging folder.
    :raises SlicesGone: naming the first file that is missing, or if it was retired.
    """
    require_kept(batch)
    require_batch_here(consumer, batch)
    gone = consumer.landing.missing_files(batch.namespace, batch.batch_id)
    if gone:
        raise SlicesGone(
            f"Batch {batch.batch_id} cannot be replayed: {len(gone)} of its files are not in {consumer.landing.uri} "
            f"any more, the first is {gone[0]}."
        )


def open_replay(
    consumer: Consumer, owner: Owner, batch: Batch, ended: Ended, claim: str = "", looks: Looks | None = None
) -> Batch:
    """B10: open a replay attempt of a committed batch. This run becomes its owner.

    :param claim: the run's claim. If the run already had the batch after this claim and another run has it since, the
        batch stays with the other run.
    :raises ReplayRefused: if its owner is at work.
    :raises LeaseLost: if this run had it, and another has it now.
    :raises SlicesGone: if it was retired.
    """
    me, current = str(owner), batch
    while True:
        require_committed(current)
        require_kept(current)
        if current.owner == me:
            return open_next(consumer, owner, current, ended, claim)
        if claim in current.claims:
            raise lost(current)
        _require_over(consumer, current, looks)
        found = current if ended(current) else wait_for_end(consumer, current)
        if found.row_count == current.row_count:
            opened = batches.open_replay(current, me, consumer.now_ms(), claim)
            if consumer.store.replace(current, opened):
                consumer.landing.note_attempt(opened.namespace, opened.batch_id, opened.attempt)
                return opened
            found = expect_batch(consumer, current.batch_id)
        if found.owner not in (current.owner, me):
            raise _at_work(found)
        current = found


def _verdict(consumer: Consumer, batch: Batch) -> Verdict:
    return consumer.liveness(batch.owner) if batch.owner else Verdict.OVER


def _require_over(consumer: Consumer, batch: Batch, looks: Looks | None) -> None:
    """Check that the owner of a batch has finished (E2, E3).

    An owner of another deployment must show no life for ``lease_duration``, the longer one of both deployments.
    """
    verdict = _verdict(consumer, batch)
    if verdict is Verdict.ACTIVE:
        raise _at_work(batch)
    if verdict is Verdict.OVER:
        return
    consumer.say(f"This Airflow knows nothing of {batch.owner}.")
    if not abandoned(consumer, [batch], consumer.application(), all_of_them=True, looks=looks):
        raise _at_work(batch)


def _at_work(batch: Batch) -> ReplayRefused:
    return ReplayRefused(f"Batch {batch.batch_id} belongs to {batch.owner}, which is not over.")
