# SPDX-License-Identifier: Apache-2.0
"""The stream's listing: shards that it lacks, and shards that lack a row."""

from __future__ import annotations

from collections.abc import Sequence

from shardbatch.core.application import Application
from shardbatch.core.interval import CLOCKS_APART_MS
from shardbatch.core.lease import Lease
from shardbatch.core.maintenance import missed
from shardbatch.core.planner import orphans
from shardbatch.core.shard import Shard
from shardbatch.core.shortlist import shortlist
from shardbatch.core.watermark import listed_whole
from shardbatch.errors import InvalidAnswer
from shardbatch.run.consumer import Consumer

#: How often a listing that has a hole is asked for, and how many seconds lie between (K-11).
LISTINGS = 3
PAUSE_SECONDS = 1.0


def list_shards(consumer: Consumer) -> Sequence[Shard]:
    """Every shard of the stream. While the source sees that a listing lacks some, it is asked for again.

    A reshard that runs between two pages makes such a hole in a listing. If the hole stays, the claim goes on with the
    listed shards and reports what is missing. No position moves past a missing shard, so the next listing repairs this.

    :raises InvalidAnswer: for an interval, which has no next listing.
    """
    listing: Sequence[Shard] = ()
    for turn in range(LISTINGS):
        if turn:
            consumer.clock.sleep(PAUSE_SECONDS)
        listing = consumer.source.list_shards()
        torn = consumer.source.missing(listing)
        if not torn:
            return listing
    told = f"In {LISTINGS} listings {torn} The stream is being resharded, or its listing is incomplete. "
    if consumer.interval is not None:
        raise InvalidAnswer(told + "An interval has no other listing: try again.")
    consumer.warn(
        f"{told}Nothing is lost: what stands there is read as soon as a listing has its shards. If it stays so, look "
        f"at the stream{consumer.source.words.look}."
    )
    return listing


def look_again(consumer: Consumer, listing: Sequence[Shard]) -> tuple[list[Shard], bool]:
    """A listing together with a second one taken right after it, which counts where they differ; and whether both are
    complete, so that a shard that neither contains is gone."""
    again = consumer.source.list_shards()
    found = {shard.shard_id: shard for shard in listing}
    found.update((shard.shard_id, shard) for shard in again)
    return list(found.values()), not any(consumer.source.missing(one) for one in (listing, again))


def find_parents(
    consumer: Consumer, listing: Sequence[Shard], rows: Sequence[Lease]
) -> tuple[Sequence[Shard], frozenset[str]]:
    """The listing, and the shards that wait because it is not known yet whether one of their parents is gone.

    If a shard's parent is not listed and has no row, that parent has expired, and the shard is read from its beginning.
    But a listing may lack a closed parent that still has records, and these come before its children's. So a parent
    counts as gone only if two complete listings in a row lack it. If there is no row yet, no shard waits: in an old
    stream, many shards have parents that are gone.
    """
    if not orphans(listing, rows):
        return listing, frozenset()
    both, whole = look_again(consumer, listing)
    if whole or not rows:
        return both, frozenset()
    waiting = frozenset(orphans(both, rows))
    if waiting:
        consumer.warn(
            f"{shortlist(sorted(waiting))} wait for a complete listing: this one lacks their parents and has holes. "
            "They are taken once two listings in a row are complete."
        )
    return both, waiting


def listing_begins(consumer: Consumer) -> int | None:
    """The stream's own time before a listing, where its shards have no ranges that show what a listing lacks; ``None``
    where they have, and beside the live application."""
    if consumer.interval is not None or consumer.source.capabilities.key_space is not None:
        return None
    there = consumer.source.clock_ms()
    return consumer.now_ms() - CLOCKS_APART_MS if there is None else there


def note_whole(
    consumer: Consumer,
    application: Application,
    begun_ms: int | None,
    listing: Sequence[Shard],
    rows: Sequence[Lease],
) -> None:
    """Note on the application's row that a listing was whole and all of it has rows (PROTOCOL C4). If others write the
    row meanwhile, the next claim notes it."""
    whole = begun_ms is not None and not consumer.source.missing(listing)
    if begun_ms is None or not whole or not listed_whole(listing, rows, lineage=consumer.source.capabilities.lineage):
        return
    consumer.store.replace(application, application.listed(begun_ms))


def tell_missed(consumer: Consumer, fresh: Sequence[Shard], listing: Sequence[Shard], rows: Sequence[Lease]) -> None:
    """Warn of shards that should have a row but do not, because they are read again from their beginning."""
    if not consumer.source.capabilities.lineage or consumer.interval is not None:
        return
    missing = missed(fresh, {shard.shard_id for shard in listing}, rows)
    if missing:
        consumer.warn(
            f"{shortlist(missing)}: no lease row, though this application has worked beside them. It was deleted, an "
            "earlier listing lacked the shard, or all its ancestors expired while no run claimed. It gets a new row "
            "and is read from its beginning (a shard without known parents: from the application's start); records of "
            "it that were committed before come again, in another batch. To have a shard read again, or not, use "
            "'airflow shardbatch reset' and delete no rows."
        )
