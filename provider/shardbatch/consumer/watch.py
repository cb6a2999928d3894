# SPDX-License-Identifier: Apache-2.0
"""Looking on for a while: whether rows of others stand still, and how long records have waited."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from shardbatch.consumer.consumer import Consumer
from shardbatch.core.application import Application
from shardbatch.core.lease import Lease
from shardbatch.core.owner import Owner

#: How many held shards are asked for their oldest waiting record.
PEEKED_SHARDS = 3
#: How many answers without a record are followed, on each of them.
PEEKED_PAGES = 20


def stood_still(
    consumer: Consumer, foreign: Sequence[Lease], application: Application, *, all_of_them: bool
) -> set[str]:
    """The shards whose counter did not move for ``lease_duration`` on this worker's monotonic clock (PROTOCOL E).

    An owner renews as its own group's ``lease_duration`` asks; where that is longer than this one's, it counts.
    Watching costs the run that time. So unless there is nothing else to do, only leases are watched whose row looks
    old; how old it looks by two machines' clocks decides nothing but that.
    """
    now, step = consumer.now_ms(), consumer.options.lease_duration.total_seconds() / 20
    suspects: dict[str, tuple[Lease, float]] = {}
    for lease in foreign:
        silence = _silence(consumer, application, lease)
        if all_of_them or now - lease.updated_at_ms > silence * 1000:
            suspects[lease.shard_id] = lease, silence
    if not suspects:
        return set()
    longest = max(silence for _, silence in suspects.values())
    consumer.say(
        "Watching {} leases of other deployments for {:.0f} s to see whether they are alive.".format(
            len(suspects), longest
        )
    )
    began, still = consumer.clock.monotonic(), set()
    while suspects:
        nearest = began + min(silence for _, silence in suspects.values())
        consumer.clock.sleep(min(max(step, 0.05), 5.0, max(nearest - consumer.clock.monotonic(), 0.01)))
        looked = consumer.clock.monotonic()
        for shard_id, (seen, silence) in list(suspects.items()):
            row = consumer.lease(shard_id)
            if row is None or row.lease_count != seen.lease_count:
                del suspects[shard_id]
            elif looked - began >= silence:
                still.add(shard_id)
                del suspects[shard_id]
    return still


def _silence(consumer: Consumer, application: Application, lease: Lease) -> float:
    """Seconds for which a live owner of this lease shows no sign of life at most."""
    own = consumer.options.lease_duration.total_seconds()
    owner = Owner.parse(lease.lease_owner or "")
    return max(own, application.silence_ms(owner) / 1000)


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
