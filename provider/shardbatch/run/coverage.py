# SPDX-License-Identifier: Apache-2.0
"""Says which part of an interval cannot be had, of which shards, why, and from when on all of it can (PROTOCOL H13)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from shardbatch.core.archive_plan import BEFORE, NO_BATCH, FromStream, Hole
from shardbatch.core.batch import DROPPED, Batch, BatchState
from shardbatch.core.interval import CLOCKS_APART_MS, MARGIN_MS
from shardbatch.core.lease import Lease
from shardbatch.core.policies import GapPolicy
from shardbatch.core.position import Position
from shardbatch.core.shortlist import shortlist
from shardbatch.errors import GapFound
from shardbatch.run.archive import Archive
from shardbatch.run.batch_status import utc
from shardbatch.run.consumer import Consumer

#: How many shards an error tells of.
MOST_TOLD = 10
#: How many batches it names of each.
MOST_BATCHES = 3
REMEDY = (
    'Begin later, or accept what is left with policies=Policies(gap="record"): then the batch records each gap. For '
    "later intervals keep slices longer ('archive_for' of clean-up), or raise the stream's retention."
)


@dataclass(frozen=True)
class Lacking:
    """A part of an interval that cannot be had, of one shard; of any, if it is not known of which."""

    shard_id: str
    hole: Hole


def require_covered(consumer: Consumer, archive: Archive, shard_ids: Iterable[str], start: Position) -> None:
    """Check before anything is taken that the archive and the stream together have all of an interval, as far as rows
    and manifests tell. Under ``gap=record`` what is lacking is only said.

    :param start: where the reading of each of these shards begins.
    :raises GapFound: if a part of it cannot be had.
    """
    found = [part for shard_id in shard_ids for part in _of_shard(archive, shard_id, start)]
    found += _retired(archive)
    if not found:
        return
    message = _told(archive, found)
    if consumer.policies.gap == GapPolicy.FAIL:
        raise GapFound(message, remedy=REMEDY)
    consumer.warn(message)


def lacks(archive: Archive, shard_id: str, hole: Hole) -> GapFound:
    """The error of a read that comes to a hole."""
    return GapFound(_told(archive, [Lacking(shard_id, hole)]), remedy=REMEDY)


def explained(archive: Archive, shard_id: str, hole: Hole) -> Hole:
    """A hole with the reason that rows tell, where slices tell none."""
    reason = _culprit(archive, shard_id, hole) if hole.reason in (BEFORE, NO_BATCH) else None
    return hole if reason is None else replace(hole, reason=reason)


def _of_shard(archive: Archive, shard_id: str, start: Position) -> list[Lacking]:
    found: list[Lacking] = []
    for step in archive.plan(shard_id, start).steps:
        if isinstance(step, Hole):
            found.append(Lacking(shard_id, explained(archive, shard_id, step)))
        elif isinstance(step, FromStream) and step.doubt is not None:
            hole = explained(archive, shard_id, step.doubt)
            if step.lo is None or hole != step.doubt:  # else the shard may be idle: what the stream answers will tell
                found.append(Lacking(shard_id, hole))
    return found


def _culprit(archive: Archive, shard_id: str, hole: Hole) -> str | None:
    """Who has, or had, records of a hole that the stream may not have any more."""
    return _holders(archive, shard_id, hole, 0) or _holders(archive, shard_id, hole, MARGIN_MS)


def _holders(archive: Archive, shard_id: str, hole: Hole, margin_ms: int) -> str | None:
    lease = archive.leases.get(shard_id)
    arrived = (
        (None, None)
        if lease is None or lease.pending is None
        else (lease.pending.min_arrival_ms, lease.pending.max_arrival_ms)
    )
    if lease is not None and _meets(archive, hole, *arrived, margin_ms):
        return f"only in {_holder(archive, lease)}"
    found = [
        f"batch {batch.batch_id} {why}"
        for batch in archive.batches
        if (why := _unusable(archive, batch)) and batch.records
        if _meets(archive, hole, batch.min_arrival_ms, batch.max_arrival_ms, margin_ms)
    ]
    return shortlist(found, most=MOST_BATCHES) or None


def _holder(archive: Archive, lease: Lease) -> str:
    state = {batch.batch_id: batch.state for batch in archive.batches}.get(lease.batch_id or "")
    if state in (BatchState.FROZEN, BatchState.PARKED):
        return f"batch {lease.batch_id}, which is {state.value.lower()}; commit it first"
    return "a slice that no batch has committed yet; let a run commit it first"


def _unusable(archive: Archive, batch: Batch) -> str | None:
    """Why the slices of a committed batch cannot be copied, if so."""
    if batch.state is not BatchState.COMMITTED:
        return None
    if batch.retired_ms is not None:
        return f"was retired on {utc(batch.retired_ms)[:10]}, when its archive_for was over"
    if batch.set_aside == DROPPED:
        return "was dropped"
    if not archive.is_here(batch):
        return f"stands in another staging folder, {batch.manifest_uri}"
    return None


def _meets(archive: Archive, hole: Hole, least_ms: int | None, greatest_ms: int | None, margin_ms: int) -> bool:
    """Whether records that arrived in this time may be those of a hole, and are surely not all in the stream."""
    if least_ms is None or greatest_ms is None:
        return False
    begins_ms, ends_ms = _clipped(archive, hole)
    bound = archive.kept.gone_before(archive.now_ms) or 0
    return greatest_ms > begins_ms - margin_ms and least_ms < min(ends_ms, bound) + margin_ms


def _clipped(archive: Archive, hole: Hole) -> tuple[int, int]:
    interval = archive.interval
    begins_ms = interval.from_ms if hole.from_ms is None else max(hole.from_ms, interval.from_ms)
    return begins_ms, interval.to_ms if hole.to_ms is None else min(hole.to_ms, interval.to_ms)


def _retired(archive: Archive) -> list[Lacking]:
    """Batches that had records of the interval and are no longer kept. Their shards are unknown: those that have
    left the stream may have no row."""
    interval = archive.interval
    bound = archive.kept.gone_before(archive.now_ms) or 0
    found: list[Lacking] = []
    for batch in archive.batches:
        least, greatest = batch.min_arrival_ms, batch.max_arrival_ms
        if batch.retired_ms is None or not batch.records:
            continue
        if least is None or greatest is None:  # frozen by a version, or read from a server, that told no times
            met = batch.created_at_ms + CLOCKS_APART_MS >= interval.from_ms
        else:
            met = greatest >= interval.from_ms and least < min(interval.to_ms, bound)
        if met:
            reason = f"batch {batch.batch_id} {_unusable(archive, batch)}"
            found.append(Lacking("", Hole(least, greatest, reason)))
    return found


def _told(archive: Archive, found: Sequence[Lacking]) -> str:
    interval, bound = archive.interval, archive.kept.gone_before(archive.now_ms) or 0
    lines: dict[str, None] = {}
    ends: list[int] = []
    for part in found:
        begins_ms, ends_ms = _clipped(archive, part.hole)
        ends.append(ends_ms)
        where = f"shard {part.shard_id}" if part.shard_id else "any shard"
        lines[f"{where}, what arrived from {utc(begins_ms)} to {utc(ends_ms)}: {part.hole.reason}"] = None
    later = max(ends)
    rest = (
        f" What arrived from {utc(later)} on can be had."
        if later < interval.to_ms
        else f" The stream has all that arrived from {utc(bound)} on."
    )
    return (
        f"The interval from {utc(interval.from_ms)} to {utc(interval.to_ms)} cannot be had whole. The stream may have "
        f"lost what arrived before {utc(bound)}, and no batch in the archive has: "
        f"{shortlist(list(lines), most=MOST_TOLD, between='; ')}.{rest}"
    )
