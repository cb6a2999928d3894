# SPDX-License-Identifier: Apache-2.0
"""Freeze: combines the landed slices of this owner into one batch, and opens an attempt of it (PROTOCOL D1, D2).

The order of writes is stamp, manifest, row. Whenever a freeze dies, a later freeze can resolve what it left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shardbatch.core import lease as leases
from shardbatch.core import metrics
from shardbatch.core.archive import DRAWN_FOR
from shardbatch.core.batch import LONGEST_NOTE, Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.looks import Looks
from shardbatch.core.manifest import Manifest, ShardSlice, digest, totals_of
from shardbatch.core.owner import Owner
from shardbatch.core.planner import complete_lineage
from shardbatch.core.policies import GapPolicy
from shardbatch.core.shard import generations
from shardbatch.core.shortlist import shortened, shortlist
from shardbatch.core.waiting import NO_WAITING
from shardbatch.errors import GapFound, LeaseLost, ManifestChanged, SourceError
from shardbatch.run.attempt import (
    Ended,
    expect_batch,
    nothing_ended,
    open_next,
    require_held,
    require_never_frozen,
)
from shardbatch.run.consumer import Consumer, first_count, new_batch_id
from shardbatch.run.intervals import require_latest
from shardbatch.run.replay import find_committed, open_replay, require_files
from shardbatch.run.settle import Stamped, read_batches, settle
from shardbatch.run.staging_place import require_batch_here, require_slices_here

#: Freezes that lose a stamp start again; each loss is another attempt's progress, so this is never reached in peace.
MOST_ROUNDS = 50

#: Rows that are read one by one; more are found in one list of all.
MOST_SINGLE_READS = 25


@dataclass(frozen=True)
class Frozen:
    """The batch that the block works on; ``batch_id`` is ``None`` if there is nothing, not even an ended shard.

    ``replay`` says that the batch is already committed. ``waiting`` names shards whose slice waits for an accepted gap.
    """

    batch_id: str | None = None
    attempt: int = 0
    manifest_uri: str | None = None
    manifest_digest: str | None = None
    record_count: int = 0
    bytes: int = 0
    shards: int = 0
    gaps: int = 0
    replay: bool = False
    waiting: tuple[str, ...] = ()


def freeze(
    consumer: Consumer,
    owner: Owner,
    handed: str | None = None,
    ended: Ended = nothing_ended,
    *,
    claim: str = "",
    first: bool = False,
    may_replay: Callable[[Batch], None] = lambda batch: None,
    looks: Looks | None = None,
) -> Frozen:
    """Freeze this owner's slices, or open the next attempt of its batch, or take over the batch that it has to replay.

    :param handed: the batch that this run's claim found, if it found one.
    :param ended: ends what its last attempt left behind, so that this freeze need not wait.
    :param claim: names the claim before this freeze, empty if unknown. It is kept on the row, so that a freeze that
        runs again can distinguish a batch that went to another owner from an empty run.
    :param first: no freeze ran after this claim before, so the rows need not be searched for one.
    :param may_replay: is called before a committed batch is opened again, and raises if no commit would follow.
    :param looks: what earlier passes saw, for a caller that can come back.
    :raises LeaseLost: if the handed batch, or the batch that was frozen after this claim, went to another owner.
    :raises LookAgain: if it has to watch whether the owner of the batch to replay lives, and its caller can come back.
    :raises ReplayRefused: if the owner of the batch to replay is at work, or a later run read its interval again.
    :raises SlicesGone: if files of a batch to replay are no longer in staging.
    :raises StagingMoved: if the slices, or the batch, are in another staging folder than this run's.
    :raises BatchParked: if it waits for a person.
    :raises AttemptAlive: if an older attempt still shows life.
    :raises UnsupportedSchema: if the application's rows are not of this version.
    :raises ApplicationRemoved: if a person removed the application.
    """
    me = str(owner)
    for _ in range(MOST_ROUNDS):
        consumer.require_version()  # in each: an application that was removed meanwhile has nothing to freeze
        if consumer.replay is not None:
            told = find_committed(consumer.store, consumer.namespace, consumer.replay)
            may_replay(told)
            shards = _require_content(consumer, told)
            return _opened(consumer, open_replay(consumer, owner, told, ended, claim, looks), shards)
        if handed is not None:
            return _reopen(consumer, owner, expect_batch(consumer, handed), ended, claim, may_replay)
        held = consumer.leases(lease_owner=me)
        stamped = read_batches(consumer, held)
        own = _own_batch(consumer, me, stamped)
        if own is not None:
            return _reopen(consumer, owner, own, ended, claim, may_replay)
        collected, waiting = _collect(consumer, me, held, stamped)
        if consumer.interval is not None:
            _require_whole(consumer, collected)
        if not collected:
            if claim and not first:
                require_never_frozen(consumer, claim)
            consumer.say("Nothing to freeze.")
            return Frozen(waiting=waiting)
        batch = _create(consumer, me, collected, claim)
        if batch is not None:
            return _frozen(batch, waiting, shards=len(collected))
    raise LeaseLost(f"The leases of {owner.run_id} were being changed by others all the while.")


def _own_batch(consumer: Consumer, me: str, stamped: Stamped) -> Batch | None:
    """D2b: this owner's frozen batch, found through its leases or by its owner; else its last committed batch."""
    through_leases = [batch for batch in stamped.values() if batch is not None and batch.owner == me]
    own = sorted(through_leases + consumer.batches_of(me), key=lambda batch: batch.batch_id)
    for state in (BatchState.FROZEN, BatchState.PARKED, BatchState.COMMITTED):
        found = [batch for batch in own if batch.state is state]
        if found:
            return found[-1]
    return None


def _reopen(
    consumer: Consumer, owner: Owner, batch: Batch, ended: Ended, claim: str, may_replay: Callable[[Batch], None]
) -> Frozen:
    require_held(owner, batch)
    if batch.state is BatchState.COMMITTED:
        require_latest(consumer, batch)
        may_replay(batch)
    shards = _require_content(consumer, batch)
    return _opened(consumer, open_next(consumer, owner, batch, ended, claim), shards)


def _require_content(consumer: Consumer, batch: Batch) -> int:
    """Check that staging has the manifest that was frozen, and for a replay all files; returns the batch's shards."""
    require_batch_here(consumer, batch)
    if batch.state is BatchState.COMMITTED:
        require_files(consumer, batch)
    content = consumer.landing.read_manifest(batch.namespace, batch.batch_id)
    if digest(content) != batch.manifest_digest:
        raise ManifestChanged(f"The manifest {batch.manifest_uri} is not the one that was frozen.")
    return len(Manifest.loads(content).slices)


def _opened(consumer: Consumer, batch: Batch, shards: int) -> Frozen:
    kind = "replay" if batch.state is BatchState.COMMITTED else "attempt"
    consumer.say(f"Opened {kind} {batch.attempt} of batch {batch.batch_id}.")
    return _frozen(batch, (), shards=shards)


def _collect(consumer: Consumer, me: str, held: list[Lease], stamped: Stamped) -> tuple[list[Lease], tuple[str, ...]]:
    """D2c, D2d: the landed leases of this owner that can be frozen together, after its stamps are resolved; and the
    shards that wait."""
    settled = settle(consumer, held, stamped, me, lambda lease: True)
    found = [lease for lease in settled if lease.lease_owner == me and lease.landed]
    require_slices_here(consumer, found)
    left_out = _gapped(consumer, found)
    parents = {parent for lease in found for parent in lease.parent_shard_ids}
    rows = {lease.shard_id: lease for lease in found}
    rows.update((row.shard_id, row) for row in _rows_of(consumer, parents - set(rows)))
    chosen = complete_lineage(found, rows, left_out)
    return chosen, tuple(sorted(left_out))


def _rows_of(consumer: Consumer, shard_ids: set[str]) -> list[Lease]:
    """The lease rows of these shards, as far as they exist."""
    if len(shard_ids) > MOST_SINGLE_READS:
        return [row for row in consumer.leases() if row.shard_id in shard_ids]
    return [row for shard_id in sorted(shard_ids) if (row := consumer.lease(shard_id)) is not None]


def _require_whole(consumer: Consumer, collected: list[Lease]) -> None:
    """An interval has one batch, after which its side leases are deleted: no shard may wait for a later batch (T3)."""
    chosen = {lease.shard_id for lease in collected}
    rest = [lease for lease in consumer.leases() if lease.shard_id not in chosen and not lease.completed]
    gaps = [lease.pending.gaps[0].reason for lease in rest if lease.pending is not None and lease.pending.gaps]
    if gaps:
        raise GapFound(
            f"In {len(gaps)} shards of the interval {gaps[0]}.",
            remedy='Accept what is left with policies=Policies(gap="record") and clear the run.',
        )
    cut = [lease for lease in collected if lease.pending is not None and not lease.pending.ended]
    if rest or cut:  # a person may have marked a read that failed as a success
        raise _unread([*rest, *cut])


def _unread(rest: list[Lease]) -> SourceError:
    """The error that names shards of an interval without a slice."""
    named = shortlist([lease.shard_id for lease in rest])
    return SourceError(
        f"{len(rest)} shards of the interval were not read, or not to its end: {named}.",
        remedy="Clear the read tasks of this run; shards that were read are not read anew.",
        retryable=False,
    )


def _gapped(consumer: Consumer, found: list[Lease]) -> set[str]:
    """Shards whose slice has a gap that was not accepted, under ``gap=fail``."""
    if consumer.policies.gap is GapPolicy.RECORD:
        return set()
    return {lease.shard_id for lease in found if lease.waits_for_gap}


def _create(consumer: Consumer, me: str, collected: list[Lease], claim: str) -> Batch | None:
    """D2f to D2h: stamp every lease, write the manifest, create the row; ``None`` if any stamp or the row was lost."""
    now = consumer.now_ms()
    batch_id = new_batch_id(now)
    stamps = consumer.store.replace_many([(lease, leases.stamp(lease, me, batch_id, now)) for lease in collected])
    if not all(stamps):
        consumer.measure(metrics.LOST_RACES, stamps.count(False))
        consumer.say(f"Lease {collected[stamps.index(False)].shard_id} moved while it was stamped; freezing again.")
        return None
    manifest = _manifest(consumer, me, batch_id, collected, now)
    slices = [entry.slice for entry in manifest.slices]
    waiting = sum((entry.waiting for entry in slices), NO_WAITING)
    content = manifest.dumps()
    uri = consumer.landing.write_manifest(consumer.namespace, batch_id, content)
    consumer.landing.note_attempt(consumer.namespace, batch_id, 1)
    batch = Batch(
        namespace=consumer.namespace,
        scope=consumer.scope,
        batch_id=batch_id,
        owner=me,
        row_count=first_count(),
        state=BatchState.FROZEN,
        attempt=1,
        attempt_seen_ms=now,
        sink=str(consumer.policies.sink),
        manifest_uri=uri,
        manifest_digest=digest(content),
        records=manifest.totals.records,
        bytes=manifest.totals.bytes,
        gaps=manifest.totals.gaps,
        dropped=manifest.totals.oddities.dropped,
        created_at_ms=now,
        note=_accepted(collected),
        min_arrival_ms=min((s.min_arrival_ms for s in slices if s.min_arrival_ms is not None), default=None),
        max_arrival_ms=max((s.max_arrival_ms for s in slices if s.max_arrival_ms is not None), default=None),
        shared=consumer.outputs.shared,
        joins=consumer.outputs.joins and consumer.interval is not None,
        from_ms=consumer.interval.from_ms if consumer.interval else None,
        to_ms=consumer.interval.to_ms if consumer.interval else None,
        waited_ms=waiting.ms,
        refused=waiting.refused,
        resubscribed=waiting.resubscribed,
        claims=(claim,) if claim else (),
    )
    if consumer.now_ms() - now > DRAWN_FOR.total_seconds() * 1000:
        consumer.say(f"Batch {batch_id} took longer than {DRAWN_FOR} to freeze; freezing again.")
        return None
    if not consumer.store.create(batch):
        consumer.measure(metrics.LOST_RACES, 1)
        consumer.say(f"Batch {batch_id} was given up by another; freezing again.")
        return None
    consumer.say(f"Froze batch {batch_id}: {manifest.totals.records} records of {len(collected)} shards.")
    return batch


def _accepted(collected: list[Lease]) -> str | None:
    """The reasons that people gave when they accepted the gaps of this batch."""
    gaps = [(lease.shard_id, gap) for lease in collected if lease.pending for gap in lease.pending.gaps]
    said = [f"gap of {shard_id}: {gap.accepted}" for shard_id, gap in gaps if gap.accepted]
    return shortened("; ".join(said), LONGEST_NOTE) or None


def _manifest(consumer: Consumer, me: str, batch_id: str, collected: list[Lease], now_ms: int) -> Manifest:
    depth = generations({lease.shard_id: lease.parent_shard_ids for lease in collected})
    ordered = sorted(collected, key=lambda lease: (depth[lease.shard_id], lease.shard_id))
    slices = tuple(ShardSlice(lease.pending, depth[lease.shard_id]) for lease in ordered if lease.pending is not None)
    return Manifest(
        batch_id=batch_id,
        app_name=consumer.namespace.app_name,
        stream_name=consumer.namespace.stream_name,
        stream_id=_stream_id(consumer),
        scope=consumer.scope,
        owner=me,
        created_at_ms=now_ms,
        sink=str(consumer.policies.sink),
        staging=consumer.landing.uri,
        slices=slices,
        totals=totals_of(slices),
        interval=(consumer.interval.from_ms, consumer.interval.to_ms) if consumer.interval else None,
        outputs=consumer.outputs,
    )


def _stream_id(consumer: Consumer) -> str:
    """The stream that the checkpoints belong to, which is the one that claim found; an interval may have no such row.

    This needs no call to the stream, so most freezes open no connection to it.
    """
    row = consumer.application()
    return row.stream_id if row is not None else consumer.source.identity()


def _frozen(batch: Batch, waiting: tuple[str, ...], shards: int = 0) -> Frozen:
    return Frozen(
        batch_id=batch.batch_id,
        attempt=batch.attempt,
        manifest_uri=batch.manifest_uri,
        manifest_digest=batch.manifest_digest,
        record_count=batch.records,
        bytes=batch.bytes,
        shards=shards,
        gaps=batch.gaps,
        replay=batch.state is BatchState.COMMITTED,
        waiting=waiting,
    )
