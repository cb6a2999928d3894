# SPDX-License-Identifier: Apache-2.0
"""How an application stands, for people and for machines: read only, from rows alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any, cast

from shardbatch.core.application import Application, Group
from shardbatch.core.batch import KEPT, Batch, BatchState
from shardbatch.core.choices import SHARD_STATES
from shardbatch.core.expiry import Kept, all_read, kept_by, unread_since
from shardbatch.core.lease import Lease
from shardbatch.core.ports import SYSTEM_CLOCK, Clock, LeaseStore
from shardbatch.core.rows import BATCH, Namespace
from shardbatch.core.watermark import UNKNOWN, Watermark, lesser, watermark
from shardbatch.errors import ConfigurationError
from shardbatch.run.batch_status import BatchStatus, IntervalsStatus, batch_status, intervals_status
from shardbatch.run.consumer import Rows, require_there
from shardbatch.run.intervals import highest_numbers


@dataclass(frozen=True)
class ShardStatus:
    """One shard. ``state`` is ``free``, ``held``, ``landed`` (read, not frozen), ``frozen`` or ``completed``.

    ``all_read``: it is read to its end, so nothing of it can expire unread. Else no unread record arrived before
    ``unread_since_ms``, by the clock of the ``service`` or of a ``worker``; and none expires before
    ``expires_from_ms``, the retention later, or that instant itself where records of it may be gone already, although
    the retention is longer now. Both are ``None`` if unknown. ``skipped`` counts the ranges that a person passed
    over and no batch tells yet: the next one does.
    """

    shard_id: str
    state: str
    owner: str
    checkpoint: str
    checkpoint_arrival_ms: int | None
    millis_behind_latest: int | None
    parent_shard_ids: tuple[str, ...]
    pending_records: int | None
    pending_gap: bool
    batch_id: str | None
    lease_count: int
    updated_at_ms: int
    all_read: bool
    unread_since_ms: int | None
    unread_since_clock: str | None
    expires_from_ms: int | None
    skipped: int = 0


@dataclass(frozen=True)
class OwnerStatus:
    """What one owner holds; ``updated_at_ms`` is the newest write on any of it."""

    owner: str
    shards: int
    batches: int
    updated_at_ms: int


@dataclass(frozen=True)
class Status:
    """An application as a whole. ``millis_behind_latest`` is that of the shard furthest behind, as last read, and
    ``furthest_shard_id`` names it; both are ``None`` if no open shard was read yet.

    ``expires_from_ms`` is the earliest of all shards', ``expires_unknown`` how many of them have none although they
    are not read to their end. ``retention_ms`` is the stream's as of the last claim.
    ``set_aside`` lists what is kept for a replay; readers of committed starts do not see it.
    ``watermark`` says up to when all that arrived is committed or in a recorded gap.
    All of this is the live application's; its interval runs have ``intervals`` for themselves.
    """

    app_name: str
    stream_name: str
    stream_id: str
    start_position: str
    schema_version: int
    deployments: tuple[str, ...]
    claimed_by: tuple[Group, ...]
    last_action: str | None
    open_shards: int
    held_shards: int
    landed_shards: int
    frozen_shards: int
    completed_shards: int
    millis_behind_latest: int | None
    retention_ms: int | None
    expires_from_ms: int | None
    expires_unknown: int
    committed_batches: int
    last_commit_ms: int | None
    unfinished: tuple[BatchStatus, ...]
    owners: tuple[OwnerStatus, ...]
    furthest_shard_id: str | None = None
    set_aside: tuple[BatchStatus, ...] = ()
    possible_orphans: tuple[BatchStatus, ...] = ()
    watermark: Watermark = UNKNOWN
    intervals: IntervalsStatus = field(default_factory=IntervalsStatus)


def status(store: LeaseStore, namespace: Namespace, clock: Clock = SYSTEM_CLOCK) -> Status:
    """How an application stands.

    :param clock: default: this machine's. Looks at a shard that lie in its future tell nothing.
    :raises ConfigurationError: if the store has no such application.
    """
    known = Rows(namespace=namespace, store=store)
    application, rows = known.expect_application(), known.leases()  # of one that was removed, too
    return status_of(application, rows, _rows(store, namespace), clock)


def status_of(
    application: Application, rows: Sequence[Lease], batches: Iterable[Batch], clock: Clock = SYSTEM_CLOCK
) -> Status:
    """The same, of rows that were read: the leases of the live application, and all of its batches."""
    namespace = application.namespace
    leases = shards_of(rows, application, clock)
    unfinished: list[Batch] = []
    aside: list[Batch] = []
    orphans: list[Batch] = []
    beside: list[Batch] = []
    committed, last_commit = 0, None
    for batch in batches:
        if batch.scope:
            beside.append(batch)
            continue
        if batch.set_aside == KEPT:
            aside.append(batch)
        if batch.possible_orphan:
            orphans.append(batch)
        if batch.state is BatchState.COMMITTED:
            committed += 1
            last_commit = max(last_commit or 0, batch.committed_at_ms or 0) or None
        elif batch.state in (BatchState.FROZEN, BatchState.PARKED):
            unfinished.append(batch)
    furthest = _furthest(leases)
    return Status(
        app_name=namespace.app_name,
        stream_name=namespace.stream_name,
        stream_id=application.stream_id,
        start_position=str(application.start_position),
        schema_version=application.schema_version,
        deployments=application.deployments,
        claimed_by=application.claimed_by,
        last_action=application.last_action,
        open_shards=sum(shard.state != "completed" for shard in leases),
        held_shards=sum(shard.state == "held" for shard in leases),
        landed_shards=sum(shard.state == "landed" for shard in leases),
        frozen_shards=sum(shard.state == "frozen" for shard in leases),
        completed_shards=sum(shard.state == "completed" for shard in leases),
        millis_behind_latest=furthest.millis_behind_latest if furthest else None,
        furthest_shard_id=furthest.shard_id if furthest else None,
        retention_ms=application.retention_ms,
        expires_from_ms=min((s.expires_from_ms for s in leases if s.expires_from_ms is not None), default=None),
        expires_unknown=sum(not shard.all_read and shard.expires_from_ms is None for shard in leases),
        committed_batches=committed,
        last_commit_ms=last_commit,
        unfinished=tuple(batch_status(batch) for batch in unfinished),
        owners=_owners(leases, unfinished),
        set_aside=tuple(batch_status(batch) for batch in aside),
        possible_orphans=tuple(batch_status(batch) for batch in orphans),
        watermark=watermark(application, rows),
        intervals=intervals_status(beside),
    )


def shards(
    store: LeaseStore,
    namespace: Namespace,
    scope: str = "",
    application: Application | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> tuple[ShardStatus, ...]:
    """Every shard that has a lease row, in the order of their ids.

    :param application: its row, if it was read already.
    :param clock: default: this machine's. Looks at a shard that lie in its future tell nothing.
    :raises ConfigurationError: if the store has no such application.
    """
    rows = Rows(namespace=namespace, store=store, scope=scope)
    return shards_of(rows.leases(), application or rows.expect_application(), clock)


def committed_up_to(store: LeaseStore, namespace: Namespace) -> Watermark:
    """Up to when all that arrived is committed or in a recorded gap, surely enough to act on it (PROTOCOL C7): by two
    looks at the rows, one after the other, of which the lesser answer counts.

    :raises ConfigurationError: if the store has no such application.
    """
    return lesser(*(watermark(*look_at(store, namespace)) for _ in range(2)))


def look_at(store: LeaseStore, namespace: Namespace) -> tuple[Application, list[Lease]]:
    """One look at the rows of a live application: its own, and then its leases.

    :raises ApplicationUnknown: if the store has no such application.
    :raises ApplicationRemoved: if it was removed, so that there is nothing to wait for.
    """
    rows = Rows(namespace=namespace, store=store)
    return require_there(rows.expect_application()), rows.leases()


def shards_of(rows: Iterable[Lease], application: Application, clock: Clock = SYSTEM_CLOCK) -> tuple[ShardStatus, ...]:
    """The status of each shard, by rows that were read.

    :param clock: default: this machine's. Looks at a shard that lie in its future tell nothing.
    """
    kept, now_ms = kept_by(application), clock.now_ms()
    leases = {lease.shard_id: lease for lease in rows}
    return tuple(_shard_status(lease, leases, kept, now_ms) for lease in leases.values())


def choose(
    found: Iterable[ShardStatus], *, states: Collection[str] = (), owner: str = "", sort: str = "shard"
) -> tuple[ShardStatus, ...]:
    """Some of the shards, in an order.

    :param states: only those in one of these states; default: all.
    :param owner: only those whose owner has this text in it; default: all.
    :param sort: ``shard``, by id (default); ``behind``, the furthest behind first, then those of which no lag is known,
        at last those that are completed; ``state``.
    """

    def behind(shard: ShardStatus) -> tuple[bool, int, str]:
        known = -1 if shard.millis_behind_latest is None else shard.millis_behind_latest
        return shard.state == "completed", -known, shard.shard_id

    orders: dict[str, Callable[[ShardStatus], Any]] = {
        "shard": lambda shard: shard.shard_id,
        "behind": behind,
        "state": lambda shard: (SHARD_STATES.index(shard.state), shard.shard_id),
    }
    kept = (one for one in found if (not states or one.state in states) and owner in one.owner)
    return tuple(sorted(kept, key=orders[sort]))


def batches(
    store: LeaseStore, namespace: Namespace, limit: int = 20, scope: str | None = None
) -> tuple[BatchStatus, ...]:
    """The latest batches, newest first.

    :param limit: how many at most, default 20 (1 or more).
    :param scope: those of this scope only (empty: the live application's), default: those of interval runs too.
    :raises ConfigurationError: for a limit below 1, or if there is neither a batch nor such an application.
    """
    if limit < 1:
        raise ConfigurationError(f"The limit of batches is {limit}.", remedy="Give 1 or more.")
    Rows(namespace=namespace, store=store).application()  # of a version that this code reads
    highest: dict[tuple[int, int], int] = {}

    def looked_at() -> Iterator[Batch]:
        for batch in _rows(store, namespace):
            highest_numbers([batch], highest)
            if scope is None or batch.scope == scope:
                yield batch

    latest = nlargest(limit, looked_at(), key=lambda batch: batch.batch_id)  # ids sort by time
    if not latest:
        Rows(namespace=namespace, store=store).expect_application()
    return tuple(batch_status(batch, highest) for batch in latest)


def _rows(store: LeaseStore, namespace: Namespace) -> Iterator[Batch]:
    return cast("Iterator[Batch]", store.list(BATCH, namespace, None))


def _shard_status(lease: Lease, leases: Mapping[str, Lease], kept: Kept, now_ms: int) -> ShardStatus:
    since = None if all_read(lease) else unread_since(lease, leases.get, now_ms)
    return ShardStatus(
        shard_id=lease.shard_id,
        state=_state(lease),
        owner=lease.lease_owner or "",
        checkpoint=str(lease.checkpoint),
        checkpoint_arrival_ms=lease.checkpoint_arrival_ms,
        millis_behind_latest=lease.millis_behind_latest,
        parent_shard_ids=lease.parent_shard_ids,
        pending_records=lease.pending.records if lease.pending else None,
        pending_gap=lease.waits_for_gap,
        batch_id=lease.batch_id,
        lease_count=lease.lease_count,
        updated_at_ms=lease.updated_at_ms,
        all_read=all_read(lease),
        unread_since_ms=since.ms if since else None,
        unread_since_clock=since.clock.value if since else None,
        expires_from_ms=kept.expires_ms(since.ms) if since else None,
        skipped=len(lease.skipped),
    )


def _state(lease: Lease) -> str:
    if lease.completed:
        return "completed"
    if lease.batch_id is not None:
        return "frozen"
    if lease.pending is not None:
        return "landed"
    return "free" if lease.lease_owner is None else "held"


def _furthest(leases: Iterable[ShardStatus]) -> ShardStatus | None:
    known = [shard for shard in leases if shard.state != "completed" and shard.millis_behind_latest is not None]
    return max(known, key=lambda shard: shard.millis_behind_latest or 0, default=None)


def _owners(leases: Iterable[ShardStatus], unfinished: Iterable[Batch]) -> tuple[OwnerStatus, ...]:
    held: dict[str, OwnerStatus] = {}

    def add(owner: str, shard_count: int, batch_count: int, updated_at_ms: int) -> None:
        known = held.get(owner, OwnerStatus(owner, 0, 0, 0))
        newest = max(known.updated_at_ms, updated_at_ms)
        held[owner] = OwnerStatus(owner, known.shards + shard_count, known.batches + batch_count, newest)

    for shard in leases:
        if shard.owner:
            add(shard.owner, 1, 0, shard.updated_at_ms)
    for batch in unfinished:
        if batch.owner:
            add(batch.owner, 0, 1, batch.attempt_seen_ms or batch.created_at_ms)
    return tuple(held[owner] for owner in sorted(held))
