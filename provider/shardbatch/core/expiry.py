# SPDX-License-Identifier: Apache-2.0
"""When unread records of a shard may begin to expire, as far as its rows tell."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Callable

from shardbatch.core.lease import Lease
from shardbatch.core.position import Kind
from shardbatch.core.shard import Shard


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


def unread_since(lease: Lease, row_of: Callable[[str], Lease | None]) -> Instant | None:
    """The instant before which no unread record of an open shard arrived; ``None`` if nobody knows.

    What is landed is read: it stands in staging, whatever becomes of the stream. So the retention behind this instant
    unread records may begin to expire, if there are any.

    :param row_of: the lease of a shard id; asked for the parents of a shard of which nothing was read yet.
    """
    own = _read_up_to(lease)
    if lease.checkpoint.kind is Kind.AT_TIMESTAMP and lease.checkpoint.timestamp_ms is not None:
        start = Instant(lease.checkpoint.timestamp_ms, Timekeeper.SERVICE)
        return start if own is None else max(own, start)
    return born_after(lease, row_of) if own is None else own


def born_after(shard: Lease | Shard, known: Callable[[str], Lease | Shard | None]) -> Instant | None:
    """The last that was read of the parents, whose records all arrived before the first one of this shard.

    :param known: what there is of a shard id: its lease, else its place in the listing.
    """
    found: list[Instant] = []
    above, seen = deque(shard.parent_shard_ids), {shard.shard_id}
    while above:
        name = above.popleft()
        parent = None if name in seen else known(name)
        seen.add(name)
        if parent is None:
            continue
        instant = _read_up_to(parent) if isinstance(parent, Lease) else None
        if instant is None:
            above.extend(parent.parent_shard_ids)
        else:
            found.append(instant)
    return max(found, default=None)


def unseen_since(listing: Sequence[Shard], rows: Sequence[Lease]) -> Callable[[Shard], int | None]:
    """Since when records of a listed shard without a row may have come and gone; ``None`` if it was not there before.

    Of a lineage of which nothing is left, it is since the shard that was read longest ago: its ancestors' records came
    and went with nobody looking.
    """
    known: dict[str, Lease | Shard] = {shard.shard_id: shard for shard in listing}
    known.update((lease.shard_id, lease) for lease in rows)

    @cache
    def longest_ago() -> Instant | None:
        last = _instants(lease for lease in rows if not lease.completed)
        return min(last) if last else max(_instants(rows), default=None)

    def of(shard: Shard) -> int | None:
        if not rows or not shard.parent_shard_ids:
            return None
        lost = not any(parent in known for parent in shard.parent_shard_ids)
        found = longest_ago() if lost else born_after(shard, known.get)
        return found.ms if found else None

    return of


def _instants(rows: Iterable[Lease]) -> list[Instant]:
    return [instant for instant in map(_read_up_to, rows) if instant is not None]


def _read_up_to(lease: Lease) -> Instant | None:
    """Up to when it was read, by its own row: the last record, or the last look at its tip."""
    service: list[int | None] = [lease.checkpoint_arrival_ms]
    worker: list[int | None] = [tip_seen(lease)]
    if lease.pending is not None:
        service.append(lease.pending.last_arrival_ms)
        worker.append(lease.pending.caught_up_ms)
    found = [Instant(ms, Timekeeper.SERVICE) for ms in service if ms is not None]
    found += [Instant(ms, Timekeeper.WORKER) for ms in worker if ms is not None]
    return max(found, default=None)


def tip_seen(lease: Lease) -> int | None:
    """When a read last stood at the tip of the shard while that was open, as far as its row tells: the
    ``caught_up_ms`` of a new row is none, and the end of a shard may be seen long after its last record."""
    looked = lease.pending is None and lease.millis_behind_latest == 0
    return lease.caught_up_ms if lease.checkpoint.exact or looked else None
