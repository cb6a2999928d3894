# SPDX-License-Identifier: Apache-2.0
"""Read: the shards of one group into the staging area, each slice stored on its lease row (PROTOCOL L3, F)."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from functools import cache, partial

from shardbatch.consumer.attempt import lost
from shardbatch.consumer.consumer import Consumer, Verdicts, first_count
from shardbatch.consumer.expiry import ask_kept
from shardbatch.consumer.hold import Held, Renewal
from shardbatch.consumer.settle import read_batches
from shardbatch.consumer.shard_read import ShardRead, Stopped, read_shard
from shardbatch.consumer.turns import Pages, Reading, Turns
from shardbatch.core import lease as leases
from shardbatch.core.batch import BatchState
from shardbatch.core.expiry import born_after
from shardbatch.core.lease import Lease
from shardbatch.core.owner import Owner
from shardbatch.core.planner import ready_child
from shardbatch.core.policies import ShardErrors
from shardbatch.core.ports import Verdict
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.shard import Shard
from shardbatch.core.slice import NOTHING_ODD, Oddities, Slice
from shardbatch.errors import LeaseLost, OwnerUnknown, ShardbatchError

#: How much of an error's text goes into an answer; the log has it whole.
SHORT = 300


@dataclass
class Landed:
    """What one read task did. ``errors`` names each shard that could not be read, with the reason in short."""

    records: int = 0
    bytes: int = 0
    shards: int = 0
    ended: int = 0
    gaps: int = 0
    lost: int = 0
    seconds: float = 0.0
    oddities: Oddities = NOTHING_ODD
    errors: dict[str, str] = field(default_factory=dict)

    def add(self, landed: Slice) -> None:
        """Count a slice."""
        self.records += landed.records
        self.bytes += landed.raw_bytes
        self.ended += landed.ended
        self.gaps += len(landed.gaps)
        self.oddities += landed.oddities


class _Task:
    """One read task at work: shards in, slices out, children of ended shards after them."""

    def __init__(self, consumer: Consumer, owner: str, group: str, tip_ms: int, stop: threading.Event) -> None:
        self.consumer = consumer
        self.owner = owner
        self.group = group
        self.tip_ms = tip_ms
        self.stop = stop
        self.started = consumer.clock.monotonic()
        self.deadline = math.inf
        if consumer.interval is None:
            self.deadline = self.started + consumer.limits.seconds_left(tip_ms, consumer.now_ms())
        self.renewal = Renewal(consumer)
        self.landed = Landed()
        self.first_error: BaseException | None = None
        self.seen: set[str] = set()
        self.listing: dict[str, Shard] = {}
        self.kept = cache(partial(ask_kept, consumer))
        self.verdicts = Verdicts(consumer, owner)

    def run(self, mine: list[Lease]) -> Landed:
        """Read every lease and the children that become ready."""
        limits, clock = self.consumer.limits, self.consumer.clock
        if self.deadline <= self.started:
            text = "The run began {} or longer ago: one answer of each shard is read, and the next run goes on."
            self.consumer.warn(text.format(limits.run_duration))
        with self.renewal.running():
            turns = Turns(clock, limits.concurrency, self.deadline)
            turns.run([self._begin(lease) for lease in mine], self._finished, self.stop.set)
        self.landed.seconds = round(clock.monotonic() - self.started, 3)
        return self.landed

    def _begin(self, lease: Lease) -> Reading:
        held = Held(self.consumer, self.owner, lease)
        self.seen.add(lease.shard_id)
        self.renewal.add(held)
        return Reading(held, self._pages(held))

    def _pages(self, held: Held) -> Pages:
        if self.stop.is_set():
            raise Stopped
        if held.row.pending is not None:
            return held.row.pending
        read = ShardRead(self.consumer, held, self.owner, self.tip_ms, self.deadline, self.stop, self.kept)
        return (yield from read_shard(read))

    def _finished(self, reading: Reading, error: BaseException | None) -> list[Reading]:
        held, landed = reading.held, reading.landed
        if isinstance(error, ShardbatchError):
            self._failed(held, error)
            return []
        if error is not None:
            raise error
        if held.lost:
            self.landed.lost += 1
            self.consumer.warn("The lease of {} was lost; its slice is dropped.".format(held.shard_id))
            return []
        self.landed.shards += 1
        if landed is None:
            return []
        self.landed.add(landed)
        return [self._begin(child) for child in self._children(held, landed)] if landed.ended else []

    def _failed(self, held: Held, error: ShardbatchError) -> None:
        self.first_error = self.first_error or error
        self.landed.errors[held.shard_id] = str(error)[:SHORT]
        self.consumer.warn("Shard {} could not be read: {}".format(held.shard_id, error))
        if self.consumer.policies.shard_errors is ShardErrors.FAIL or self.consumer.interval is not None:
            raise error  # no later run would read the rest of an interval

    def _children(self, held: Held, landed: Slice) -> list[Lease]:
        """Take the children of an ended shard whose parents are all over for this owner, while there is time."""
        follow = self.consumer.options.drain_lineage or self.consumer.interval is not None
        if not follow or self.consumer.clock.monotonic() >= self.deadline:
            return []
        children = {shard.shard_id: shard for shard in self._unlisted(held.shard_id)}
        children.update((shard.shard_id, shard) for shard in held.children or self._listed(held.shard_id, landed))
        ready: list[Lease] = []
        for shard_id in sorted(children.keys() - self.seen):
            taken = self._take_child(children[shard_id])
            if taken is not None:
                ready.append(taken)
        return ready

    def _listed(self, parent: str, landed: Slice) -> list[Shard]:
        """Children as the stream lists them. One listing serves all shards of the task whose children it has."""

        def found() -> list[Shard]:
            shards = self.listing.values()
            return [shard for shard in shards if parent in shard.parent_shard_ids or shard.shard_id in landed.children]

        if not found() or not self.listing.keys() >= set(landed.children):
            self._list()
        return found()

    def _list(self) -> None:
        self.listing = {shard.shard_id: shard for shard in self.consumer.source.list_shards()}

    def _unlisted(self, parent: str) -> list[Shard]:
        """Children of an interval's shard that have a row and left the listing since: no later run would read them."""
        if self.consumer.interval is None:
            return []
        rows = [row for row in self.consumer.leases() if parent in row.parent_shard_ids]
        return [Shard(row.shard_id, row.parent_shard_ids, closed=True) for row in rows]

    def _over(self, owner: str) -> bool:
        """Whether a lease may be taken from this owner (E): what it landed before it died is read on from here."""
        try:
            return self.verdicts(owner) is Verdict.OVER
        except OwnerUnknown as error:
            self.consumer.warn("Its shard stays with {}: {}".format(owner, error))
            return False

    def _take_child(self, child: Shard) -> Lease | None:
        parents = {parent: self.consumer.lease(parent) for parent in child.parent_shard_ids}
        absent = [parent for parent, row in parents.items() if row is None]
        if absent and child.shard_id not in self.listing:
            self._list()
        if any(parent in self.listing for parent in absent):
            return None  # that parent is younger than the claim: the next one gives it a row
        if not ready_child(child, parents, self.owner):
            return None
        row = self.consumer.lease(child.shard_id) or self._added(child)
        if row is None or row.completed or row.batch_id is not None:
            return None
        if row.lease_owner == self.owner:
            return row if row.read_group == self.group else None
        if row.lease_owner is not None and not self._over(row.lease_owner):
            return None
        taken = leases.take(row, self.owner, self.group, self.consumer.now_ms())
        if not self.consumer.store.replace(row, taken):
            return None
        self.consumer.say("Shard {} follows its parents in this run.".format(child.shard_id))
        return taken

    def _added(self, child: Shard) -> Lease | None:
        """The row of a child that is younger than the claim. This task may be late too: its age is told as by a claim,
        but for an interval, whose rows tell nothing of looks that came before."""
        consumer = self.consumer
        born = born_after(child, consumer.lease, consumer.now_ms()) if consumer.interval is None else None
        fresh = leases.add(
            consumer.namespace,
            consumer.scope,
            child,
            TRIM_HORIZON,
            first_count(),
            consumer.now_ms(),
            born.ms if born else None,
        )
        return fresh if consumer.store.create(fresh) else consumer.lease(child.shard_id)


def land(consumer: Consumer, owner: Owner, group: str, tip_ms: int, stop: threading.Event | None = None) -> Landed:
    """Read the shards of a group of this owner, each to its end, the stream's tip at ``tip_ms``, or a limit.

    A shard whose row holds a slice already is not read anew. Under ``shard_errors=isolate`` a shard that cannot be read
    is left out, unless that leaves none.

    :raises LeaseLost: if every lease of the group was lost, be it before this began.
    :raises SourceError: if no shard of the group could be read, or one could not under ``shard_errors=fail``.
    """
    me = str(owner)
    mine = [
        lease
        for lease in consumer.leases(lease_owner=me, read_group=group)
        if lease.batch_id is None and not lease.completed
    ]
    if not mine:
        _require_done(consumer, me, group)
    mine.sort(key=lambda lease: (lease.millis_behind_latest is not None, -(lease.millis_behind_latest or 0)))
    task = _Task(consumer, me, group, tip_ms, stop or threading.Event())
    landed = task.run(mine)
    consumer.say(_summary(group, landed))
    if mine and landed.shards == 0 and landed.lost >= len(mine):
        raise LeaseLost("All {} leases of read task {} went to others.".format(len(mine), group))
    if task.first_error is not None and landed.shards == 0:
        raise task.first_error
    return landed


def _require_done(consumer: Consumer, me: str, group: str) -> None:
    """See that nothing is left to read because this owner has frozen it, or is about to."""
    own = [batch for batch in consumer.batches_of(me) if batch.state is not BatchState.VOID]
    if own:
        consumer.say("Read task {}: its slices are in batch {}; nothing is read.".format(group, own[-1].batch_id))
        return
    stamped = read_batches(consumer, consumer.leases(lease_owner=me, read_group=group))
    for batch in stamped.values():
        if batch is not None and batch.state is not BatchState.VOID:
            raise lost(batch)
    if not stamped:
        raise LeaseLost(
            "Read task {} holds no lease any more, so nothing is read.".format(group),
            remedy="Nothing is lost: another run has them, or an earlier try of this task found nothing new and gave "
            "them back; then the next run reads on.",
        )


def _summary(group: str, landed: Landed) -> str:
    parts: tuple[str, ...] = (
        "{} records ({} bytes) of {} shards".format(landed.records, landed.bytes, landed.shards),
        "{} ended".format(landed.ended),
        "{} gaps".format(landed.gaps),
        "{} failed".format(len(landed.errors)),
    )
    return "Read task {}: {} in {:.1f} s.".format(group, ", ".join(parts), landed.seconds)
