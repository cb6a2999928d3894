# SPDX-License-Identifier: Apache-2.0
"""Reading one shard from its checkpoint into one slice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from shardbatch.core import lease as leases
from shardbatch.core import metrics
from shardbatch.core.expiry import Kept, tip_seen
from shardbatch.core.interval import CLOCKS_APART_MS
from shardbatch.core.lease import Lease
from shardbatch.core.limits import Budget
from shardbatch.core.ports import Page, SliceWriter
from shardbatch.core.position import SHARD_END
from shardbatch.core.slice import NOTHING_ODD, Slice
from shardbatch.core.stop import Stop
from shardbatch.core.waiting import NO_WAITING, Waiting
from shardbatch.run.batch_status import arrived
from shardbatch.run.consumer import Consumer
from shardbatch.run.continuity import Ancestors, Continuity
from shardbatch.run.hold import Held
from shardbatch.run.read_end import ReadEnd, told_lag
from shardbatch.run.shard_errors import Stopped, is_shards_own
from shardbatch.run.turns import Pages

if TYPE_CHECKING:
    import pyarrow as pa

NOTHING_FOUND = (
    "Shard {0}: nothing was read after {1} within the limits, and its tip was not seen ({2}). "
    "The next run begins at the same place. If that goes on, give a run more time (ReadLimits.duration): a long "
    "stretch without records has to be passed in one run."
)


@dataclass
class ShardRead:
    """What reading one shard needs; ``kept`` is asked once for all shards of a task, and so is ``ahead_ms``, by
    how much the stream's clock is ahead of this machine's. ``timed_by`` is the limit that ``deadline`` comes from.

    ``waited`` is told what the service's limits cost a read that leaves no slice to say so. ``stop`` ends the read, and
    what it has is dropped; ``hurry`` ends it, and what it has is landed. ``enrol`` sees to the children of a shard at
    its end, before that is landed. ``stream_time`` tells the stream's own time at a moment of both of this worker's
    clocks, the monotonic one first. ``came`` is told after every page what the shard came to. ``above`` are the rows of
    its ancestors, for all shards of a task. ``same_stream`` raises if the stream is another one than was claimed.
    """

    consumer: Consumer
    held: Held
    owner: str
    tip_ms: int
    deadline: float
    stop: threading.Event
    kept: Callable[[], Kept]
    waited: Callable[[Waiting], None] = lambda waiting: None
    hurry: threading.Event = field(default_factory=threading.Event)
    ahead_ms: Callable[[], int] = lambda: 0
    timed_by: Stop = Stop.DURATION
    enrol: Callable[[str, Page], Page] = lambda shard_id, end: end
    stream_time: Callable[[float, int], int] = lambda monotonic, now_ms: now_ms - CLOCKS_APART_MS
    came: Callable[[str, int, int, int | None, Waiting], None] = lambda *told: None
    above: Ancestors | None = None
    same_stream: Callable[[], None] = lambda: None


class _Tally:
    """What the pages of one shard came to."""

    def __init__(self, lease: Lease, read: ShardRead) -> None:
        self.budget = Budget(read.consumer.limits, read.tip_ms, read.deadline, timed_by=read.timed_by)
        self.lease = lease
        self.next = lease.checkpoint
        self.last: str | None = None
        self.first_arrival_ms: int | None = None
        self.last_arrival_ms: int | None = None
        self.lag: int | None = None
        self.caught_up_ms: int | None = None
        self.tip_ms: int | None = None
        self.stream_time = read.stream_time
        above = read.above or Ancestors(read.consumer)
        self.trail = Continuity(read.consumer, lease, read.kept, above, read.same_stream)
        self.oddities = NOTHING_ODD
        self.page: Page | None = None
        self.interval = read.consumer.interval
        self.end = ReadEnd(lease.shard_id, self.budget, self.interval, read.consumer.clock, read.ahead_ms)
        self.placed_ms: int | None = None
        self.waiting = NO_WAITING

    def add(self, page: Page) -> None:
        """Count a page."""
        self.page = page
        self.end.add(page, self.trail.taken_ms, moved=page.next != self.next)
        if page.next != self.next and not page.next.searching:
            self.last = page.next.sequence_number
        self.next = page.next
        self.oddities += page.oddities
        self.waiting += page.waiting
        if page.at_tip or page.lag_ms is not None:
            self.lag = 0 if page.at_tip else page.lag_ms
        rows = page.records.num_rows
        if rows:
            known = page.records.column("arrival_time").drop_null()
            if len(known) and self.first_arrival_ms is None:
                self.first_arrival_ms = known[0].value // 1000
            if len(known):
                self.last_arrival_ms = known[-1].value // 1000
        if page.at_tip and not page.ended:
            self.caught_up_ms = self.trail.look()
            self.tip_ms = self.stream_time(self.trail.seen_at, self.trail.seen_ms)

    def wanted(self, page: Page) -> pa.RecordBatch:
        """The records of a page that belong to the slice: all, or those that arrived within the interval."""
        records = page.records
        if self.interval is not None and records.num_rows:
            within = [at for at, ms in enumerate(self._times(records)) if ms is None or ms in self.interval]
            records = records.take(within) if within else records.slice(0, 0)
        self.budget.records += records.num_rows
        self.budget.bytes += records.column("data").nbytes
        return records

    def _times(self, records: pa.RecordBatch) -> Iterator[int | None]:
        """When each record arrived. One of unknown time counts as that before it, for records stand nearly in the order
        of their arrival; ``None`` if no time is known up to it: then it is delivered."""
        for micros in records.column("arrival_time").cast("int64").to_pylist():
            self.placed_ms = self.placed_ms if micros is None else micros // 1000
            yield self.placed_ms

    @property
    def nothing_told(self) -> bool:
        """Whether no gap is known that has an end: one that has none is told again, by the read that comes further."""
        return not any(gap.first_available for gap in self.trail.gaps[len(self.lease.skipped) :])

    def came_no_further(self, landed: Slice) -> bool:
        """Whether it has no more than a gap behind which nothing was seen, neither a record nor the tip. The next read
        begins at the same place and tells it; else each run would tell it anew."""
        stands = landed.records == 0 and not landed.ended and landed.until == landed.after
        return stands and self.caught_up_ms is None and not self.lease.skipped and self.nothing_told

    def done(self) -> bool:
        """Whether to stop after this page."""
        page = self.page
        if page is None:
            return False
        done = self.end.here(page, self.last_arrival_ms if page.records.num_rows else None)
        if self.end.seen_ms is not None:
            # No tip of the stream's clock: a lag may be a count or a flag, and a watermark is a promise.
            self.caught_up_ms = max(self.caught_up_ms or 0, self.end.seen_ms)
        return done


def read_shard(read: ShardRead) -> Pages:
    """Land what follows the checkpoint and store it on the lease; ``None`` when there was nothing new or it was lost.

    It stops after every page, where others may have their turn. When another try of this task stored its slice first,
    that one is the answer. An error of the source does not throw away what was read before it: that is landed, and the
    error is left on the lease in hand (``Held.cut``). An interval's slice that was cut short is read on.

    :raises Stopped: when the task was told to stop.
    :raises Exception: whatever the source raises before anything was read.
    """
    row = read.held.row
    lease, begun = (row, None) if row.pending is None else (leases.beyond(row), row.pending)
    writer = read.consumer.landing.slice(lease.namespace, lease.shard_id, lease.checkpoint, lease.tenure)
    tally: _Tally | None = None
    try:
        tally = _Tally(lease, read)
        yield from _pages(read, tally, writer)
        lost = read.held.lost
        if not lost:
            tally.end.require_answer(read.consumer.source.words.busy)
            if tally.end.cut is not None and tally.next == lease.checkpoint and tally.nothing_told:
                raise tally.end.cut
        read.held.stop = Stop.LOST if lost else _stop_of(read, tally)
        landed = None if lost else _slice(tally, writer)
        _tell_end(read, tally, read.held.stop, landed)
    except BaseException:
        if tally is not None:
            read.waited(tally.waiting)
        writer.abandon()
        raise
    finally:
        if tally is not None:
            _measure_waiting(read.consumer, tally.waiting)
    if landed is None:
        writer.abandon()
        return None
    _tell_oddities(read, landed)
    read.held.cut = tally.end.cut
    if landed.empty or tally.came_no_further(landed):
        read.waited(tally.waiting)
        writer.abandon()
        if read.hurry.is_set():
            return None  # the lease stays this task's, whose retry reads on
        if tally.caught_up_ms is None:
            read.consumer.warn(NOTHING_FOUND.format(lease.shard_id, lease.checkpoint, told_lag(tally.lag)))
        read.held.give_back(tally.caught_up_ms, tally.tip_ms)
    elif read.held.land(landed, begun):
        read.consumer.measure(metrics.READ_RECORDS, landed.records)
        read.consumer.measure(metrics.READ_BYTES, landed.raw_bytes)
    elif _unnamed(read.held, landed, begun):
        writer.abandon()
    return None if read.held.lost else read.held.row.pending


def _measure_waiting(consumer: Consumer, waiting: Waiting) -> None:
    consumer.measure(metrics.REFUSED_CALLS, waiting.refused)
    if waiting.seconds > 0:
        consumer.measure(metrics.WAITED, waiting.seconds * 1000)


def _tell_end(read: ShardRead, tally: _Tally, stop: Stop, landed: Slice | None) -> None:
    """Say from where to where the shard was read, and why no further; not of each that has nothing new, which most may
    be: their task names them in one line."""
    records = tally.budget.records
    if records or tally.waiting or stop is not Stop.TIP:
        when = "" if landed is None else arrived(landed.min_arrival_ms, landed.max_arrival_ms)
        when = f" that arrived {when}" if when else ""
        waited = f"; {tally.waiting}" if tally.waiting else ""
        read.consumer.say(
            f"Shard {read.held.shard_id}: {records} records{when}, from {tally.lease.checkpoint} to {tally.next}, "
            f"read {stop}{waited}."
        )


def _stop_of(read: ShardRead, tally: _Tally) -> Stop:
    if tally.end.stop is not None:
        return tally.end.stop
    return Stop.ERROR if tally.end.cut is not None else Stop.OTHERS if read.hurry.is_set() else Stop.SOURCE


def _tell_oddities(read: ShardRead, landed: Slice) -> None:
    """Warn of each kind that there is, by numbers of records."""
    odd = landed.oddities
    if not odd:
        return
    words = read.consumer.source.words
    for count, what in (
        (odd.foreign, words.foreign),
        (odd.broken, words.broken),
        (odd.dropped, words.dropped),
        (
            odd.below,
            "came that stand before the place that was asked for; they were left out. If they were never read, the "
            "server brings records late: 'airflow shardbatch reset --shard {} --to TRIM_HORIZON' reads all again that "
            "it still holds",
        ),
    ):
        if count:
            read.consumer.warn(f"Shard {landed.shard_id}: {count} records {what.format(landed.shard_id)}.")


def _unnamed(held: Held, landed: Slice, begun: Slice | None) -> bool:
    """Whether no row can name these files: an answer that was lost may hide that the slice was stored, and others may
    have taken, frozen or committed it since."""
    stored = held.row.pending
    same = stored is not None and set(landed.files) <= set(stored.files)  # it may have been read on since
    return not held.gone and held.row.checkpoint == (begun or landed).after and not same


def _pages(read: ShardRead, tally: _Tally, writer: SliceWriter) -> Generator[None, bool | None, None]:
    pages = tally.trail.pages()
    while True:
        try:
            page = next(pages, None)
        except Exception as error:
            if not is_shards_own(error):
                raise
            tally.end.cut = error  # whatever it is, what came before it is whole
            return
        if page is None:
            return
        if read.stop.is_set():
            raise Stopped
        if read.held.lost:
            return
        if page.ended:
            page, tally.end.cut = _enrolled(read, page)
        tally.add(page)
        read.held.children, read.held.leaf = page.children, page.leaf
        wanted = tally.wanted(page)
        if wanted.num_rows:
            writer.write(wanted)
        read.came(read.held.shard_id, tally.budget.records, tally.budget.bytes, tally.lag, tally.waiting)
        if tally.end.cut is not None or tally.done() or read.hurry.is_set():
            return
        if (yield):
            writer.rest()
            yield
        if tally.end.after_turns():
            return


def _enrolled(read: ShardRead, end: Page) -> tuple[Page, Exception | None]:
    """The end of the shard, its children seen to; or, with the error, an answer like any other, so that what is landed
    has not ended and a retry comes to the end again."""
    try:
        return read.enrol(read.held.shard_id, end), None
    except Exception as error:
        if not is_shards_own(error):
            raise
        return replace(end, ended=False, at_tip=False, lag_ms=None), error


def _slice(tally: _Tally, writer: SliceWriter) -> Slice:
    page = tally.page
    ended = page is not None and (page.ended or tally.end.interval_over)
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
        waiting=tally.waiting,
        tip_ms=tally.tip_ms,
    )
