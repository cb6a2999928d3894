# SPDX-License-Identifier: Apache-2.0
"""Removes what reading needed when no task of the application reads any more, also after a run that died in a read."""

from __future__ import annotations

from shardbatch.core.owner import Owner
from shardbatch.run.consumer import Consumer


def end_reading(consumer: Consumer, owner: Owner, group: str | None = None) -> None:
    """Let the source remove what it set up, unless another task may still read. Such a task holds a lease and has
    landed nothing on it.

    So the last task of a run to land removes it. What a run that died left behind is removed by the next claim, which
    holds all leases that it could take over. Tasks of this owner count, except those of ``group``; without a ``group``,
    none of them counts.
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
