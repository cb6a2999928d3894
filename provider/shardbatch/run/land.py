# SPDX-License-Identifier: Apache-2.0
"""Read: lands the shards of one group in the staging area and stores each slice on its lease row (PROTOCOL L3, F)."""

from __future__ import annotations

import math
import threading
from collections import Counter
from dataclasses import dataclass, field
from functools import cache, partial

from shardbatch.core import metrics
from shardbatch.core.batch import BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.owner import Owner
from shardbatch.core.policies import ShardErrors
from shardbatch.core.shortlist import shortened, shortlist
from shardbatch.core.slice import NOTHING_ODD, Oddities, Slice
from shardbatch.core.stop import Stop
from shardbatch.core.waiting import NO_WAITING, Waiting
from shardbatch.errors import LeaseLost, SourceError, StagingError, StoreError
from shardbatch.run.archived_source import with_archive
from shardbatch.run.attempt import lost
from shardbatch.run.children import Children
from shardbatch.run.consumer import Consumer
from shardbatch.run.continuity import Ancestors, longest_ms
from shardbatch.run.enrol import require_same_stream
from shardbatch.run.expiry import ask_kept
from shardbatch.run.hold import Held, Renewal
from shardbatch.run.progress import Progress
from shardbatch.run.settle import read_batches
from shardbatch.run.shard_errors import Stopped, is_shards_own, named, told
from shardbatch.run.shard_read import ShardRead, read_shard
from shardbatch.run.staging_place import require_slices_here
from shardbatch.run.stream_clock import StreamClock
from shardbatch.run.turns import Pages, Reading, Turns

#: A shard that waits for its turn has it within this part of the time after which its read is begun anew.
WAIT_PART = 0.8
#: How much of an error's text goes into an answer; the log has it whole.
SHORT = 300


@dataclass
class Landed:
    """The result of one read task. ``stops`` counts what ended the read of each shard; ``errors`` names each shard that
    could not be read, with a short reason; ``slices`` are what the shards have landed, also in an earlier try."""

    records: int = 0
    bytes: int = 0
    shards: int = 0
    ended: int = 0
    gaps: int = 0
    lost: int = 0
    seconds: float = 0.0
    oddities: Oddities = NOTHING_ODD
    waiting: Waiting = NO_WAITING
    stops: Counter[Stop] = field(default_factory=Counter)
    errors: dict[str, str] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)

    def add(self, landed: Slice) -> None:
        """Count a slice."""
        self.slices.append(landed)
        self.records += landed.records
        self.bytes += landed.raw_bytes
        self.ended += landed.ended
        self.gaps += len(landed.gaps)
        self.oddities += landed.oddities
        self.waiting += landed.waiting


class _Task:
    """One read task at work: shards in, slices out, children of ended shards after them."""

    def __init__(
        self, consumer: Consumer, owner: str, group: str, tip_ms: int, stop: threading.Event, seconds: float
    ) -> None:
        self.consumer = consumer
        self.owner = owner
        self.group = group
        self.tip_ms = tip_ms
        self.stop = stop
        self.started = consumer.clock.monotonic()
        self.timed_by, left = _time_limit(consumer, tip_ms, seconds)
        self.deadline = self.started + left
        #: Set once the task is to fail, since a shard failed under ``shard_errors=fail`` or could not be landed: the
        #: others land what they have.
        self.hurry = threading.Event()
        self.renewal = Renewal(consumer)
        self.landed = Landed()
        self.lock = threading.Lock()
        self.first_error: BaseException | None = None
        self.unlanded: StagingError | None = None
        self.seen: set[str] = set()
        self.kept = cache(partial(ask_kept, consumer))
        self.same_stream = cache(partial(require_same_stream, consumer))
        self.ahead_ms = cache(self._ahead_ms)
        self.stream_clock = StreamClock(consumer)
        self.children = Children(consumer, owner, group)
        self.progress = Progress(consumer, group, tip_ms)
        #: Shards at their tip that had nothing new.
        self.quiet: list[str] = []
        self.above = Ancestors(consumer)

    def run(self, mine: list[Lease]) -> Landed:
        """Read every lease and the children that become ready."""
        limits, clock = self.consumer.limits, self.consumer.clock
        if self.deadline <= self.started:
            limit = "Airflow's limits"
            if limits.run_duration is not None:
                limit = f"run_duration ({limits.run_duration}) or {limit}"
            self.consumer.warn(
                f"The time for reading is over, by {limit}: one more answer of each shard is read, no more."
            )
        with self.renewal.running(), self.progress.running():
            turns = Turns(clock, limits.concurrency, self.deadline, self._longest_wait)
            turns.run([self._begin(lease) for lease in mine], self._finished, self.stop.set)
        if self.quiet:
            names = shortlist(sorted(self.quiet))
            self.consumer.say(f"{len(self.quiet)} shards had nothing new, read {Stop.TIP}: {names}.")
        self.landed.seconds = round(clock.monotonic() - self.started, 3)
        return self.landed

    def _begin(self, lease: Lease) -> Reading:
        held = Held(self.consumer, self.owner, lease)
        self.seen.add(lease.shard_id)
        self.renewal.add(held)
        self.progress.add(lease.shard_id)
        return Reading(held, self._pages(held))

    def _pages(self, held: Held) -> Pages:
        if self.stop.is_set():
            raise Stopped
        if held.row.pending is not None and not self._unfinished(held.row.pending):
            return held.row.pending
        if self.hurry.is_set():
            return None
        require_slices_here(self.consumer, [held.row])
        if self.consumer.interval is None:
            self.stream_clock.begin()
        read = ShardRead(
            self.consumer,
            held,
            self.owner,
            self.tip_ms,
            self.deadline,
            self.stop,
            self.kept,
            waited=self._waited,
            hurry=self.hurry,
            ahead_ms=self.ahead_ms,
            timed_by=self.timed_by,
            enrol=self.children.enrol,
            stream_time=self.stream_clock.at,
            came=self.progress.came,
            above=self.above,
            same_stream=self.same_stream,
        )
        return (yield from read_shard(read))

    def _longest_wait(self) -> float:
        return WAIT_PART * longest_ms(self.consumer.source.capabilities) / 1000

    def _waited(self, waiting: Waiting) -> None:
        with self.lock:
            self.landed.waiting += waiting

    def _unfinished(self, landed: Slice) -> bool:
        """Whether an interval's slice was cut short: a whole one has ended."""
        return self.consumer.interval is not None and not landed.ended

    def _ahead_ms(self) -> int:
        """By how much the stream's clock is ahead of this machine's; it may be told in whole seconds, cut off."""
        there = self.consumer.source.clock_ms()
        return 0 if there is None else there - self.consumer.now_ms()

    def _finished(self, reading: Reading, error: BaseException | None) -> list[Reading]:
        held, landed = reading.held, reading.landed
        self.progress.over(held.shard_id)
        if error is not None:
            if not isinstance(error, Exception) or not is_shards_own(error):
                raise error
            self._failed(held, error)
            self._count(held.stop)
            return []
        try:
            lost = held.lost
        except StoreError as silent:  # it was landed before, or not at all; it is unknown who has the lease
            self._failed(held, silent)
            self._count(held.stop)
            return []
        self._count(Stop.LOST if lost else held.stop)
        if lost:
            self.landed.lost += 1
            self.consumer.measure(metrics.LOST_RACES, 1)
            self.consumer.warn(f"The lease of {held.shard_id} was lost; its slice is dropped.")
            return []
        if landed is None and self.hurry.is_set():
            return []
        self.landed.shards += 1
        if landed is None:
            self.quiet += [held.shard_id] if held.stop is Stop.TIP else []
            return []
        with self.lock:
            self.landed.add(landed)
        if held.cut is not None or self._unfinished(landed):
            self._failed(held, held.cut or SourceError("Another try of this task reads on where this one began."))
        if not landed.ended:
            return []
        try:
            return [self._begin(child) for child in self._children(held, landed)]
        except Exception as failure:
            if not is_shards_own(failure):
                raise
            if self.consumer.interval is not None:  # no later run would read them
                self._failed(held, failure)
            else:
                text = "The children of {} are left to the next run: {}"
                self.consumer.warn(text.format(held.shard_id, told(failure)))
            return []

    def _count(self, stop: Stop | None) -> None:
        if stop is not None:  # it was read in this task
            self.landed.stops[stop] += 1

    def _failed(self, held: Held, error: Exception) -> None:
        """Note that a shard could not be read, or that its records could not be landed. The latter fails the task under
        every policy. If the task has to fail, the other shards stop and land what they have."""
        self.first_error = self.first_error or error
        self.landed.errors[held.shard_id] = shortened(named(error), SHORT)
        done = "noted on its lease" if isinstance(error, StoreError) else "read"
        if isinstance(error, StagingError):
            self.unlanded = self.unlanded or error
            done = "landed"
        after = "; what was read before is landed" if held.cut is error else ""
        self.consumer.warn(f"Shard {held.shard_id} could not be {done}{after}: {told(error)}")
        fails = self.unlanded is not None or self.consumer.policies.shard_errors is ShardErrors.FAIL
        if self.consumer.interval is None and fails:
            self.hurry.set()

    def _children(self, held: Held, landed: Slice) -> list[Lease]:
        """Take the children of an ended shard whose parents are all over for this owner, while there is time."""
        follow = self.consumer.options.drain_lineage or self.consumer.interval is not None
        late = self.consumer.interval is None and self.consumer.clock.monotonic() >= self.deadline
        if not follow or late or self.hurry.is_set():
            return []
        return self.children.take(held, landed, self.seen)


def land(
    consumer: Consumer,
    owner: Owner,
    group: str,
    tip_ms: int,
    stop: threading.Event | None = None,
    seconds: float = math.inf,
) -> Landed:
    """Read the shards of a group of this owner, each to its end, the stream's tip at ``tip_ms``, or a limit.

    A shard whose row already holds a slice is not read again, unless it is an interval's slice that was cut short. An
    error of one shard does not affect the others: what was read of that shard before is landed, and the result names
    the shard.

    :param seconds: time after which nothing more is read, whatever the limits say, default none. An interval that is
        not read by then fails, and a retry goes on.
    :raises LeaseLost: if every lease of the group was lost, even before this began.
    :raises StreamRecreated: if no shard could be read, because the stream is another one by now.
    :raises StagingError: if records of a shard could not be written, after the others are landed: a retry reads the
        rest.
    :raises Exception: the first shard's error, if no shard could be read; and under ``shard_errors=fail`` or in an
        interval, after all others are landed, if one could not be read.
    """
    me = str(owner)
    consumer = with_archive(consumer)
    mine = [
        lease
        for lease in consumer.leases(lease_owner=me, read_group=group)
        if lease.batch_id is None and not lease.completed
    ]
    if not mine:
        _require_done(consumer, me, group)
    mine.sort(key=lambda lease: (lease.millis_behind_latest is not None, -(lease.millis_behind_latest or 0)))
    task = _Task(consumer, me, group, tip_ms, stop or threading.Event(), seconds)
    landed = task.run(mine)
    consumer.say(_summary(group, landed))
    if mine and landed.shards == 0 and landed.lost >= len(mine):
        raise LeaseLost(f"All {len(mine)} leases of read task {group} went to others.")
    if task.unlanded is not None:
        raise task.unlanded
    all_or_none = consumer.interval is not None or consumer.policies.shard_errors is ShardErrors.FAIL
    if task.first_error is not None and (all_or_none or landed.shards == 0):
        raise task.first_error
    return landed


def _require_done(consumer: Consumer, me: str, group: str) -> None:
    """Check that nothing is left to read because this owner has frozen it, or is about to."""
    own = [batch for batch in consumer.batches_of(me) if batch.state is not BatchState.VOID]
    if own:
        consumer.say(f"Read task {group}: its slices are in batch {own[-1].batch_id}; nothing is read.")
        return
    stamped = read_batches(consumer, consumer.leases(lease_owner=me, read_group=group))
    for batch in stamped.values():
        if batch is not None and batch.state is not BatchState.VOID:
            raise lost(batch)
    if not stamped:
        raise LeaseLost(
            f"Read task {group} holds no lease any more, so nothing is read.",
            remedy="Nothing is lost: another run has them, or an earlier try of this task found nothing new and gave "
            "them back; then the next run reads on.",
        )


def _time_limit(consumer: Consumer, tip_ms: int, seconds: float) -> tuple[Stop, float]:
    """How long a task may read that begins now, and which limit says so; ``seconds`` is what Airflow's leave."""
    limits = consumer.limits
    if consumer.interval is not None:
        return Stop.AIRFLOW, seconds
    left = limits.seconds_left(tip_ms, consumer.now_ms())
    if seconds < left:
        return Stop.AIRFLOW, seconds
    return Stop.DURATION if left == limits.duration.total_seconds() else Stop.RUN_DURATION, left


def _summary(group: str, landed: Landed) -> str:
    parts: tuple[str, ...] = (
        f"{landed.records} records ({landed.bytes} bytes) of {landed.shards} shards",
        f"{landed.ended} ended",
        f"{landed.gaps} gaps",
        f"{len(landed.errors)} failed",
        *((str(landed.waiting),) if landed.waiting else ()),
    )
    text = "Read task {}: {} in {:.1f} s.".format(group, ", ".join(parts), landed.seconds)
    stops = ", ".join(f"{count} {stop}" for stop, count in sorted(landed.stops.items()))
    return f"{text} Shards were read: {stops}." if stops else text
