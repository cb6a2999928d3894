# SPDX-License-Identifier: Apache-2.0
"""Which leases a run may take, in which order, and how they are spread over its read tasks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import Callable

from shardbatch.core.interval import CLOCKS_APART_MS
from shardbatch.core.lease import Lease
from shardbatch.core.owner import Owner, ResetHolder
from shardbatch.core.shard import Shard, generations, inconsistent

#: Airflow keeps a mapped task's label in a column of 250 characters on PostgreSQL and fails the task beyond.
MAX_LABEL = 200


@dataclass(frozen=True)
class ReadGroup:
    """One mapped read task: the name that stands on its lease rows, and the label that people see."""

    group: str
    label: str


@dataclass(frozen=True)
class Plan:
    """What a claim found: leases to take in order, leases that others hold, shards that wait for their parents, and
    shards that are to be read from an instant on which the stream's clock has not reached."""

    takeable: tuple[Lease, ...]
    held: tuple[Lease, ...]
    waiting: tuple[Lease, ...]
    ahead: tuple[Lease, ...] = ()


def unknown_shards(
    listing: Sequence[Shard], leases: Iterable[Lease], waiting_for_parents: Collection[str] = ()
) -> list[list[Shard]]:
    """The listed shards that need a row, generation by generation, children before their parents (F5).

    In this order a claim that dies half-way leaves no child without a row whose parent has one, so the next claim can
    still tell a child that was there at the first claim from one that a reshard made later. A shard whose parent is
    open in the same listing is left for the next listing (F6, K-10), and so are those that wait for their parents.
    """
    have = {lease.shard_id for lease in leases}
    fresh = [shard for shard in listing if shard.shard_id not in have]
    if not fresh:
        return []
    racing = {shard.shard_id for shard in inconsistent(listing)}
    depth = generations({shard.shard_id: shard.parent_shard_ids for shard in listing})
    found: dict[int, list[Shard]] = {}
    for shard in sorted(fresh, key=lambda shard: shard.shard_id):
        if shard.shard_id not in racing and shard.shard_id not in waiting_for_parents:
            found.setdefault(depth[shard.shard_id], []).append(shard)
    return [found[generation] for generation in sorted(found, reverse=True)]


def orphans(listing: Sequence[Shard], leases: Iterable[Lease]) -> list[str]:
    """The shards of which nothing was read yet and of which a parent is neither listed nor has a row."""
    rows = {lease.shard_id: lease for lease in leases}
    known = rows.keys() | {shard.shard_id for shard in listing}
    fresh: list[Shard | Lease] = [shard for shard in listing if shard.shard_id not in rows]
    fresh += [row for row in rows.values() if not (row.completed or row.checkpoint.exact or row.pending)]
    return [shard.shard_id for shard in fresh if any(parent not in known for parent in shard.parent_shard_ids)]


def known_parents(lease: Lease, listed: set[str], rows: Mapping[str, Lease]) -> list[str]:
    """The parents that are in the listing or have a row; a link to any other is forgotten (K-13, K-15)."""
    return [parent for parent in lease.parent_shard_ids if parent in listed or parent in rows]


def plan(
    leases: Iterable[Lease],
    listed: set[str],
    may_take: Callable[[Lease], bool],
    owner: str,
    waiting_for_parents: Collection[str] = (),
    reached_ms: int | None = None,
    *,
    now_ms: int,
) -> Plan:
    """Sort the open, unstamped leases into those that this owner may take now and those that wait (KV-4).

    A lease that this owner holds already comes first, so that a cleared claim answers as before; then the largest
    backlog that it may have: what was last seen of it, and the time since then. So every shard comes again after its
    turn, also where ``max_shards`` takes a few only: a shard that makes no progress, because it cannot be read or its
    gap waits for a person, cannot block the others. What is landed is read, and has no backlog.

    :param waiting_for_parents: shards of which it is not known yet whether a parent is gone.
    :param reached_ms: how far the stream's clock has come; what begins at a later instant waits. Default: all may.
    :param now_ms: by the claimer's clock. The age of a row from the future is unknown, so it counts as oldest:
        its turn gives it a time. Else it would come last until the wrong clock's time has come.
    """
    rows = {lease.shard_id: lease for lease in leases}
    takeable: list[Lease] = []
    held: list[Lease] = []
    waiting: list[Lease] = []
    ahead: list[Lease] = []
    for lease in rows.values():
        if lease.completed:
            continue
        parents = known_parents(lease, listed, rows)
        if lease.batch_id is not None:
            held.append(lease)
        elif lease.lease_owner != owner and (
            lease.shard_id in waiting_for_parents
            or not all(parent in rows and rows[parent].completed for parent in parents)
        ):
            waiting.append(lease)
        elif reached_ms is not None and lease.pending is None and lease.checkpoint.ahead_of(reached_ms):
            ahead.append(lease)
        elif may_take(lease):
            takeable.append(lease)
        else:
            held.append(lease)

    def order(lease: Lease) -> tuple[bool, int, str]:
        behind = lease.millis_behind_latest if lease.pending is None else None
        changed_ms = lease.updated_at_ms if lease.updated_at_ms <= now_ms + CLOCKS_APART_MS else 0
        return lease.lease_owner != owner, changed_ms - (behind or 0), lease.shard_id

    return Plan(tuple(sorted(takeable, key=order)), tuple(held), tuple(waiting), tuple(ahead))


def fair_share(found: Plan, owner: str) -> int:
    """How many of the takeable leases a run takes where groups share an application: its part, rounded up.

    The others are the groups that hold leases now, whose next runs take what is left; what a batch holds is read.
    Other runs of this group do not count: they have claimed, and only a later one could take what this one leaves. The
    owner keeps what it holds. (K-28, KV-13)
    """
    held = [lease.lease_owner for lease in found.held if lease.batch_id is None]
    groups = [_group(name) for name in held if name is not None and ResetHolder.parse(name) is None]
    others = [group for group in groups if group != _group(owner)]
    mine = sum(lease.lease_owner == owner for lease in found.takeable)
    return max(mine, -(-(len(found.takeable) + len(others)) // (1 + len(set(others)))))


def _group(name: str) -> tuple[str, ...]:
    owner = Owner.parse(name)
    return (name,) if owner is None else (owner.deployment, owner.dag_id, owner.group_id)


def spread(
    leases: Sequence[Lease], read_tasks: int, at_once: int = 1, owner: str | None = None
) -> dict[str, list[Lease]]:
    """The leases over at most ``read_tasks`` groups, each as even as the order allows.

    There are no more groups than it takes for every shard to be read at once when a task reads ``at_once``: a further
    task costs a process and brings nothing sooner. A lease that carries a group of this owner already keeps it.
    """
    kept: dict[str, list[Lease]] = {}
    loose: list[Lease] = []
    for lease in leases:
        if lease.read_group is not None and lease.lease_owner == owner:
            kept.setdefault(lease.read_group, []).append(lease)
        else:
            loose.append(lease)
    names = sorted(kept)
    fresh = (f"{number:03d}" for number in range(read_tasks + len(kept)))
    wanted = max(len(kept), min(read_tasks, -(-len(leases) // at_once)))
    while len(names) < wanted:
        names.append(next(name for name in fresh if name not in kept))
    groups = {name: list(kept.get(name, ())) for name in names}
    smallest = [(len(groups[name]), name) for name in names]
    heapify(smallest)
    for lease in loose:
        size, name = smallest[0]
        groups[name].append(lease)
        heapreplace(smallest, (size + 1, name))
    return {name: members for name, members in groups.items() if members}


def label(group: str, shard_ids: Sequence[str]) -> str:
    """The label of a read task: its group, how many shards it has, and the first of them, at most 200 characters."""
    first = min(shard_ids) if shard_ids else "none"
    text = f"{group}: {first}" if len(shard_ids) == 1 else f"{group}: {len(shard_ids)} shards from {first}"
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"


def ready_child(child: Shard, parents: Mapping[str, Lease | None], owner: str) -> bool:
    """Whether a child may be read on: every known parent is completed, or ended in a slice of this owner (F2)."""
    for parent in child.parent_shard_ids:
        row = parents.get(parent)
        if row is None or row.completed:
            continue
        if row.lease_owner != owner or row.pending is None or not row.pending.ended:
            return False
    return True


def complete_lineage(landed: Iterable[Lease], rows: Mapping[str, Lease], left_out: set[str]) -> list[Lease]:
    """The landed leases that may be frozen together (D2d): a child needs every parent that has a row completed, or
    ended among those taken here. ``left_out`` are shards whose slices must wait, with their descendants."""
    chosen = {lease.shard_id: lease for lease in landed if lease.shard_id not in left_out}
    while True:
        orphans = [
            shard_id
            for shard_id, lease in chosen.items()
            for parent in lease.parent_shard_ids
            if parent in rows and not rows[parent].completed and not _ended(chosen.get(parent))
        ]
        if not orphans:
            return [chosen[shard_id] for shard_id in sorted(chosen)]
        for shard_id in orphans:
            chosen.pop(shard_id, None)


def _ended(lease: Lease | None) -> bool:
    return lease is not None and lease.pending is not None and lease.pending.ended
