# SPDX-License-Identifier: Apache-2.0
"""Stories of one shard over time: its lease, its slice, and hours that pass."""

from __future__ import annotations

from shardbatch.core.lease import Lease
from shardbatch.core.slice import Slice
from tests.support.rig import Rig

HOUR = 3_600_000


def only(rig: Rig) -> Lease:
    """The one lease."""
    (lease,) = rig.consumer().leases()
    return lease


def pending(rig: Rig) -> Slice:
    """Its slice."""
    landed = only(rig).pending
    assert landed is not None
    return landed


def time_passes(rig: Rig, hours: float) -> None:
    """Time passes for the worker and the stream, which is not asked, and forgets nothing."""
    rig.time.ms += int(hours * HOUR)
    rig.stream.now_ms = rig.time.ms


def later(rig: Rig, hours: float) -> None:
    """Time passes, and what is older than the retention is gone."""
    time_passes(rig, hours)
    oldest = rig.stream.now_ms - rig.stream.retention_ms()
    for shard in rig.stream.shards.values():
        shard.items = [item for item in shard.items if item.arrival_ms >= oldest]
