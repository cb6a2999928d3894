# SPDX-License-Identifier: Apache-2.0
"""The lease row and its transitions (PROTOCOL L): every function returns the row after one compare-and-set.

A precondition that does not hold raises :class:`ProtocolError`; callers look first, so that is always a bug.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from shardbatch.core.position import Kind, Position, acceptable, after, lowest
from shardbatch.core.rows import BOOL, INT, SHARD_LEASE, TEXT, TEXT_OR_NONE, TEXTS, Key, Namespace, Row, column
from shardbatch.core.shard import KeyRange, Shard
from shardbatch.core.skipped import left_of
from shardbatch.core.slice import Gap, Slice, gaps_of_text, gaps_to_text
from shardbatch.errors import ProtocolError

#: ``caught_up_ms`` of a shard whose unread records may have expired since an unknown time.
NEVER_MS = 0

PLACE = column("text", Position.parse, str)


@dataclass(frozen=True)
class Lease(Row):
    """Who may work on a shard now, and up to where the application has committed it.

    ``caught_up_ms`` is when a read that was committed, or found nothing, last stood at the shard's tip; before that,
    when the row was added, or 0 (:data:`NEVER_MS`). ``note`` says what a person last did to it, when and why.
    ``begins`` is the lowest position that its reading ever began at; ``None`` on rows of version 1, where it is
    unknown. ``skipped`` is what a person passed over since the last batch; the next slice carries it as its first gaps.
    ``staging`` is the folder in which the pending slice stands, ``None`` if unknown. ``committed_to`` is
    ``INSTANT@CHECKPOINT``: of what is committed, the latest instant that was seen, by the stream's clock. ``tenure`` is
    the counter with which it was last taken: it tells one holding of the lease from every other, of the same owner too.
    """

    table = SHARD_LEASE

    namespace: Namespace
    scope: str
    shard_id: str
    lease_owner: str | None = field(metadata=TEXT_OR_NONE)
    lease_count: int = field(metadata=INT)
    checkpoint: Position = field(metadata=PLACE)
    completed: bool = field(default=False, metadata=BOOL)
    parent_shard_ids: tuple[str, ...] = field(default=(), metadata=TEXTS)
    hash_range: KeyRange | None = field(default=None, metadata=column("text", KeyRange.parse, str))
    batch_id: str | None = field(default=None, metadata=TEXT)
    read_group: str | None = field(default=None, metadata=TEXT)
    pending: Slice | None = field(default=None, metadata=column("text", Slice.loads, Slice.dumps))
    checkpoint_arrival_ms: int | None = field(default=None, metadata=INT)
    millis_behind_latest: int | None = field(default=None, metadata=INT)
    caught_up_ms: int | None = field(default=None, metadata=INT)
    updated_at_ms: int = field(default=0, metadata=INT)
    note: str | None = field(default=None, metadata=TEXT)
    begins: Position | None = field(default=None, metadata=PLACE)
    skipped: tuple[Gap, ...] = field(default=(), metadata=column("text", gaps_of_text, gaps_to_text))
    staging: str | None = field(default=None, metadata=TEXT)
    committed_to: str | None = field(default=None, metadata=TEXT)
    tenure: int = field(default=0, metadata=INT)

    @property
    def key(self) -> Key:
        """The row's key."""
        return Key(SHARD_LEASE, self.namespace, (self.scope, self.shard_id))

    @property
    def landed(self) -> bool:
        """Whether a slice waits on it that no batch holds yet."""
        return self.pending is not None and self.batch_id is None

    @property
    def waits_for_gap(self) -> bool:
        """Whether its pending slice has a gap that was not accepted."""
        return self.pending is not None and any(gap.accepted is None for gap in self.pending.gaps)

    @property
    def left_at_tip(self) -> bool:
        """Whether its last read ended at the tip: then the row says so by a lag of zero, whatever the source tells."""
        return self.millis_behind_latest == 0

    @property
    def committed_up_to_ms(self) -> int | None:
        """The arrival of the last committed record, or a later instant at which a read whose outcome is committed saw
        the shard's tip; ``None`` if unknown (PROTOCOL C1). ``committed_to`` counts only at the checkpoint that it was
        written for: an earlier version moves that and leaves the column."""
        ms, _, place = (self.committed_to or "").partition("@")
        known = [int(ms) if place == str(self.checkpoint) else None, self.checkpoint_arrival_ms]
        return max((instant for instant in known if instant is not None), default=None)

    def _reached(self, checkpoint: Position, *instants: int | None) -> str | None:
        """``committed_to`` at a checkpoint, if these instants were seen, too."""
        known = [ms for ms in (self.committed_up_to_ms, *instants) if ms is not None]
        return f"{max(known)}@{checkpoint}" if known else None

    def _next(self, now_ms: int, **changes: Any) -> Lease:
        return replace(self, lease_count=self.lease_count + 1, updated_at_ms=now_ms, **changes)


def _require(holds: bool, lease: Lease, what: str) -> None:
    if not holds:
        raise ProtocolError(
            f"Lease {lease.namespace}/{lease.shard_id}: {what}.",
            remedy="This is a fault in shardbatch; please report it with the log.",
        )


def add(
    namespace: Namespace,
    scope: str,
    shard: Shard,
    start: Position,
    count: int,
    now_ms: int,
    unseen_ms: int | None = None,
    skipped: tuple[Gap, ...] = (),
) -> Lease:
    """L1: the row of a listed shard that has none. ``count`` must never have been used for this key.

    A shard with parents that are known starts at ``TRIM_HORIZON``; the caller gives the right ``start``, since when its
    records may have come and gone (default: now), and what a person had it pass over.
    """
    return Lease(
        namespace=namespace,
        scope=scope,
        shard_id=shard.shard_id,
        lease_owner=None,
        lease_count=count,
        checkpoint=start,
        parent_shard_ids=shard.parent_shard_ids,
        hash_range=shard.hash_range,
        caught_up_ms=unseen_ms if unseen_ms is not None else now_ms,  # what arrives after it and expires must show
        updated_at_ms=now_ms,
        begins=start,
        skipped=skipped,
    )


def add_imported(
    namespace: Namespace, shard: Shard, place: Position, count: int, now_ms: int, note: str, *, unseen: bool = False
) -> Lease:
    """L1 for a shard that another library has read up to a place; nothing before it is read again.

    At the shard's end there is nothing left to read of it. ``unseen``: what came and went before now must show.
    """
    return replace(
        add(namespace, "", shard, place, count, now_ms),
        completed=place.kind is Kind.SHARD_END,
        caught_up_ms=None if place.exact else NEVER_MS if unseen else now_ms,
        note=note,
    )


def take(lease: Lease, owner: str, group: str | None, now_ms: int) -> Lease:
    """L2: the lease is the owner's; a pending slice stays."""
    _require(lease.batch_id is None and not lease.completed, lease, "only an open, unstamped lease can be taken")
    return lease._next(now_ms, lease_owner=owner, read_group=group, tenure=lease.lease_count + 1)


def renew(lease: Lease, owner: str, now_ms: int) -> Lease:
    """L10: a sign of life while the owner reads: only the counter moves (for claimers of another deployment, E3)."""
    _require(lease.lease_owner == owner and lease.batch_id is None, lease, "only its owner renews an unstamped lease")
    return lease._next(now_ms)


def land(lease: Lease, owner: str, landed: Slice, now_ms: int, staging: str | None = None) -> Lease:
    """L3: the slice that this owner read after the checkpoint, and the folder in which its files stand."""
    _require(lease.lease_owner == owner and lease.batch_id is None, lease, "only its owner lands on it, unstamped")
    _require(lease.pending is None, lease, "a slice is pending already")
    _require(landed.after == lease.checkpoint and landed.shard_id == lease.shard_id, lease, "the slice does not fit")
    delivered = lease.checkpoint
    if landed.last is not None:
        delivered = after(landed.last, landed.until.sub_sequence_number)
    fits = acceptable(lease.checkpoint, landed.until, delivered, ended=landed.ended)
    _require(fits, lease, "the slice ends where it may not")
    return lease._next(now_ms, pending=landed, millis_behind_latest=landed.millis_behind_latest, staging=staging)


def beyond(lease: Lease) -> Lease:
    """The lease as a read sees it that goes on behind the pending slice."""
    pending = lease.pending
    assert pending is not None
    arrived = lease.checkpoint_arrival_ms if pending.last_arrival_ms is None else pending.last_arrival_ms
    return replace(
        lease,
        checkpoint=pending.until,
        pending=None,
        checkpoint_arrival_ms=arrived,
        caught_up_ms=pending.caught_up_ms,
        skipped=(),
    )


def extend(lease: Lease, owner: str, begun: Slice, more: Slice, now_ms: int) -> Lease:
    """L9: what this owner read behind its pending slice, which had been cut short of the interval's end."""
    held = lease.lease_owner == owner and lease.batch_id is None
    _require(held and bool(lease.scope), lease, "only its owner goes on with an interval's slice, unstamped")
    _require(lease.pending == begun and not begun.ended, lease, "it is another slice, or one that has ended")
    _require(more.after == begun.until and more.shard_id == begun.shard_id, lease, "what follows does not fit")
    fresh = replace(lease, pending=None)
    return land(fresh, owner, begun.followed_by(more), now_ms, lease.staging)


def stamp(lease: Lease, owner: str, batch_id: str, now_ms: int) -> Lease:
    """L4: the pending slice belongs to a batch."""
    _require(lease.lease_owner == owner and lease.landed, lease, "only its owner stamps a landed lease")
    return lease._next(now_ms, batch_id=batch_id)


def roll_forward(lease: Lease, batch_id: str, now_ms: int) -> Lease:
    """L5: the batch is committed, so the checkpoint moves to the end of its slice. Anyone may do it."""
    pending = lease.pending
    _require(lease.batch_id == batch_id and pending is not None, lease, "it does not carry this batch")
    assert pending is not None
    _require(pending.after == lease.checkpoint, lease, "its slice does not begin at its checkpoint")
    arrival = pending.last_arrival_ms
    stands = pending.until == lease.checkpoint  # only a gap: what is behind it is as long unseen as before
    return lease._next(
        now_ms,
        checkpoint=pending.until,
        completed=lease.completed or pending.ended,
        pending=None,
        staging=None,
        batch_id=None,
        lease_owner=None,
        read_group=None,
        checkpoint_arrival_ms=lease.checkpoint_arrival_ms if arrival is None else arrival,
        committed_to=lease._reached(pending.until, arrival, pending.tip_ms),
        skipped=tuple(gap for gap in lease.skipped if gap not in pending.gaps),
        caught_up_ms=lease.caught_up_ms if stands and pending.caught_up_ms is None else pending.caught_up_ms,
    )


def unstamp(lease: Lease, batch_id: str, now_ms: int, *, free: bool) -> Lease:
    """L6: the batch is VOID, so its stamp goes and the slice stays; a claimer also frees the lease."""
    _require(lease.batch_id == batch_id, lease, "it does not carry this batch")
    owner = None if free else lease.lease_owner
    return lease._next(now_ms, batch_id=None, lease_owner=owner, read_group=lease.read_group if owner else None)


def release(
    lease: Lease, now_ms: int, caught_up_ms: int | None = None, note: str | None = None, tip_ms: int | None = None
) -> Lease:
    """L7: remove the owner. A pending slice stays for the next one. An empty read leaves when it saw the tip, by the
    worker's clock and, as ``tip_ms``, by the stream's."""
    _require(lease.batch_id is None, lease, "a stamped lease is not released")
    freed = lease._next(now_ms, lease_owner=None, read_group=None, note=note or lease.note)
    if caught_up_ms is None:
        return freed
    seen = lease._reached(lease.checkpoint, tip_ms)
    return replace(freed, caught_up_ms=caught_up_ms, millis_behind_latest=0, committed_to=seen)


def accept_gap(lease: Lease, note: str, now_ms: int) -> Lease:
    """L11: the gaps of its pending slice are accepted by a person: freeze leaves the slice out no longer. Nothing else
    of the slice changes, nor does its owner."""
    _require(lease.landed and lease.waits_for_gap, lease, "no gap waits on it")
    assert lease.pending is not None
    gaps = tuple(gap if gap.accepted else replace(gap, accepted=note) for gap in lease.pending.gaps)
    return lease._next(now_ms, pending=replace(lease.pending, gaps=gaps), note=note)


def seize(lease: Lease, holder: str, void: str | None, now_ms: int) -> Lease:
    """L12: L6 and L2 in one, for a reset: whatever it held, the lease is the reset's; ``void`` is a batch that is void.

    A completed lease too; a pending slice stays until the lease is rewound.
    """
    _require(lease.batch_id in (None, void), lease, "a lease of a batch that may yet commit is not reset")
    return lease._next(now_ms, lease_owner=holder, read_group=None, batch_id=None, tenure=lease.lease_count + 1)


def rewind(
    lease: Lease,
    holder: str,
    target: Position,
    rewound: str,
    note: str,
    now_ms: int,
    *,
    unread_ms: int | None = None,
    passed: Gap | None = None,
) -> Lease:
    """L8: to a position, by the reset that holds it; a pending slice is dropped, and what was seen of it forgotten.

    It stays taken, as ``rewound``, until all of its lineage are rewritten. ``passed`` is what lies between and is never
    read, ``unread_ms`` since when unread records may have come (default: now): if they have expired, that shows when
    the shard is read.
    """
    _require(lease.batch_id is None and lease.lease_owner == holder, lease, "only what the reset holds is reset")
    stays = target.exact and target == lease.checkpoint  # what was seen of it holds: only what was landed is read anew
    unread = now_ms if unread_ms is None else unread_ms
    return lease._next(
        now_ms,
        checkpoint=target,
        begins=None if lease.begins is None else lowest(lease.begins, target),
        completed=False,
        pending=None,
        staging=None,
        lease_owner=rewound,
        read_group=None,
        checkpoint_arrival_ms=lease.checkpoint_arrival_ms if stays else None,
        millis_behind_latest=None,
        committed_to=None,
        caught_up_ms=lease.caught_up_ms if stays else None if target.exact else unread,
        note=note,
        skipped=(*left_of(lease.skipped, target), *([passed] if passed else [])),
    )
