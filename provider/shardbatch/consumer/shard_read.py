# SPDX-License-Identifier: Apache-2.0
"""Reading one shard from its checkpoint into one slice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardbatch.consumer.consumer import Consumer
from shardbatch.consumer.continuity import Continuity
from shardbatch.consumer.hold import Held
from shardbatch.consumer.turns import Pages
from shardbatch.core.expiry import Kept, tip_seen
from shardbatch.core.lease import Lease
from shardbatch.core.limits import Budget
from shardbatch.core.ports import Page, SliceWriter
from shardbatch.core.position import SHARD_END
from shardbatch.core.slice import NOTHING_ODD, Slice

if TYPE_CHECKING:
    import pyarrow as pa

#: Seconds between two lines of progress of one shard.
PROGRESS_EVERY = 15.0
NOTHING_FOUND = (
    "Shard {0}: nothing was read after {1} within the limits, and its tip was not seen ({2} ms behind, it is said). "
    "The next run begins at the same place. If that goes on, give a run more time (ReadLimits.duration), or pass "
    "over what has no records: airflow shardbatch reset --shard {0} --to INSTANT."
)


class Stopped(Exception):
    """The task was told to stop; nothing was stored, and the next try reads anew."""


@dataclass
class ShardRead:
    """What reading one shard needs; ``kept`` is asked once for all shards of a task."""

    consumer: Consumer
    held: Held
    owner: str
    tip_ms: int
    deadline: float
    stop: threading.Event
    kept: Callable[[], Kept]


class _Tally:
    """What the pages of one shard came to."""

    def __init__(self, lease: Lease, read: ShardRead) -> None:
        self.budget = Budget(read.consumer.limits, read.tip_ms, read.deadline)
        self.lease = lease
        self.next = lease.checkpoint
        self.last: str | None = None
        self.first_arrival_ms: int | None = None
        self.last_arrival_ms: int | None = None
        self.lag: int | None = None
        self.caught_up_ms: int | None = None
        self.trail = Continuity(read.consumer, lease, read.kept)
        self.oddities = NOTHING_ODD
        self.page: Page | None = None
        self.interval = read.consumer.interval
        self.interval_over = False

    def add(self, page: Page) -> None:
        """Count a page."""
        self.page = page
        if page.next != self.next:
            self.last = page.next.sequence_number
        self.next = page.next
        self.oddities += page.oddities
        self.lag = page.millis_behind_latest
        rows = page.records.num_rows
        if rows:
            arrivals = page.records.column("arrival_time")
            if self.first_arrival_ms is None:
                self.first_arrival_ms = arrivals[0].value // 1000
            self.last_arrival_ms = arrivals[rows - 1].value // 1000
        elif page.millis_behind_latest == 0 and not page.ended:  # beside records it says nothing, see Budget.at_tip
            self.caught_up_ms = self.trail.look()

    def wanted(self, page: Page) -> pa.RecordBatch:
        """The records of a page that belong to the slice: all, or those that arrived within the interval."""
        records = page.records
        if self.interval is not None and records.num_rows:
            arrivals = records.column("arrival_time").cast("int64").to_pylist()
            within = [at for at, micros in enumerate(arrivals) if micros // 1000 in self.interval]
            records = records.take(within) if within else records.slice(0, 0)
        self.budget.records += records.num_rows
        self.budget.bytes += records.column("data").nbytes
        return records

    def done(self, monotonic: float) -> bool:
        """Whether to stop after this page."""
        page = self.page
        if page is None or page.ended:
            return page is not None
        arrival = self.last_arrival_ms if page.records.num_rows else None
        if self.interval is not None:
            passed = arrival is not None and self.interval.passed(arrival)
            self.interval_over = passed or (page.records.num_rows == 0 and page.millis_behind_latest == 0)
            return self.interval_over
        if self.budget.at_tip(page.records.num_rows, arrival, page.millis_behind_latest):
            return True
        return self.budget.spent(monotonic) is not None


def read_shard(read: ShardRead) -> Pages:
    """Land what follows the checkpoint and store it on the lease; ``None`` when there was nothing new or it was lost.

    It stops after every page, where others may have their turn. When another try of this task stored its slice first,
    that one is the answer.

    :raises Stopped: when the task was told to stop.
    :raises SourceError: when the shard cannot be read.
    """
    lease = read.held.row
    writer = read.consumer.landing.slice(lease.namespace, lease.shard_id, lease.checkpoint)
    tally = _Tally(lease, read)
    try:
        yield from _pages(read, tally, writer)
    except BaseException:
        writer.abandon()
        raise
    if read.held.lost:
        writer.abandon()
        return None
    landed = _slice(tally, writer)
    _tell_oddities(read, landed)
    if landed.empty:
        writer.abandon()
        if tally.caught_up_ms is None:
            read.consumer.warn(NOTHING_FOUND.format(lease.shard_id, lease.checkpoint, tally.lag))
        read.held.give_back(tally.caught_up_ms)
    elif not read.held.land(landed) and _unnamed(read.held, landed):
        writer.abandon()
    return None if read.held.lost else read.held.row.pending


def _tell_oddities(read: ShardRead, landed: Slice) -> None:
    """Warn of each kind that there is, by numbers of records."""
    odd = landed.oddities
    for count, what in (
        (odd.foreign, "belong to another shard by their hash key; they were delivered"),
        (odd.broken, "look like aggregates and cannot be taken apart; they were delivered as they are"),
        (odd.dropped, "are in aggregates that hold some of another shard; these were DROPPED, as the stream says"),
    ):
        if count:
            read.consumer.warn("Shard {}: {} records {}.".format(landed.shard_id, count, what))


def _unnamed(held: Held, landed: Slice) -> bool:
    """Whether no row can name these files: an answer that was lost may hide that the slice was stored, and others may
    have taken, frozen or committed it since."""
    stored = held.row.pending
    same = stored is not None and stored.files == landed.files  # its gap may have been accepted since
    return not held.gone and held.row.checkpoint == landed.after and not same


def _pages(read: ShardRead, tally: _Tally, writer: SliceWriter) -> Generator[None, bool | None, None]:
    clock = read.consumer.clock
    shown = clock.monotonic()
    pages = tally.trail.pages()
    for page in pages:
        if read.stop.is_set():
            raise Stopped
        if read.held.lost:
            return
        tally.add(page)
        read.held.children = page.children
        wanted = tally.wanted(page)
        if wanted.num_rows:
            writer.write(wanted)
        if clock.monotonic() - shown > PROGRESS_EVERY:
            shown = clock.monotonic()
            read.consumer.say(
                "Shard {}: {} records so far, {} ms behind.".format(
                    tally.lease.shard_id, tally.budget.records, tally.lag
                )
            )
        if tally.done(clock.monotonic()):
            return
        if (yield):
            writer.rest()
            yield
        if read.deadline <= clock.monotonic():
            return  # it went by while others had their turn


def _slice(tally: _Tally, writer: SliceWriter) -> Slice:
    page = tally.page
    ended = page is not None and (page.ended or tally.interval_over)
    files = writer.finish() if tally.budget.records else ()
    least, greatest = writer.arrivals_ms or (None, None)
    # Of a shard that ended no later look will tell: this one bounds the age of its children.
    looked = tip_seen(tally.lease, tally.trail.now_ms) if ended else None
    return Slice(
        shard_id=tally.lease.shard_id,
        after=tally.lease.checkpoint,
        until=SHARD_END if ended else tally.next,
        ended=ended,
        files=files,
        records=tally.budget.records,
        raw_bytes=tally.budget.bytes,
        last=tally.last,
        first_arrival_ms=tally.first_arrival_ms,
        last_arrival_ms=tally.last_arrival_ms,
        millis_behind_latest=tally.lag,
        caught_up_ms=looked if tally.caught_up_ms is None else tally.caught_up_ms,
        children=tuple(child.shard_id for child in page.children) if page is not None else (),
        gaps=tally.trail.gaps,
        oddities=tally.oddities,
        min_arrival_ms=least,
        max_arrival_ms=greatest,
    )
