# SPDX-License-Identifier: Apache-2.0
"""A rig whose stream forgets what is older than its retention, and interval runs over what it once had."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from shardbatch.core.interval import Interval
from shardbatch.core.start import Work
from shardbatch.run import Committed, Outcome, claim, commit, freeze, land
from tests.support.rig import Rig

HOUR = 3_600_000


def pass_time(rig: Rig, hours: float) -> None:
    """Both clocks go on, and the stream drops what it no longer keeps: records, and shards that are closed for long."""
    for shard in rig.stream.shards.values():
        if shard.closed and shard.closed_ms is None:
            shard.closed_ms = rig.stream.now_ms
    rig.time.ms += int(hours * HOUR)
    rig.stream.now_ms = max(rig.stream.now_ms, rig.time.ms)
    bound = rig.stream.now_ms - rig.stream.retention_ms()
    for shard in rig.stream.shards.values():
        shard.items = [item for item in shard.items if item.arrival_ms >= bound]
        shard.gone = shard.gone or (shard.closed_ms is not None and shard.closed_ms < bound)


def put(rig: Rig, *keys: str, **where: Any) -> list[str]:
    """Records that arrive now, by the rig's clock."""
    rig.stream.now_ms = max(rig.stream.now_ms, rig.time.ms)
    return rig.stream.put(*keys, **where)


def backfill(rig: Rig, interval: Interval, run: str = "backfill", **changes: Any) -> list[str]:
    """The records that a whole interval run commits, by their places."""
    done = backfilled(rig, interval, run, **changes)
    return [] if done.batch_id is None else rig.records(done.batch_id)


def backfilled(rig: Rig, interval: Interval, run: str = "backfill", **changes: Any) -> Committed:
    """A whole interval run: claim, read, freeze, work, commit."""
    owner = replace(rig.owner(run), mode="interval")
    consumer = rig.consumer(scope=owner.scope, interval=interval, **changes)
    found = claim(consumer, owner)
    assert found.outcome is Outcome.LEASES
    for group in found.groups:
        land(consumer, owner, group.group, rig.stream.now_ms + 1)
    frozen = freeze(consumer, owner, None)
    if frozen.record_count:
        rig.work(frozen)
    return commit(consumer, owner, frozen.batch_id, frozen.attempt, works=[Work("transform")])


def retention(rig: Rig, hours: float) -> None:
    rig.stream.retention = timedelta(hours=hours)
