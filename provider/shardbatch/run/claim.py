# SPDX-License-Identifier: Apache-2.0
"""Claim: finds what a run works on (PROTOCOL D6, E, F).

In this order: the run's own unfinished batch, its own committed batch (a replay), a frozen batch of an owner that has
finished, leases.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from shardbatch.core import batch as batches
from shardbatch.core import lease as leases
from shardbatch.core import metrics
from shardbatch.core.application import Application
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.looks import Looks
from shardbatch.core.owner import Owner
from shardbatch.core.planner import Plan, ReadGroup, fair_share, label, plan, spread
from shardbatch.core.ports import Verdict
from shardbatch.core.shortlist import shortlist
from shardbatch.errors import BatchParked, Starving
from shardbatch.run.archived_source import ArchivedSource, with_archive
from shardbatch.run.attempt import require_kept
from shardbatch.run.batch_status import utc
from shardbatch.run.consumer import Consumer, Verdicts
from shardbatch.run.coverage import require_covered
from shardbatch.run.enrol import add_rows, enrol, look_again
from shardbatch.run.expiry import warn_of_expiry
from shardbatch.run.instants import reached, require_instants
from shardbatch.run.listing import find_parents, list_shards, listing_begins, note_whole
from shardbatch.run.maintenance import compact
from shardbatch.run.measures import measure_state
from shardbatch.run.replay import look
from shardbatch.run.settle import Stamped, read_batches, settle
from shardbatch.run.staging_place import require_batch_here, require_folder, require_slices_here
from shardbatch.run.watch import abandoned, described, stood_still, untaken, waiting_ms

#: How often a claim looks again when others take what it chose just before it does.
MOST_LOOKS = 4
#: Shards of others of which a claim logs each.
MOST_HELD = 20


class Outcome(StrEnum):
    """The kind of work that a claim found."""

    LEASES = "leases"
    OWN_BATCH = "own_batch"
    REPLAY = "replay"
    ADOPTED = "adopted"
    NOTHING = "nothing"
    HELD = "held"


@dataclass(frozen=True)
class Claim:
    """The result of a claim: read groups for new records, or the batch that this run finishes instead."""

    outcome: Outcome
    groups: tuple[ReadGroup, ...] = ()
    batch_id: str | None = None
    shards: int = 0
    held: tuple[str, ...] = ()

    @property
    def nothing(self) -> str:
        """Why this run has nothing to do, in one line; empty if it has."""
        if self.outcome is Outcome.NOTHING:
            return "Nothing new: every known shard is completed, or waits for its parents or its instant."
        if self.outcome is Outcome.HELD:
            return f"Nothing was read: others hold {len(self.held)} shards: {shortlist(self.held, most=3)}."
        return ""


def claim(consumer: Consumer, owner: Owner, looks: Looks | None = None) -> Claim:
    """Find this run's work.

    A claim that raises :class:`LookAgain` has taken nothing in that pass. Its next pass is another try of its owner.

    :param looks: for a caller that can come back: what earlier passes saw. Default: it waits until it knows.
    :raises LookAgain: if it has to watch whether rows of others change, or its interval is not over yet, and its caller
        can come back.
    :raises OwnerUnknown: if nothing can be taken, and Airflow cannot say whether an owner is over.
    :raises GapFound: if records of an interval are neither in the stream nor in the archive.
    :raises Starving: if nothing can be taken and records have waited for longer than ``stuck_after``.
    :raises SourceError: if none of the unread shards of an interval can be taken.
    :raises ConfigurationError: if a shard was reset to an instant, and the stream cannot be read from one.
    :raises StreamRecreated: if the stream under this name is another one.
    :raises ApplicationTaken: if another group claims this application, and this one is not set to share it.
    :raises ImportUnfinished: if leases of another library are being taken over into this application.
    :raises BatchParked: if this run's own batch waits for a person.
    :raises ReplayRefused: if the batch that this run was told to replay is not committed, or its owner is at work.
    :raises SlicesGone: if files of that batch are no longer in staging.
    :raises StagingMissing: if the staging folder does not exist, and this application has rows.
    :raises StagingMoved: if unfinished slices or batches are in another staging folder than this run's.
    :raises UnsupportedSchema: if the application's rows are not of this version.
    :raises ApplicationRemoved: if a person removed the application.
    """
    me = str(owner)
    consumer.store.prepare()
    consumer.require_version()
    require_folder(consumer)
    if consumer.replay is not None:
        return Claim(Outcome.REPLAY, batch_id=look(consumer, owner, consumer.replay).batch_id)
    application = enrol(consumer, owner, looks)
    consumer = with_archive(consumer)
    verdicts = Verdicts(consumer, me)
    rows = consumer.leases()
    application = look_again(consumer, application)
    stamped = read_batches(consumer, rows)
    measure_state(consumer, application, rows, stamped)
    held = unfinished(consumer, me, verdicts, stamped) or _adopt_gone(
        consumer, me, verdicts, stamped, application, looks
    )
    if held is not None:
        return held
    rows = settle(consumer, rows, stamped, me, lambda lease: verdicts(lease.lease_owner or "") is Verdict.OVER)
    require_instants(consumer, application, rows)
    # Before the listing: what that lacks of the children of a shard whose instant has come was born after it.
    places = [application.start_position, *(row.checkpoint for row in rows if not row.completed)]
    reached_ms = reached(consumer, places)
    begun_ms = listing_begins(consumer)
    listing, orphaned = find_parents(consumer, list_shards(consumer), rows)
    listed = {shard.shard_id for shard in listing}
    lost = None
    if isinstance(consumer.source, ArchivedSource):
        begun = {row.shard_id for row in rows if row.pending is not None or row.checkpoint.exact}
        fresh = [shard.shard_id for shard in listing if shard.shard_id not in begun]
        lost = require_covered(consumer, consumer.source.archive, fresh, application.start_position)
    rows = add_rows(consumer, listing, rows, application, orphaned, reached_ms, lost)
    note_whole(consumer, application, begun_ms, listing, rows)
    warn_of_expiry(consumer, application, rows)
    for _ in range(MOST_LOOKS):
        found, rows = _plan(consumer, me, verdicts, rows, listed, orphaned, stamped, application, looks, reached_ms)
        groups = _take(consumer, me, found)
        if groups or not found.takeable:
            break
        rows = consumer.leases()  # another claim took all that this one chose: what it left may be free
        stamped = read_batches(consumer, rows)
    compact(consumer, rows, listed, application)
    _tell_ahead(consumer, found, application, reached_ms)
    if groups:
        shards = sum(len(members) for members in groups.values())
        tasks = tuple(ReadGroup(name, label(name, members)) for name, members in sorted(groups.items()))
        consumer.say(f"Claimed {shards} shards in {len(tasks)} read tasks.")
        return Claim(Outcome.LEASES, tasks, shards=shards)
    gone = _adopt_gone(consumer, me, verdicts, stamped, application, looks, nothing_else=True)
    if gone is None and verdicts.unknown is not None:
        raise verdicts.unknown  # there is nothing else, and it may be free
    return gone or _nothing(consumer, found, stamped)


def unfinished(consumer: Consumer, me: str, verdicts: Verdicts, stamped: Stamped) -> Claim | None:
    """The batch that this run has to finish before it reads new records, if there is one."""
    frozen = [batch for batch in stamped.values() if batch is not None and batch.state is BatchState.FROZEN]
    for batch in sorted(frozen, key=lambda item: item.batch_id):
        if batch.owner == me and (held := _own(consumer, me, _after_policy(consumer, batch))):
            return held
    own = [batch for batch in consumer.batches_of(me) if batch.state is not BatchState.VOID]
    if own and own[-1].state is not BatchState.FROZEN and (held := _own(consumer, me, own[-1])):
        return held
    for batch in sorted(frozen, key=lambda item: item.batch_id):
        if batch.owner == me or verdicts(batch.owner) is not Verdict.OVER:
            continue
        current = _after_policy(consumer, batch)
        if current is not None and (adopted := _adopt_over(consumer, me, current, batch.owner)):
            return adopted
    return None


def _own(consumer: Consumer, me: str, batch: Batch | None) -> Claim | None:
    """What a run does about a batch that it froze; nothing if that is void, or another's by now."""
    if batch is None or batch.owner != me or batch.state is BatchState.VOID:
        return None
    if batch.state is BatchState.PARKED:
        raise BatchParked(f"Batch {batch.batch_id} of this run waits for a person: {batch.note}.")
    if batch.state is BatchState.COMMITTED:
        require_kept(batch)
        consumer.say(f"This run has committed batch {batch.batch_id}: a replay, no new records.")
        return Claim(Outcome.REPLAY, batch_id=batch.batch_id)
    require_batch_here(consumer, batch)
    consumer.say(f"This run goes on with its own batch {batch.batch_id}.")
    return Claim(Outcome.OWN_BATCH, batch_id=batch.batch_id)


def _adopt_over(consumer: Consumer, me: str, batch: Batch, over: str) -> Claim | None:
    """Adopt a batch of a run that has finished, even while a task that it left behind still updates the batch's row."""
    current: Batch | None = batch
    while current is not None and current.state is BatchState.FROZEN and current.owner == over:
        if adopted := _adopt(consumer, me, current):
            return adopted
        current = consumer.batch(batch.batch_id)
    return None


def _adopt(consumer: Consumer, me: str, batch: Batch) -> Claim | None:
    require_batch_here(consumer, batch)
    if not consumer.store.replace(batch, batches.adopt(batch, me)):
        consumer.measure(metrics.LOST_RACES, 1)
        return None
    consumer.say("Adopted batch {} of {}, which is over.".format(batch.batch_id, batch.owner or "no owner"))
    return Claim(Outcome.ADOPTED, batch_id=batch.batch_id)


def _adopt_gone(
    consumer: Consumer,
    me: str,
    verdicts: Verdicts,
    stamped: Stamped,
    application: Application,
    looks: Looks | None,
    *,
    nothing_else: bool = False,
) -> Claim | None:
    """A frozen batch of a run that this Airflow no longer has, once its row has not changed for long (PROTOCOL E5, B3).

    A batch of another deployment waits for a person.
    """
    frozen = [batch for batch in stamped.values() if batch is not None and batch.state is BatchState.FROZEN]
    gone = [batch for batch in frozen if verdicts(batch.owner) is Verdict.GONE]
    for batch in abandoned(consumer, gone, application, all_of_them=nothing_else, looks=looks):
        if _is_due(consumer, batch):
            _park(consumer, batch)  # if that is lost, its row has shown life
        elif adopted := _adopt(consumer, me, batch):
            return adopted
    return None


def _is_due(consumer: Consumer, batch: Batch) -> bool:
    """Whether a batch has had the attempts after which it waits for a person (PROTOCOL B5)."""
    limit = consumer.policies.max_attempts
    return limit is not None and batch.attempt - batch.unparked >= limit


def _park(consumer: Consumer, batch: Batch) -> Batch | None:
    """The row of a batch that is parked now; ``None`` if another has written it."""
    note = f"parked by policy after {batch.attempt - batch.unparked} attempts"
    parked = batches.park(batch, note)
    if not consumer.store.replace(batch, parked):
        return None
    consumer.warn(f"Batch {batch.batch_id} is {note}. {BatchParked.remedy}")
    return parked


def _after_policy(consumer: Consumer, batch: Batch) -> Batch | None:
    """The row of a frozen batch once it is parked if it is due; ``None`` if it is gone. What others write meanwhile is
    looked at anew: a sign of life leaves it due, a person may have resumed it."""
    current: Batch | None = batch
    while current is not None and current.state is BatchState.FROZEN and current.owner == batch.owner:
        if not _is_due(consumer, current):
            return current
        current = _park(consumer, current) or consumer.batch(batch.batch_id)
    return current


def _plan(
    consumer: Consumer,
    me: str,
    verdicts: Verdicts,
    rows: list[Lease],
    listed: set[str],
    orphaned: frozenset[str],
    stamped: Stamped,
    application: Application,
    looks: Looks | None,
    reached_ms: int,
) -> tuple[Plan, list[Lease]]:
    """What may be taken, and the rows once leases that stood still are freed of their owners."""
    dead: set[str] = set()

    def may_take(lease: Lease) -> bool:
        return lease.shard_id in dead or verdicts(lease.lease_owner or "") is Verdict.OVER

    found = plan(rows, listed, may_take, me, orphaned, reached_ms, now_ms=consumer.now_ms())
    foreign = [
        lease
        for lease in found.held
        if not _decidable(lease, stamped) and verdicts(lease.lease_owner or "") in (Verdict.FOREIGN, Verdict.GONE)
    ]
    dead.update(stood_still(consumer, foreign, application, all_of_them=not found.takeable, looks=looks))
    if not dead:
        return found, rows
    rows = settle(consumer, rows, stamped, me, lambda lease: lease.shard_id in dead)
    return plan(rows, listed, may_take, me, orphaned, reached_ms, now_ms=consumer.now_ms()), rows


def _decidable(lease: Lease, stamped: Stamped) -> bool:
    """Whether it is stamped by a batch that may still be decided: then the batch's row is the one to watch (E5)."""
    batch = stamped.get(lease.batch_id) if lease.batch_id is not None else None
    return batch is not None and batch.state is not BatchState.VOID


def _take(consumer: Consumer, me: str, found: Plan) -> dict[str, list[str]]:
    """Write the owner and the read group on the rows of the plan. After a lost race the other run has the shard."""
    chosen = found.takeable[: _most(consumer, me, found)]
    require_slices_here(consumer, chosen)
    taken: dict[str, list[str]] = {}
    changes: list[tuple[Lease, Lease]] = []
    now_ms = consumer.now_ms()
    for group, members in spread(chosen, consumer.options.read_tasks, consumer.limits.concurrency, me).items():
        for lease in members:
            if lease.lease_owner == me and lease.read_group == group:
                taken.setdefault(group, []).append(lease.shard_id)
            else:
                changes.append((lease, leases.take(lease, me, group, now_ms)))
    lost: list[str] = []
    for (lease, new), written in zip(changes, consumer.store.replace_many(changes), strict=True):
        place = taken.setdefault(str(new.read_group), []) if written else lost
        place.append(lease.shard_id)
    if lost:
        consumer.measure(metrics.LOST_RACES, len(lost))
        consumer.say(f"{len(lost)} shards went to another run: {shortlist(lost)}.")
    return taken


def _most(consumer: Consumer, me: str, found: Plan) -> int:
    """The number of leases that this run takes: its share beside other groups that read, at most ``max_shards``."""
    free = len(found.takeable)
    if consumer.interval is not None:
        return free
    share = min(free, fair_share(found, me))
    if share < free:
        consumer.say(
            f"Leaving {free - share} of {free} free shards to the groups that share the application and are reading."
        )
    return min(share, consumer.options.max_shards or share)


def _tell_ahead(consumer: Consumer, found: Plan, application: Application, reached_ms: int) -> None:
    """Log the shards that are not read yet because they begin at an instant that the stream's clock has not reached."""
    text = "{} will be read from {} on. The stream's clock has not reached that time."
    if found.ahead:
        first = min(lease.checkpoint.timestamp_ms or 0 for lease in found.ahead)
        shards = shortlist([lease.shard_id for lease in found.ahead])
        consumer.say(text.format(shards, utc(first)))
    elif application.start_position.ahead_of(reached_ms):
        consumer.say(text.format("The stream", utc(application.start_position.timestamp_ms or 0)))


def _nothing(consumer: Consumer, found: Plan, stamped: Stamped) -> Claim:
    if consumer.interval is not None and (found.takeable or found.held or found.waiting):
        raise untaken(consumer, found, stamped)
    if not found.held and not found.takeable:
        found_none = Claim(Outcome.NOTHING)
        consumer.say(found_none.nothing)
        return found_none
    held = tuple(described(consumer, lease, stamped) for lease in found.held)
    held += tuple(f"{lease.shard_id} went to another run just now" for lease in found.takeable)
    for line in held[:MOST_HELD]:
        consumer.say(f"Held: {line}")
    if len(held) > MOST_HELD:
        consumer.say(f"Held: {len(held) - MOST_HELD} more shards.")
    waited = waiting_ms(consumer, found.held)
    stuck_after_ms = consumer.options.stuck_after.total_seconds() * 1000
    if waited is not None and waited > stuck_after_ms:
        raise Starving(
            "All {} open shards of {} are held by others and records have waited for {:.0f} s: {}.".format(
                len(held), consumer.namespace, waited / 1000, shortlist(held, most=3, between="; ")
            )
        )
    found_held = Claim(Outcome.HELD, held=held)
    consumer.say(found_held.nothing)
    return found_held
