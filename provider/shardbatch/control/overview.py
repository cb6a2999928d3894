# SPDX-License-Identifier: Apache-2.0
"""How an application stands, for one line of a list: no history of batches is read for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from shardbatch.control.status import shards_of
from shardbatch.core.application import Application, Group
from shardbatch.core.batch import KEPT, UNDECIDED, Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.ports import SYSTEM_CLOCK, Clock, LeaseStore
from shardbatch.core.rows import BATCH, Namespace
from shardbatch.core.watermark import watermark
from shardbatch.run.consumer import Rows

#: The latest batches among which the last commit is looked for; most are committed.
LATEST = 50


@dataclass(frozen=True)
class Overview:
    """An application in a few numbers. Instants are in milliseconds since the epoch, UTC; ``None``: unknown.

    ``behind_ms`` and ``expires_from_ms`` are of the shard for which each is worst. ``lost_shards`` have unread records
    that may be gone already. ``gaps`` are the shards whose gap waits for a person. ``unfinished`` and ``parked`` count
    the undecided batches, those of interval runs too; ``waiting`` are the frozen ones, with their owners.
    ``last_commit_ms`` is of the live application. ``removed`` and ``importing`` say who did it, and why.
    """

    retention_ms: int | None
    behind_ms: int | None
    expires_from_ms: int | None
    lost_shards: int
    watermark_ms: int | None
    complete_from_ms: int | None
    last_commit_ms: int | None
    unfinished: int
    parked: int
    set_aside: int
    gaps: int
    open_shards: int
    held_shards: int
    waiting: tuple[tuple[str, str], ...]
    owners: tuple[str, ...]
    removed: str | None
    importing: str | None
    claimed_by: tuple[Group, ...]


@dataclass(frozen=True)
class Look:
    """The rows that an overview needs, and most that a page shows of an application. ``undecided`` are the batches that
    wait, those of interval runs too; ``set_aside`` counts what is kept for a replay."""

    application: Application
    leases: Sequence[Lease]
    undecided: Sequence[Batch]
    set_aside: int
    last_commit_ms: int | None


def look(store: LeaseStore, namespace: Namespace) -> Look:
    """Read these rows of an application, but no history of batches.

    :raises ApplicationUnknown: if the store has no such application.
    """
    rows = Rows(namespace=namespace, store=store)
    return Look(
        application=rows.expect_application(),
        leases=rows.leases(),
        undecided=[batch for state in UNDECIDED for batch in _batches(store, namespace, state=state.value)],
        set_aside=sum(batch.set_aside == KEPT for batch in _batches(store, namespace, set_aside=KEPT)),
        last_commit_ms=last_commit(store, namespace),
    )


def overview(found: Look, clock: Clock = SYSTEM_CLOCK) -> Overview:
    """How an application stands.

    :param clock: default: this machine's.
    """
    application, leases, undecided, now_ms = found.application, found.leases, found.undecided, clock.now_ms()
    shards = shards_of(leases, application, clock)
    unread = [shard for shard in shards if shard.state != "completed"]
    expires = [shard.expires_from_ms for shard in shards if shard.expires_from_ms is not None]
    held = watermark(application, leases)
    return Overview(
        retention_ms=application.retention_ms,
        behind_ms=max((s.millis_behind_latest for s in unread if s.millis_behind_latest is not None), default=None),
        expires_from_ms=min(expires, default=None),
        lost_shards=sum(instant <= now_ms for instant in expires),
        watermark_ms=held.ms,
        complete_from_ms=held.complete_from_ms,
        last_commit_ms=found.last_commit_ms,
        unfinished=len(undecided),
        parked=sum(batch.state is BatchState.PARKED for batch in undecided),
        set_aside=found.set_aside,
        gaps=sum(shard.pending_gap for shard in shards),
        open_shards=len(unread),
        held_shards=sum(shard.state == "held" for shard in shards),
        waiting=tuple((batch.batch_id, batch.owner) for batch in undecided if batch.state is BatchState.FROZEN),
        owners=tuple(
            sorted({shard.owner for shard in shards if shard.owner} | {b.owner for b in undecided if b.owner})
        ),
        removed=application.removed,
        importing=application.importing,
        claimed_by=application.claimed_by,
    )


def last_commit(store: LeaseStore, namespace: Namespace) -> int | None:
    """When the live application committed last, by its latest batches; ``None`` if none of them is committed."""
    found = cast("Iterator[Batch]", store.latest(BATCH, namespace, "", LATEST))
    latest = (batch.committed_at_ms for batch in found if batch.state is BatchState.COMMITTED)
    return max((ms for ms in latest if ms is not None), default=None)


def _batches(store: LeaseStore, namespace: Namespace, **equal: str) -> Iterator[Batch]:
    return cast("Iterator[Batch]", store.list(BATCH, namespace, None, **equal))
