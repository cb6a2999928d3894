# SPDX-License-Identifier: Apache-2.0
"""Compaction: rows of shards that are long gone leave the store (PROTOCOL L13)."""

from __future__ import annotations

from collections.abc import Sequence

from shardbatch.core.application import Application
from shardbatch.core.lease import Lease
from shardbatch.core.maintenance import obsolete
from shardbatch.run.consumer import Consumer

#: Rows that one claim removes at most, so that it stays short; the next one goes on.
MOST_REMOVED = 200
#: How much longer than the retention a row stays: workers' clocks differ, and of several listings one may be late.
MARGIN_MS = 86_400_000


def compact(consumer: Consumer, rows: Sequence[Lease], listed: set[str], application: Application) -> int:
    """Remove live rows of completed shards that a listing, begun after the rows were read, no longer contains; returns
    their number.

    A missing row cannot cause records to be read again: the shard was completed a day longer ago than the stream ever
    kept a record, so it would be empty even if it were listed again. While that time is unknown, all rows stay. *Ever:*
    a shorter retention may have been raised again by the time of a listing.
    """
    if application.retention_ms is None or consumer.interval is not None:
        return 0
    longest_ms = max(application.retention_ms, application.longest_retention_ms or 0)
    before = consumer.now_ms() - longest_ms - MARGIN_MS

    def gone(listed: set[str]) -> list[Lease]:
        return obsolete(rows, listed, lambda lease: lease.updated_at_ms < before)[:MOST_REMOVED]

    found = gone(listed)
    if found:  # one listing may lack a shard that is there, and a clock may have been wrong when its row was written
        found = gone(listed | {shard.shard_id for shard in consumer.source.list_shards()})
    removed = sum(consumer.store.delete(lease) for lease in found)
    if removed:
        consumer.say(f"Removed the rows of {removed} completed shards that the stream has no more.")
    return removed
