# SPDX-License-Identifier: Apache-2.0
"""Warns before records expire unread: a claim names the shards that have little of the retention left."""

from __future__ import annotations

from collections.abc import Sequence

from shardbatch.core.application import Application
from shardbatch.core.expiry import Kept, all_read, kept_by, kept_today, unread_since
from shardbatch.core.lease import Lease
from shardbatch.core.shortlist import shortlist
from shardbatch.run.consumer import Consumer

#: A shard is told of once less than this part of the retention is left to it.
LITTLE = 0.25


def ask_kept(consumer: Consumer) -> Kept:
    """What the stream still holds, by the application's row and the stream's present retention."""
    return kept_today(consumer.application(), consumer.source.retention_ms())


def expirations(application: Application, rows: Sequence[Lease], now_ms: int) -> dict[str, int]:
    """When unread records of each shard may begin to expire, of those of which this is known."""
    known, kept = {lease.shard_id: lease for lease in rows}, kept_by(application)
    found: dict[str, int] = {}
    for lease in rows:
        since = None if all_read(lease) else unread_since(lease, known.get, now_ms)
        expires = kept.expires_ms(since.ms) if since is not None else None
        if expires is not None:
            found[lease.shard_id] = expires
    return found


def warn_of_expiry(consumer: Consumer, application: Application, rows: Sequence[Lease]) -> None:
    """Warn of shards whose unread records may expire soon; nothing if the retention or the age is unknown."""
    retention_ms = application.retention_ms
    if retention_ms is None:
        return
    now = consumer.now_ms()
    found = expirations(application, rows, now)
    left = {name: max(0, at - now) for name, at in found.items() if at - now < LITTLE * retention_ms}
    if not left:
        return
    first = sorted(left, key=lambda shard_id: (left[shard_id], shard_id))
    consumer.warn(
        "Unread records of {} shards may expire soon, at the earliest in: {}. Read more in a run, run more often, or "
        "raise the stream's retention.".format(
            len(left),
            shortlist([f"{left[shard_id] / 3_600_000:.1f} h ({shard_id})" for shard_id in first]),
        )
    )
