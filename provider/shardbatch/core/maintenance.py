# SPDX-License-Identifier: Apache-2.0
"""Rows that are no longer needed, and rows that are missing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Callable

from shardbatch.core.lease import Lease
from shardbatch.core.shard import Shard, generations


def begun(lease: Lease) -> bool:
    """Whether anything of the shard was ever committed: only after that can its row tell what came before it."""
    return lease.completed or (lease.checkpoint.exact and not lease.checkpoint.searching)


def obsolete(leases: Iterable[Lease], listed: set[str], expired: Callable[[Lease], bool]) -> list[Lease]:
    """The leases of completed shards whose rows are not needed, oldest generation first (PROTOCOL L13, K-38, KV-16).

    Such a shard has left the listing, all that it held has ``expired``, all of its children that have rows have been
    begun, and there is one at least. Its own parents' rows are gone, or go before it.
    """
    rows = {lease.shard_id: lease for lease in leases}
    left = [lease for lease in rows.values() if lease.completed and lease.shard_id not in listed]
    if not left:
        return []
    children: dict[str, list[Lease]] = {}
    for lease in rows.values():
        for parent in lease.parent_shard_ids:
            children.setdefault(parent, []).append(lease)
    depth = generations({lease.shard_id: lease.parent_shard_ids for lease in rows.values()})
    found: dict[str, Lease] = {}
    for lease in sorted(left, key=lambda item: (depth[item.shard_id], item.shard_id)):
        below = children.get(lease.shard_id, [])
        above = [parent for parent in lease.parent_shard_ids if parent in rows and parent not in found]
        idle = lease.lease_owner is None and lease.batch_id is None
        if idle and not above and below and all(map(begun, below)) and expired(lease):
            found[lease.shard_id] = lease
    return list(found.values())


def missed(fresh: Iterable[Shard], listed: set[str], leases: Iterable[Lease]) -> list[str]:
    """Those of the shards without a row that should have one, as far as the other rows can tell (R48).

    An application that has begun made rows for all that was listed. So a shard lacks its row if a child of it, or of a
    parent of it, has been begun, or if no shard is known that it could come from.
    """
    rows = {lease.shard_id for lease in leases}
    at_work = [lease for lease in leases if begun(lease)]
    if not at_work:
        return []
    parents = {parent for lease in at_work for parent in lease.parent_shard_ids}
    return [
        shard.shard_id
        for shard in fresh
        if shard.shard_id in parents
        or parents.intersection(shard.parent_shard_ids)
        or not any(parent in rows or parent in listed for parent in shard.parent_shard_ids)
    ]
