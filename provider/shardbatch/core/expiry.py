# SPDX-License-Identifier: Apache-2.0
"""When unread records of a shard may begin to expire, or may have expired, as far as the rows tell.

What judges is the time from which on the stream still has all records (:class:`Kept`), and the last look at the shard.
Both are asked in one place each, here: :meth:`Kept.gone_before`, and :func:`looked`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Callable

from shardbatch.core.application import Application
from shardbatch.core.interval import CLOCKS_APART_MS
from shardbatch.core.lease import Lease
from shardbatch.core.shard import Shard


@dataclass(frozen=True)
class Kept:
    """What a stream still has for sure.

    ``retention_ms`` is the shortest time that it may keep a record now, ``None`` if unknown. What arrived before
    ``gone_before_ms`` may be gone whatever the retention is: raising it brings no record back.
    """

    retention_ms: int | None
    gone_before_ms: int = 0

    def gone_before(self, now_ms: int) -> int | None:
        """The instant before which records that arrived may be gone; ``None`` if unknown."""
        return None if self.retention_ms is None else max(self.gone_before_ms, now_ms - self.retention_ms)

    def all_since(self, since_ms: int, now_ms: int) -> bool:
        """Whether all records that arrived since an instant are still there, although clocks differ."""
        bound = self.gone_before(now_ms)
        return bound is not None and since_ms - CLOCKS_APART_MS > bound

    def expires_ms(self, since_ms: int) -> int | None:
        """When records that arrived at an instant or later may begin to expire; that instant itself if they may be gone
        already, ``None`` if unknown."""
        if since_ms < self.gone_before_ms:
            return since_ms
        return None if self.retention_ms is None else since_ms + self.retention_ms


def kept_by(application: Application | None) -> Kept:
    """What the stream of an application still has, as of its last claim; nothing is known of one that never claimed."""
    if application is None:
        return Kept(None)
    return Kept(application.retention_ms, application.gone_before_ms or 0)


def kept_today(application: Application | None, retention_ms: int | None) -> Kept:
    """The same where the stream was asked just now. It may have been changed at any time since the last claim, so the
    shorter of both times counts; the next claim writes down what that leaves."""
    known = kept_by(application)
    if retention_ms is None or known.retention_ms is None:
        return Kept(retention_ms, known.gone_before_ms)
    return Kept(min(retention_ms, known.retention_ms), known.gone_before_ms)


def looked(look_ms: int | None, now_ms: int) -> int | None:
    """A look at a shard, or ``None`` if its time is unknown: one that lies in the future of the clock that asks,
    by more than clocks may differ, was dated by a clock that was wrong."""
    return None if look_ms is None or look_ms > now_ms + CLOCKS_APART_MS else look_ms


class Timekeeper(str, Enum):
    """Whose clock an instant is of: the ``service``'s, which records carry, or a ``worker``'s."""

    SERVICE = "service"
    WORKER = "worker"


@dataclass(frozen=True, order=True)
class Instant:
    """Milliseconds since the epoch, UTC, by a clock that is not this machine's."""

    ms: int
    clock: Timekeeper


def all_read(lease: Lease) -> bool:
    """Whether the shard is read to its end, be it committed or landed: then nothing of it can expire unread."""
    return lease.completed or (lease.pending is not None and lease.pending.ended)


def unread_since(lease: Lease, row_of: Callable[[str], Lease | None], now_ms: int) -> Instant | None:
    """The instant before which no unread record of an open shard arrived; ``None`` if unknown.

    What is landed is read: it stands in staging, whatever becomes of the stream. So the retention behind this instant
    unread records may begin to expire, if there are any.

    :param row_of: the lease of a shard id; asked for the parents of a shard of which nothing was read yet.
    :param now_ms: by the clock that asks; looks that lie in its future are passed over.
    """
    own = _read_up_to(lease, now_ms)
    if lease.checkpoint.timestamp_ms is not None:  # also of a place that carries it: what came before is not wanted
        start = Instant(lease.checkpoint.timestamp_ms, Timekeeper.SERVICE)
        return start if own is None else max(own, start)
    return born_after(lease, row_of, now_ms) if own is None else own


def born_after(shard: Lease | Shard, known: Callable[[str], Lease | Shard | None], now_ms: int) -> Instant | None:
    """The last that was read of the parents, whose records all arrived before the first one of this shard.

    :param known: what there is of a shard id: its lease, else its place in the listing.
    :param now_ms: as of :func:`unread_since`.
    """
    found: list[Instant] = []
    above, seen = deque(shard.parent_shard_ids), {shard.shard_id}
    while above:
        name = above.popleft()
        parent = None if name in seen else known(name)
        seen.add(name)
        if parent is None:
            continue
        instant = _read_up_to(parent, now_ms) if isinstance(parent, Lease) else None
        if instant is None:
            above.extend(parent.parent_shard_ids)
        else:
            found.append(instant)
    return max(found, default=None)


def unseen_since(listing: Sequence[Shard], rows: Sequence[Lease], now_ms: int) -> Callable[[Shard], int | None]:
    """Since when records of a listed shard without a row may have come and gone; ``None`` if it was not there before.

    Of a lineage of which nothing is left, it is since the shard that was read longest ago: its ancestors' records came
    and went unread.
    """
    known: dict[str, Lease | Shard] = {shard.shard_id: shard for shard in listing}
    known.update((lease.shard_id, lease) for lease in rows)

    @cache
    def longest_ago() -> Instant | None:
        last = _instants((lease for lease in rows if not lease.completed), now_ms)
        return min(last) if last else max(_instants(rows, now_ms), default=None)

    def of(shard: Shard) -> int | None:
        if not rows or not shard.parent_shard_ids:
            return None
        lost = not any(parent in known for parent in shard.parent_shard_ids)
        found = longest_ago() if lost else born_after(shard, known.get, now_ms)
        return found.ms if found else None

    return of


def _instants(rows: Iterable[Lease], now_ms: int) -> list[Instant]:
    return [instant for lease in rows if (instant := _read_up_to(lease, now_ms)) is not None]


def _read_up_to(lease: Lease, now_ms: int) -> Instant | None:
    """Up to when it was read, by its own row: the last record, or the last look at its tip."""
    service: list[int | None] = [lease.checkpoint_arrival_ms]
    worker: list[int | None] = [tip_seen(lease, now_ms)]
    if lease.pending is not None:
        service.append(lease.pending.last_arrival_ms)
        worker.append(looked(lease.pending.caught_up_ms, now_ms))
    found = [Instant(ms, Timekeeper.SERVICE) for ms in service if ms is not None]
    found += [Instant(ms, Timekeeper.WORKER) for ms in worker if ms is not None]
    return max(found, default=None)


def tip_seen(lease: Lease, now_ms: int) -> int | None:
    """When a read last stood at the tip of the shard while that was open, as far as its row tells: the
    ``caught_up_ms`` of a new row is not one, and the end of a shard may be seen long after its last record."""
    found_nothing = lease.pending is None and lease.left_at_tip
    return looked(lease.caught_up_ms, now_ms) if lease.checkpoint.exact or found_nothing else None
