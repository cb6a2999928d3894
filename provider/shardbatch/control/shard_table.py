# SPDX-License-Identifier: Apache-2.0
"""All shards of an application as a person looks at them: with ranges of keys, lineage, and what each waits for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shardbatch.control.status import ShardStatus, shards_of
from shardbatch.control.waits import Wait, waits_for
from shardbatch.core.application import Application
from shardbatch.core.batch import Batch
from shardbatch.core.lease import Lease
from shardbatch.core.ports import SYSTEM_CLOCK, Clock
from shardbatch.core.shard import KeyRange

#: What is shown of each, in this order.
COLUMNS = (
    "shard_id",
    "state",
    "owner",
    "checkpoint",
    "behind_ms",
    "expires_ms",
    "parents",
    "from_key",
    "to_key",
    "opened_ms",
    "closed_ms",
    "batch_id",
    "pending_records",
    "gap",
    "updated_at_ms",
    "waits_for",
)


@dataclass(frozen=True)
class ShardRow:
    """One shard.

    ``from_key`` and ``to_key`` are where its keys begin and end, as parts (0 to 1) of all keys; ``None`` for a source
    without ranges. ``opened_ms`` and ``closed_ms`` are the latest and the earliest instants between which it certainly
    took records, as far as the rows tell: what was read of its parents arrived before it opened. ``parents`` are those
    that have rows. ``expires_ms`` is when its unread records begin to expire.
    """

    shard_id: str
    state: str
    owner: str
    checkpoint: str
    behind_ms: int | None
    expires_ms: int | None
    parents: tuple[str, ...]
    from_key: float | None
    to_key: float | None
    opened_ms: int | None
    closed_ms: int | None
    batch_id: str | None
    pending_records: int | None
    gap: bool
    updated_at_ms: int
    wait: Wait | None
    status: ShardStatus

    @property
    def waits_for(self) -> str | None:
        """What it waits for, for people."""
        return None if self.wait is None else self.wait.text


def shard_table(
    leases: Sequence[Lease], application: Application, undecided: Iterable[Batch], clock: Clock = SYSTEM_CLOCK
) -> list[ShardRow]:
    """All shards that have rows, in the order of their ids."""
    rows = {lease.shard_id: lease for lease in leases}
    batches = {batch.batch_id: batch for batch in undecided}
    keys = _all_keys(application, leases)
    return [
        _row(rows[shard.shard_id], shard, rows, keys, waits_for(rows[shard.shard_id], rows, batches, application))
        for shard in shards_of(leases, application, clock)
    ]


def _row(
    lease: Lease, shard: ShardStatus, rows: Mapping[str, Lease], keys: KeyRange | None, wait: Wait | None
) -> ShardRow:
    parents = tuple(parent for parent in lease.parent_shard_ids if parent in rows)
    span = lease.hash_range if keys is not None else None
    over = [_closed(rows[parent]) for parent in parents]
    return ShardRow(
        shard_id=lease.shard_id,
        state=shard.state,
        owner=shard.owner,
        checkpoint=shard.checkpoint,
        behind_ms=shard.millis_behind_latest,
        expires_ms=shard.expires_from_ms,
        parents=parents,
        from_key=None if span is None or keys is None else (span.start - keys.start) / keys.size,
        to_key=None if span is None or keys is None else (span.end + 1 - keys.start) / keys.size,
        opened_ms=max((ms for ms in over if ms is not None), default=None),
        closed_ms=_closed(lease),
        batch_id=lease.batch_id,
        pending_records=shard.pending_records,
        gap=shard.pending_gap,
        updated_at_ms=lease.updated_at_ms,
        wait=wait,
        status=shard,
    )


def _all_keys(application: Application, leases: Iterable[Lease]) -> KeyRange | None:
    """The keys that the shards divide among them; of an application that does not know, as far as its shards reach."""
    if application.key_space is not None:
        return application.key_space
    ranges = [lease.hash_range for lease in leases if lease.hash_range is not None]
    return KeyRange(min(r.start for r in ranges), max(r.end for r in ranges)) if ranges else None


def _closed(lease: Lease) -> int | None:
    """The arrival of the last record that is known of a shard that was read to its end; ``None`` for any other."""
    if lease.pending is not None and lease.pending.ended:
        last = lease.pending.last_arrival_ms
        return lease.committed_up_to_ms if last is None else last
    return lease.committed_up_to_ms if lease.completed else None
