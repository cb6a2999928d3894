# SPDX-License-Identifier: Apache-2.0
"""When a DAG is woken that reads a stream: by how the application stands, and by when it was woken last.

It goes by level, not by edge: as long as there is something to do, a wake-up that led to nothing is made up for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Callable, Optional

from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.expiry import Kept, unread_since
from shardbatch.core.interval import CLOCKS_APART_MS
from shardbatch.core.lease import Lease
from shardbatch.core.planner import known_parents
from shardbatch.core.ports import Verdict

#: The longest pause between two wake-ups that led to nothing, unless the first pause is longer.
LONGEST_PAUSE_MS = 3_600_000
#: An idle application is woken to look once this part of the retention has passed since it last looked.
LOOK_AFTER = 0.5
#: More doublings than the longest pause ever needs.
MOST_DOUBLINGS = 20

#: The batch row of every stamp that leases carry; ``None`` where there is no row.
Stamped = Mapping[str, Optional[Batch]]


@dataclass(frozen=True)
class WakeUp:
    """The last wake-up: when, the ``places`` at which the application stood, and how many before it led to nothing.

    One that is only to ``look`` had nothing to do: it keeps an idle application sure that nothing expired unread.
    """

    at_ms: int
    places: str
    misses: int = 0
    look: bool = False

    def due_again_ms(self, pause_ms: int) -> int:
        """When the next may follow if the application stands where it stood."""
        longest = max(pause_ms, LONGEST_PAUSE_MS)
        return self.at_ms + min(longest, pause_ms << min(self.misses, MOST_DOUBLINGS))

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {"at_ms": self.at_ms, "places": self.places, "misses": self.misses, "look": self.look}

    @classmethod
    def from_json(cls, value: Any) -> WakeUp | None:
        """What :meth:`to_json` gave; ``None`` for anything else."""
        try:
            return cls(int(value["at_ms"]), str(value["places"]), int(value["misses"]), bool(value["look"]))
        except (KeyError, TypeError, ValueError):
            return None


def may_wake(last: WakeUp | None, places: str, now_ms: int, pause_ms: int, *, to_look: bool = False) -> bool:
    """Whether the last wake-up is answered, since checkpoints have moved, or so old that it counts as lost.

    One that lies in the future was written by a wrong clock. One that was only to look moves nothing, so it holds up
    no other than its like.
    """
    if last is None or last.places != places or last.at_ms > now_ms + CLOCKS_APART_MS:
        return True
    return (last.look and not to_look) or now_ms >= last.due_again_ms(pause_ms)


def woken(last: WakeUp | None, places: str, now_ms: int, *, to_look: bool = False) -> WakeUp:
    """The wake-up that is made now."""
    if last is None or last.places != places or last.look != to_look:
        return WakeUp(now_ms, places, 0, to_look)
    return WakeUp(now_ms, places, last.misses + 1, to_look)


def places_of(leases: Iterable[Lease]) -> str:
    """A short text that differs when a checkpoint has moved, or a shard has come, gone or ended."""
    texts = sorted(f"{lease.shard_id} {lease.checkpoint} {lease.completed}" for lease in leases)
    return sha256("\n".join(texts).encode()).hexdigest()[:16] if texts else ""


@dataclass(frozen=True)
class Standing:
    """What the rows of an application say to one who would wake a run.

    ``held``: the owners that are at work. ``ready``: what a run finds to do, whatever the stream has. ``unread``: the
    leases that a run could take; whether there is something to read only the stream knows.
    """

    held: tuple[str, ...] = ()
    ready: tuple[str, ...] = ()
    unread: tuple[Lease, ...] = ()


def standing(
    leases: Iterable[Lease],
    stamped: Stamped,
    verdict: Callable[[str], Verdict],
    silent: Callable[[Lease], bool],
    reached_ms: int,
) -> Standing:
    """Sort the live leases by what a run would do about them.

    What waits for a person is neither at work nor ready: a parked batch, a gap that is not accepted, a frozen batch of
    another deployment.

    :param verdict: of an owner; of a reset that it is at work.
    :param silent: whether the row of an owner of another deployment looks as if it is not renewed any more.
    :param reached_ms: how far the stream's clock has come: what begins later is not read yet.
    """
    rows = {lease.shard_id: lease for lease in leases}
    held: dict[str, None] = {}
    ready: dict[str, None] = {}
    unread: list[Lease] = []
    for lease in rows.values():
        batch = stamped.get(lease.batch_id) if lease.batch_id is not None else None
        if batch is not None and batch.state is BatchState.PARKED:
            continue
        owner = (lease.lease_owner if batch is None else batch.owner) or ""
        found = verdict(owner) if owner else Verdict.OVER
        if batch is not None and batch.state is BatchState.FROZEN and found is Verdict.FOREIGN:
            continue
        if found is Verdict.ACTIVE or (found is Verdict.FOREIGN and not silent(lease)):
            held[owner] = None
        elif lease.batch_id is not None:
            ready[f"batch {lease.batch_id} of a run that is over"] = None
        elif lease.completed or not _parents_done(lease, rows) or lease.waits_for_gap:
            continue
        elif lease.pending is not None:
            ready[f"{lease.shard_id} was read and not committed"] = None
        elif not lease.checkpoint.ahead_of(reached_ms):
            unread.append(lease)
    return Standing(tuple(held), tuple(ready), tuple(sorted(unread, key=_furthest_first)))


def looks_due(leases: Iterable[Lease], kept: Kept, all_rows: Iterable[Lease], now_ms: int) -> tuple[str, ...]:
    """The shards at which no run has looked for so long that records may come and expire before the next look. From
    then on a run would have to report a gap, not knowing better."""
    if kept.retention_ms is None:
        return ()
    known = {lease.shard_id: lease for lease in all_rows}
    left_ms = (1 - LOOK_AFTER) * kept.retention_ms
    due = []
    for lease in leases:
        since = unread_since(lease, known.get, now_ms)
        expires = None if since is None else kept.expires_ms(since.ms)
        if expires is not None and expires - now_ms < left_ms:
            due.append(lease.shard_id)
    return tuple(due)


def _parents_done(lease: Lease, rows: Mapping[str, Lease]) -> bool:
    return all(rows[parent].completed for parent in known_parents(lease, set(), rows))


def _furthest_first(lease: Lease) -> tuple[int, int, str]:
    return -(lease.millis_behind_latest or 0), lease.updated_at_ms, lease.shard_id
