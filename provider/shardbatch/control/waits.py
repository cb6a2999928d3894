# SPDX-License-Identifier: Apache-2.0
"""What a shard waits for before it is read on and committed, as far as the rows tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shardbatch.core.application import Application
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.owner import ResetHolder


@dataclass(frozen=True)
class Wait:
    """``what`` is ``import``, ``gap``, ``parked``, ``work``, ``reset``, ``freeze`` or ``parent``; of the others that
    one is given that is meant, and ``text`` says it to people."""

    what: str
    text: str
    shard_id: str | None = None
    owner: str | None = None
    batch_id: str | None = None


def waits_for(
    lease: Lease, leases: Mapping[str, Lease], batches: Mapping[str, Batch], application: Application
) -> Wait | None:
    """What a shard waits for; ``None`` if for nothing: it is completed, being read, or the next claim takes it.

    :param leases: all of the application, by their shards.
    :param batches: its undecided batches, by their ids.
    """
    if lease.completed:
        return None
    if application.importing is not None:
        return Wait("import", f"an import that has not ended: {application.importing}")
    batch = batches.get(lease.batch_id or "")
    if batch is not None and batch.state is BatchState.PARKED:
        note = f": {batch.note}" if batch.note else ""
        return Wait("parked", f"a person, who parked batch {batch.batch_id}{note}", batch_id=batch.batch_id)
    if batch is not None:
        whose = f" of {batch.owner}" if batch.owner else ", which has no owner: the next claim takes it"
        text = f"the work on batch {batch.batch_id}{whose}"
        return Wait("work", text, owner=batch.owner or None, batch_id=batch.batch_id)
    if ResetHolder.parse(lease.lease_owner) is not None:
        return Wait("reset", "a reset that has it; one that died is finished by another reset", owner=lease.lease_owner)
    if lease.waits_for_gap:
        return Wait("gap", "a person, to accept the gap in what was read of it", owner=lease.lease_owner)
    if lease.pending is not None and lease.lease_owner:
        text = f"{lease.lease_owner}, which has read it, to freeze a batch"
        return Wait("freeze", text, owner=lease.lease_owner)
    if lease.lease_owner is not None:
        return None
    for parent in lease.parent_shard_ids:
        above = leases.get(parent)
        if above is not None and not above.completed:
            return Wait("parent", f"its parent {parent}, which is not committed to its end", shard_id=parent)
    return None
