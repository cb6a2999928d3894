# SPDX-License-Identifier: Apache-2.0
"""The stream's listing: what it lacks, and which of its shards lack a row."""

from __future__ import annotations

from collections.abc import Sequence

from shardbatch.consumer.consumer import Consumer
from shardbatch.core.lease import Lease
from shardbatch.core.maintenance import missed
from shardbatch.core.shard import MAX_HASH_KEY, HashRange, Shard, childless, holes

#: How often a listing that has a hole is asked for, and how many seconds lie between (K-11: as KCL does).
LISTINGS = 3
PAUSE_SECONDS = 1.0
#: How many shards, or ranges, a message names.
NAMED = 5


def list_shards(consumer: Consumer) -> Sequence[Shard]:
    """Every shard of the stream. While the open shards leave a part of the hash space out, the listing is repeated.

    A reshard that runs between two pages tears a listing so. If it stays torn, the claim goes on with what there is and
    says what is missing: no position moves past anything, so the next listing makes it good.
    """
    listing: Sequence[Shard] = ()
    for turn in range(LISTINGS):
        if turn:
            consumer.clock.sleep(PAUSE_SECONDS)
        listing = consumer.source.list_shards()
        found = uncovered(listing)
        if not found:
            return listing
    consumer.warn(_report(listing, found))
    return listing


def uncovered(listing: Sequence[Shard]) -> list[HashRange]:
    """The parts of the hash space that no open shard covers; nothing for a source without hash ranges."""
    if all(shard.hash_range is None for shard in listing):
        return []
    return holes(shard.hash_range for shard in listing if not shard.closed and shard.hash_range is not None)


def _report(listing: Sequence[Shard], found: Sequence[HashRange]) -> str:
    share = sum(hole.end - hole.start + 1 for hole in found) / (MAX_HASH_KEY + 1)
    text = "In {} listings no open shard covers {:.4%} of the hash keys: {}.".format(LISTINGS, share, named(found))
    torn = childless(listing)
    if torn:
        text += " {} closed, and no child of theirs is listed.".format(named([shard.shard_id for shard in torn]))
    return text + (
        " The stream is being resharded, or its listing is incomplete. Nothing is lost: what stands there is read as"
        " soon as a listing has its shards. If it stays so, look at the stream with 'aws kinesis list-shards'."
    )


def tell_missed(consumer: Consumer, fresh: Sequence[Shard], listing: Sequence[Shard], rows: Sequence[Lease]) -> None:
    """Warn of shards without a row that should have one: that they are read from their beginning may surprise."""
    if not consumer.source.capabilities.lineage or consumer.interval is not None:
        return
    missing = missed(fresh, {shard.shard_id for shard in listing}, rows)
    if missing:
        consumer.warn(
            "{}: no lease row, though this application has worked beside them. It was deleted, an earlier listing "
            "lacked the shard, or all that it comes from expired while nobody claimed. It gets a new row and is read "
            "from its beginning (a shard without known parents: from the application's start); records of it that "
            "were committed before come again, in another batch. To have a shard read again, or not, use 'airflow "
            "shardbatch reset' and delete no rows.".format(named(missing))
        )


def named(items: Sequence[object]) -> str:
    """The first of them, and how many more there are."""
    more = len(items) - NAMED
    return ", ".join(map(str, items[:NAMED])) + (" and {} more".format(more) if more > 0 else "")
