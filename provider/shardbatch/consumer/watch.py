# SPDX-License-Identifier: Apache-2.0
"""Looking on for a while: whether rows of others stand still, and how long records have waited."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from shardbatch.consumer.consumer import Consumer
from shardbatch.core.lease import Lease

#: How many held shards are asked for their oldest waiting record.
PEEKED_SHARDS = 3
#: How many answers without a record are followed, on each of them.
PEEKED_PAGES = 20


def stood_still(consumer: Consumer, foreign: Sequence[Lease], *, all_of_them: bool) -> set[str]:
    """The shards whose counter did not move for ``lease_duration`` on this worker's monotonic clock (PROTOCOL E).

    Watching costs the run that time. So unless there is nothing else to do, only leases are watched whose row looks
    old; how old it looks by two machines' clocks decides nothing but that.
    """
    duration = consumer.options.lease_duration.total_seconds()
    now = consumer.now_ms()
    suspects: dict[str, Lease] = {
        lease.shard_id: lease for lease in foreign if all_of_them or now - lease.updated_at_ms > duration * 1000
    }
    if not suspects:
        return set()
    consumer.say(
        "Watching {} leases of other deployments for {:.0f} s to see whether they are alive.".format(
            len(suspects), duration
        )
    )
    until = consumer.clock.monotonic() + duration
    while suspects and consumer.clock.monotonic() < until:
        consumer.clock.sleep(min(max(duration / 20, 0.05), 5.0, max(until - consumer.clock.monotonic(), 0.01)))
        for shard_id in list(suspects):
            row = consumer.lease(shard_id)
            if row is None or row.lease_count != suspects[shard_id].lease_count:
                del suspects[shard_id]
    return set(suspects)


def waiting_ms(consumer: Consumer, held: Sequence[Lease]) -> int | None:
    """How long the oldest record of the held shards has waited, or ``None`` if none waits.

    It is asked of the stream, for the shards that were read longest ago: an old checkpoint alone says nothing about a
    quiet shard.
    """
    oldest: list[int] = []
    for lease in sorted(held, key=lambda item: item.checkpoint_arrival_ms or 0)[:PEEKED_SHARDS]:
        pages = consumer.source.read(lease.shard_id, lease.checkpoint)
        for page in islice(pages, PEEKED_PAGES):
            if page.records.num_rows:
                arrival = page.records.column("arrival_time")[0].value
                oldest.append(arrival // 1000)
            if page.records.num_rows or page.ended or page.millis_behind_latest == 0:
                break
    return consumer.now_ms() - min(oldest) if oldest else None
