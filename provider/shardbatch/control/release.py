# SPDX-License-Identifier: Apache-2.0
"""Release: a person frees leases, or a frozen batch, whose owner will not come back (PROTOCOL L7, B15)."""

from __future__ import annotations

from collections.abc import Sequence

from shardbatch.control.action import Action, Done, Stays
from shardbatch.core import batch as batches
from shardbatch.core import lease as leases
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.owner import ResetHolder
from shardbatch.core.shortlist import shortlist
from shardbatch.errors import ConfigurationError


def release(
    action: Action, *, owner: str | None = None, shards: Sequence[str] = (), batch_id: str | None = None
) -> tuple[Done, ...]:
    """Free the unstamped leases of an owner or of some shards, and make a frozen batch free to be adopted.

    A release loses nothing: landed slices stay for the next owner, and an owner that was alive after all gets a
    ``LeaseLost``. So Airflow is not asked about the owner, and the verb also works for owners that Airflow does not
    know. Leases that a reset holds are left to the reset. ``owner`` takes all that the owner holds, its frozen batches
    too; ``shards`` limits this to some shards; ``batch_id`` takes one batch. The application row records who, when and
    why first.

    :raises ConfigurationError: if nothing was chosen, the reason is empty, or application, shard or batch is not there.
    """
    if not (owner or shards or batch_id):
        raise ConfigurationError("Nothing was chosen to release.", remedy="Name an owner, shards or a batch.")
    action.begin()
    rows = _leases(action, owner, shards) if owner or shards else []
    frozen = _batches(action, None if shards else owner, batch_id)
    if rows or frozen:
        action.record(_chosen(owner, shards, batch_id))
    if not shards:  # the leases of a batch that goes as well follow it, stamped as they are
        going = {batch.batch_id for batch in frozen}
        rows = [lease for lease in rows if lease.batch_id not in going]
    freed = [_free_batch(action, batch) for batch in frozen]
    return tuple(freed + [_free_lease(action, lease) for lease in rows])


def _leases(action: Action, owner: str | None, shards: Sequence[str]) -> list[Lease]:
    if not shards:
        return action.leases(lease_owner=owner or "")
    found = [action.expect_lease(shard_id) for shard_id in shards]
    return [row for row in found if owner is None or row.lease_owner == owner]


def _batches(action: Action, owner: str | None, batch_id: str | None) -> list[Batch]:
    if batch_id:
        return [action.expect_batch(batch_id)]
    rows = action.batches_of(owner) if owner is not None else []
    return [row for row in rows if row.state is BatchState.FROZEN]


def _chosen(owner: str | None, shards: Sequence[str], batch_id: str | None) -> str:
    chosen = [
        f"owner {owner}" if owner else "",
        f"shards {shortlist(shards)}" if shards else "",
        f"batch {batch_id}" if batch_id else "",
    ]
    return "; ".join(filter(None, chosen))


def _free_lease(action: Action, seen: Lease) -> Done:
    holder = seen.lease_owner

    def stays(lease: Lease) -> Stays | None:
        if lease.batch_id is not None:
            if action.batch(lease.batch_id) is None:
                return Stays("a freeze stamped it and made no batch; the next claim frees it once that freeze is over")
            return Stays(f"it is frozen in batch {lease.batch_id}; release that with --batch {lease.batch_id}")
        if lease.lease_owner is None:
            return Stays("it has no owner", already=True)
        if ResetHolder.parse(lease.lease_owner) is not None:
            return Stays("a reset holds it with its lineage; if that died, run 'airflow shardbatch reset' again")
        if lease.lease_owner != holder:
            return Stays(f"it went to {lease.lease_owner} meanwhile")
        return None

    return action.change(seen, stays, lambda row: leases.release(row, action.now_ms(), note=action.note()))[0]


def _free_batch(action: Action, seen: Batch) -> Done:
    holder = seen.owner

    def stays(batch: Batch) -> Stays | None:
        if batch.state is BatchState.COMMITTED:
            return Stays("it is committed; the next claim moves its leases on by itself")
        if batch.state is BatchState.VOID:
            return Stays("it is void; the next claim frees its leases by itself")
        if batch.state is BatchState.PARKED:
            return Stays(f"it is parked; resume it with 'airflow shardbatch unpark --batch {batch.batch_id}'")
        if not batch.owner:
            return Stays("it is released already; the next claim takes it", already=True)
        if batch.owner != holder:
            return Stays(f"it went to {batch.owner} meanwhile")
        return None

    return action.change(seen, stays, lambda row: batches.disown(row, action.note()))[0]
