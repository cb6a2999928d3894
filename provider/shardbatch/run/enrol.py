# SPDX-License-Identifier: Apache-2.0
"""The application's own row, and rows for shards that have none."""

from __future__ import annotations

from collections.abc import Sequence

from shardbatch.core import lease as leases
from shardbatch.core.application import Application, Group
from shardbatch.core.beginnings import beginnings
from shardbatch.core.expiry import kept_today, unseen_since
from shardbatch.core.interval import CLOCKS_APART_MS, MARGIN_MS, Interval
from shardbatch.core.lease import Lease
from shardbatch.core.looks import Looks
from shardbatch.core.owner import Owner
from shardbatch.core.planner import unknown_shards
from shardbatch.core.policies import GapPolicy
from shardbatch.core.position import LATEST, TRIM_HORIZON, Kind, at_timestamp
from shardbatch.core.shard import Shard
from shardbatch.core.shortlist import shortlist
from shardbatch.core.slice import Gap
from shardbatch.errors import (
    ApplicationRemoved,
    ApplicationTaken,
    ConfigurationError,
    GapFound,
    ImportUnfinished,
    LeaseLost,
    StreamRecreated,
)
from shardbatch.run.consumer import Consumer, first_count
from shardbatch.run.instants import clock_there
from shardbatch.run.listing import list_shards, tell_missed


def enrol(consumer: Consumer, owner: Owner, looks: Looks | None = None) -> Application:
    """The application's row. The first claim makes it and resolves its start permanently; later claims check it.

    An interval is over first: a caller that can come back is told when, and holds nothing until then.

    :param looks: for a caller that can come back: what its earlier passes saw. Default: it waits here.
    :raises LookAgain: if it has to wait, and its caller can come back.
    :raises StreamRecreated: if the stream is another one than the checkpoints belong to.
    :raises ApplicationTaken: if another group claims here, and this one is not set to share.
    :raises ImportUnfinished: if leases of another library are being taken over into it.
    :raises UnsupportedSchema: if a later version wrote the rows.
    """
    identity = consumer.source.identity()
    if consumer.interval is not None:
        return _beside(consumer, consumer.application(), identity, consumer.interval, looks)
    retention_ms = consumer.source.retention_ms()
    duration_ms = int(consumer.options.lease_duration.total_seconds() * 1000)
    group = Group(consumer.deployment, owner.dag_id, owner.group_id, duration_ms)
    for _ in range(8):
        row = consumer.application()
        if row is None:
            fresh = _begun(consumer, identity).joined(group)
            fresh = fresh.keeping(retention_ms, consumer.now_ms()).dividing(consumer.source.capabilities.key_space)
            if consumer.store.create(fresh):
                consumer.say(f"First claim of {consumer.namespace}: reading from {fresh.start_position}.")
                return fresh
            continue
        check(row, identity)
        if row.importing is not None:
            raise ImportUnfinished(f"Nothing of {consumer.namespace} can be claimed: {row.importing}.")
        other = row.stranger(group)
        if other is not None and not consumer.options.shared:
            raise ApplicationTaken(f"{consumer.namespace} is claimed by {other}, not by {group}.")
        changed = row.retention_ms != retention_ms
        space = consumer.source.capabilities.key_space
        if group in row.claimed_by and not changed and row.key_space == space:
            return row
        joined = row.joined(group).dividing(space)
        if changed:
            joined = joined.keeping(retention_ms, clock_there(consumer))
        if consumer.store.replace(row, joined):
            return joined
    raise LeaseLost(f"The row of {consumer.namespace} is being changed by others all the while.")


def _begun(consumer: Consumer, identity: str) -> Application:
    """The row of an application that begins now."""
    source = consumer.source
    if consumer.start.kind is Kind.AT_TIMESTAMP and not source.capabilities.instants:
        raise ConfigurationError(
            f"The stream {source.name} cannot be read from an instant.",
            remedy="Choose 'TRIM_HORIZON' or 'LATEST' as its start.",
        )
    start = source.resolve(consumer.start)
    # Where each shard has a tip of its own, it is written down once, before any row is made by it.
    shards = list_shards(consumer) if start == LATEST else ()
    places = tuple((shard.shard_id, source.resolve(LATEST, shard.shard_id)) for shard in shards)
    return Application(consumer.namespace, identity, start, first_count(), start_places=places)


def _beside(
    consumer: Consumer, live: Application | None, identity: str, interval: Interval, looks: Looks | None
) -> Application:
    """The application's row as an interval run uses it. It is never written, so it has no effect on the live
    application."""
    if live is not None:
        check(live, identity)
    if not consumer.source.capabilities.arrival_times:
        raise ConfigurationError(
            f"The records of {consumer.namespace.stream_name} do not say when they arrived, so no interval of them "
            "can be read.",
            remedy="Reset the application to an earlier place instead ('airflow shardbatch reset').",
        )
    retention, now = consumer.source.retention_ms(), clock_there(consumer)
    if interval.to_ms - now > CLOCKS_APART_MS:
        raise ConfigurationError(
            f"The interval is not over for another {(interval.to_ms - now) // 1000} s.",
            remedy="Start the run after its end, or give an earlier 'to'.",
        )
    settled_ms = interval.to_ms + MARGIN_MS  # a record may be put after its end that is stamped before it
    if settled_ms > now:
        _wait(consumer, (settled_ms - now) / 1000, looks)  # what is at the tip before that is not all of it
    bound = kept_today(live, retention).gone_before(max(now, settled_ms))
    if live is not None:
        bound = None  # the archive may have it
    if bound is not None and interval.from_ms < bound:
        before_s = (bound - interval.from_ms) // 1000
        message = f"The interval begins {before_s} s before the stream's retention, the shortest since."
        if consumer.policies.gap is GapPolicy.FAIL:
            raise GapFound(message, remedy='Begin later, or accept what is left with policies=Policies(gap="record").')
        consumer.warn(message)
    begin = at_timestamp(interval.begin_ms) if consumer.source.capabilities.instants else TRIM_HORIZON
    return Application(consumer.namespace, identity, begin, 0)


def _wait(consumer: Consumer, seconds: float, looks: Looks | None) -> None:
    """Wait until an interval is over: a long wait is the caller's, if it can come back. It then asks the stream's clock
    again, which may be slower than the clock that measured the wait."""
    again = looks.pause(seconds) if looks is not None else None
    if again is not None:
        consumer.say(f"The interval is over, and the minute after it, in {seconds:.0f} s by the stream's clock.")
        raise again
    consumer.clock.sleep(seconds)


def check(row: Application, identity: str) -> None:
    """Check that this stream is the one of the rows."""
    if row.stream_id != identity:
        raise StreamRecreated(
            f"The stream of {row.namespace} is {identity}, but its checkpoints belong to {row.stream_id}."
        )


def look_again(consumer: Consumer, application: Application) -> Application:
    """The application's row as a claim goes by it that has listed the leases since it enrolled.

    If these were removed meanwhile, the row says so. If the application was begun anew since, its new start counts: by
    the old one, new shards would begin elsewhere (PROTOCOL X3).

    :raises ApplicationRemoved: if the application was removed.
    :raises StreamRecreated: if it was begun anew on another stream.
    """
    row = consumer.require_version()
    if consumer.interval is not None:
        return application
    if row is None:
        raise ApplicationRemoved(f"The application {consumer.namespace} was removed while a run claimed.")
    check(row, application.stream_id)
    return row


def require_same_stream(consumer: Consumer) -> None:
    """Check that this stream is the one that was claimed: a task may begin long after its claim, when all shards of the
    old stream look as if they were gone (W11).

    :raises StreamRecreated: if it is another one.
    """
    row = consumer.application()
    if row is not None:
        check(row, consumer.source.identity())


def add_rows(
    consumer: Consumer,
    listing: Sequence[Shard],
    rows: list[Lease],
    application: Application,
    orphaned: frozenset[str] = frozenset(),
    reached_ms: int | None = None,
    lost: Gap | None = None,
) -> list[Lease]:
    """All leases, with a new one for every listed shard that had none, except the ``orphaned`` shards, which wait.
    The first new one carries what is ``lost`` of shards that are unknown by now, for its slice to record.

    A child of a shard that had a row begins at its oldest record; every other shard begins at the application's start.
    While that start lies ahead of the stream's clock, which has reached ``reached_ms``, such a shard gets no row: the
    stream may be resharded before then, and a root shard may be gone or no longer be a root.
    """
    unknown = unknown_shards(listing, rows, orphaned)
    if not unknown:
        return rows
    start, known = application.root_start, {lease.shard_id: lease for lease in rows}
    begins = beginnings(listing, known, start, consumer.now_ms(), dict(application.start_places))
    unseen_ms = unseen_since(listing, rows, consumer.now_ms())
    added: list[Lease] = []
    all_written = True
    tell_missed(consumer, [shard for generation in unknown for shard in generation], listing, rows)
    for generation in unknown:
        count, now_ms = first_count(), consumer.now_ms()

        def fresh(shard: Shard, count: int = count, now_ms: int = now_ms) -> Lease:
            at, scope = begins[shard.shard_id], consumer.scope
            unseen = unseen_ms(shard)
            skipped = (*at.skipped, lost) if lost is not None and shard is unknown[0][0] else at.skipped
            return leases.add(consumer.namespace, scope, shard, at.place, count, now_ms, unseen, skipped)

        def early(row: Lease) -> bool:
            return reached_ms is not None and row.checkpoint == start and start.ahead_of(reached_ms)

        made = [row for row in map(fresh, generation) if not early(row)]
        written = consumer.store.create_many(made)
        added += [lease for lease, done in zip(made, written, strict=True) if done]
        all_written = all_written and all(written)
    if added:
        consumer.say(f"Added leases for {len(added)} new shards: {shortlist([row.shard_id for row in added])}.")
    return rows + added if all_written else consumer.leases()  # another claim was there first
