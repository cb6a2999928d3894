# SPDX-License-Identifier: Apache-2.0
"""After a read, and for a run that died in one: what reading needed goes when no task of the application reads."""

from __future__ import annotations

from shardbatch.core.owner import Owner
from shardbatch.run.consumer import Consumer


def end_reading(consumer: Consumer, owner: Owner, group: str | None = None) -> None:
    """Let the source remove what it set up, unless another task may still read: one that holds a lease and has landed
    nothing on it.

    The last task of a run to land thus removes it; what a run that died left behind, the next claim, which holds all
    that it could take over. Tasks of this owner count, but for those of ``group``; without one, none does.
    """
    me = str(owner)

    def others() -> bool:
        return any(
            lease.lease_owner is not None
            and (lease.lease_owner != me or (group is not None and lease.read_group != group))
            and lease.pending is None
            and lease.batch_id is None
            and not lease.completed
            for lease in consumer.leases()
        )

    consumer.source.end_reading(others)
