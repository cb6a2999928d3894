# SPDX-License-Identifier: Apache-2.0
"""Commit: one decision for the whole batch, then its markers, then its leases (PROTOCOL B4, B8, D4, I, L5, L7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from shardbatch.core import batch as batches
from shardbatch.core import lease as leases
from shardbatch.core import metrics
from shardbatch.core.application import Application
from shardbatch.core.batch import DUE, Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.owner import Owner
from shardbatch.core.start import Work
from shardbatch.errors import NothingFinished
from shardbatch.run.attempt import expect_batch, lost, require_kept
from shardbatch.run.batch_status import arrived
from shardbatch.run.choice import choose_starts
from shardbatch.run.consumer import Consumer
from shardbatch.run.intervals import how_to_read
from shardbatch.run.measures import measure_commit, measure_lag, measure_state
from shardbatch.run.settle import mark, roll_forward, roots_of

#: Shards whose new checkpoint is named in an answer; the manifest has them all.
NAMED_POSITIONS = 20


@dataclass(frozen=True)
class Committed:
    """The result of a commit: it was ``newly`` decided by this call, or the call recorded a replay (``replayed``).

    The records arrived from ``min_arrival_ms`` to ``max_arrival_ms``, by the service's clock; ``None`` without any.
    """

    batch_id: str | None = None
    manifest_uri: str | None = None
    newly: bool = False
    replayed: bool = False
    attempt: int = 0
    decided: int = 0
    records: int = 0
    bytes: int = 0
    gaps: int = 0
    dropped: int = 0
    shards: int = 0
    completed: int = 0
    lag_ms: int | None = None
    positions: dict[str, str] = field(default_factory=dict)
    note: str | None = None
    min_arrival_ms: int | None = None
    max_arrival_ms: int | None = None

    @property
    def summary(self) -> str:
        """What the run came to, in one line: records, when they arrived, the batch, gaps."""
        if self.batch_id is None:
            return "Nothing new: no shard had records or a gap to tell, so there is no batch and no checkpoint moves."
        when = arrived(self.min_arrival_ms, self.max_arrival_ms)
        parts = [f"{self.records} records" + (f" that arrived {when}" if when else ""), f"{self.gaps} gaps"]
        parts += [f"{self.dropped} dropped"] if self.dropped else []
        what = ", ".join(parts)
        if self.newly:
            moved = f"{self.shards} checkpoints moved, {self.completed} shards completed"
            return f"Committed batch {self.batch_id}: {what}; {moved}."
        if self.replayed:
            return f"Recorded attempt {self.decided} of batch {self.batch_id}: {what}; a replay, no checkpoint moves."
        return f"Batch {self.batch_id} was committed before: {what}; nothing was left to do."


def commit(
    consumer: Consumer, owner: Owner, batch_id: str | None, attempt: int = 0, *, works: Sequence[Work] = ()
) -> Committed:
    """Commit the batch that freeze handed to this run, bound to its attempt.

    :param works: the task instances of the block that succeeded; what others left does not count.
    :raises LeaseLost: if the batch belongs to another owner, or was discarded; nothing was changed.
    :raises BatchParked: if it waits for a person.
    :raises NothingFinished: if no start counts, or it is unknown which; nothing was changed.
    :raises StagingError: if a root that needs a marker cannot be reached; nothing was changed.
    :raises OutputTaken: if such a root belongs to another application; nothing was changed.
    :raises UnsupportedSchema: if the application's rows are not of this version.
    :raises ApplicationRemoved: if a person removed the application.
    """
    me = str(owner)
    application = consumer.require_version()
    if batch_id is None:
        _measure_after(consumer, application, _release(consumer, me))
        nothing = Committed()
        consumer.say(nothing.summary)
        return nothing
    batch, newly, replayed = _decide(consumer, me, batch_id, attempt, works)
    if newly:
        measure_commit(consumer, batch)  # before what may fail: the next try finds the batch decided
    mark(consumer.landing, batch)
    moved = roll_forward(consumer, batch, consumer.leases(batch_id=batch_id))
    rows = _release(consumer, me)
    answer = _answer(batch, moved, newly=newly, replayed=replayed, attempt=attempt)
    if newly or moved:
        measure_lag(consumer, answer.lag_ms)
        _measure_after(consumer, application, rows)
    consumer.say(answer.summary)
    _say_how_to_read(consumer, batch)
    for root in roots_of(consumer.landing, batch):
        consumer.landing.outputs.sum_if_due(root)
    return answer


def _decide(
    consumer: Consumer, me: str, batch_id: str, attempt: int, works: Sequence[Work]
) -> tuple[Batch, bool, bool]:
    """The batch as decided, whether by this call, and whether this call recorded a replay."""
    while True:
        batch = expect_batch(consumer, batch_id)
        if batch.state is BatchState.FROZEN and batch.owner == me:
            chosen = choose_starts(consumer, batch, attempt, works)
            changed = batches.decide(
                batch, chosen.starts, attempt, consumer.now_ms(), chosen.note, roots=chosen.roots, number=chosen.number
            )
            if consumer.store.replace(batch, changed):
                return changed, True, False
            consumer.measure(metrics.LOST_RACES, 1)
        elif batch.state is BatchState.COMMITTED:
            if attempt <= batch.decided:
                _refuse_set_aside(batch, attempt)
                return batch, False, False
            if batch.owner != me:
                raise lost(batch)
            require_kept(batch)
            chosen = choose_starts(consumer, batch, attempt, works)
            if chosen.same:
                return batch, False, False
            changed = batches.redecide(
                batch, chosen.starts, attempt, chosen.note, roots=chosen.roots, number=chosen.number
            )
            if consumer.store.replace(batch, changed):
                return changed, False, True
            consumer.measure(metrics.LOST_RACES, 1)
        else:
            raise lost(batch)


def _refuse_set_aside(batch: Batch, attempt: int) -> None:
    if batch.records and batch.set_aside is not None:
        raise NothingFinished(
            f"Batch {batch.batch_id} was set aside; attempt {attempt} is not recorded.",
            remedy="Clear the work of its run: an attempt that is opened later gives it output.",
        )


def _release(consumer: Consumer, me: str) -> list[Lease]:
    """L7: free the unstamped leases that this owner holds; this is only tidiness. Side leases are deleted (L13).

    Returns the rows as they were before."""
    rows = consumer.leases()
    free = [lease for lease in rows if lease.batch_id is None]
    if consumer.interval is not None:
        for lease in free:
            consumer.store.delete(lease)
        return rows
    held = [lease for lease in free if lease.lease_owner == me]
    consumer.store.replace_many([(lease, leases.release(lease, consumer.now_ms())) for lease in held])
    return rows


def _measure_after(consumer: Consumer, application: Application | None, rows: list[Lease]) -> None:
    """Measure where the application stands now. Batches that are left are others', whose rows are not read for that."""
    left = any(lease.batch_id is not None for lease in rows)
    measure_state(consumer, application, rows, None if left else {})


def _answer(batch: Batch, moved: list[Lease], *, newly: bool, replayed: bool, attempt: int) -> Committed:
    lags = [lease.millis_behind_latest for lease in moved if lease.millis_behind_latest is not None]
    named = sorted(moved, key=lambda lease: lease.shard_id)[:NAMED_POSITIONS]
    return Committed(
        batch_id=batch.batch_id,
        manifest_uri=batch.manifest_uri,
        newly=newly,
        replayed=replayed,
        attempt=attempt,
        decided=batch.decided,
        records=batch.records,
        bytes=batch.bytes,
        gaps=batch.gaps,
        dropped=batch.dropped,
        shards=len(moved),
        completed=sum(lease.completed for lease in moved),
        lag_ms=max(lags) if lags else None,
        positions={lease.shard_id: str(lease.checkpoint) for lease in named},
        note=batch.note,
        min_arrival_ms=batch.min_arrival_ms,
        max_arrival_ms=batch.max_arrival_ms,
    )


def send_event(consumer: Consumer, owner: Owner, batch_id: str, clearing: str, is_out: Callable[[int], bool]) -> bool:
    """B12: whether the success of this try of a commit sends the event of a committed batch.

    It does if no commit has reached the point of sending it, or if a try of this clearing has: that try did not
    succeed, or there would be no later one. For a try of another clearing, ``is_out`` decides, by the time at which the
    try reached that point. Only the batch's owner sends the event, so Airflow takes the success of only one of the
    tries that see it unsent.

    :raises LeaseLost: if the batch has no row any more.
    """
    while True:
        batch = expect_batch(consumer, batch_id)
        if batch.state is not BatchState.COMMITTED:
            continue  # it is, so that answer was an old one
        if batch.owner != str(owner) or batch.event is None:
            return False
        if batch.event not in (DUE, clearing) and is_out(batch.event_ms or 0):
            return False
        if consumer.store.replace(batch, batches.send_event(batch, clearing, consumer.now_ms())):
            return True


def _say_how_to_read(consumer: Consumer, batch: Batch) -> None:
    """Log the call that reads an interval's output, because live readers do not see it."""
    if batch.interval is None or batch.joins or not batch.records:
        return
    for root in roots_of(consumer.landing, batch):
        consumer.say(f"Readers see this interval by {how_to_read(root, batch)}.")
