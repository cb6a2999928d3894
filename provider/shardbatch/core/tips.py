# SPDX-License-Identifier: Apache-2.0
"""Which shards a sensor may ask for their tips itself, and which of these tips count (PROTOCOL C9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shardbatch.core.application import Application
from shardbatch.core.expiry import kept_today
from shardbatch.core.interval import MARGIN_MS
from shardbatch.core.lease import Lease
from shardbatch.core.position import Position
from shardbatch.core.watermark import Watermark, bounds, lesser, watermark


@dataclass(frozen=True)
class Rows:
    """One look at an application's row and its leases."""

    application: Application
    leases: Sequence[Lease]


@dataclass(frozen=True)
class Tips:
    """What was asked of the stream: these shards had nothing behind these places, at ``at_ms`` of its clock or later.

    ``retention_ms`` is the stream's now, ``None`` if unknown.
    """

    at_ms: int
    places: Mapping[str, Position] = field(default_factory=dict)
    retention_ms: int | None = None


def asked_for(rows: Rows, until_ms: int) -> dict[str, Position]:
    """The shards that hold a watermark back and whose tips would bring it to an instant, with their checkpoints. None
    if a run is at work, or if something else holds it back, too, which no tip can change."""
    if any(lease.lease_owner is not None for lease in rows.leases if not lease.scope):
        return {}
    behind = bounds(rows.leases)
    found = {
        lease.shard_id: lease.checkpoint
        for lease in rows.leases
        if lease.shard_id in behind and _may_count(lease) and (behind[lease.shard_id] or 0) < until_ms
    }
    best = watermark(rows.application, rows.leases, dict.fromkeys(found, until_ms + MARGIN_MS))
    return found if best.ms is not None and best.ms >= until_ms else {}


def with_tips(before: Rows, tips: Tips, after: Sequence[Rows]) -> Watermark:
    """The watermark by looks at the rows that followed the question for tips, one after the other: the least of them.

    :param before: the look from which the places were taken.
    """
    least: Watermark | None = None
    for rows in after:
        found = watermark(rows.application, rows.leases, _counted(before, tips, rows))
        least = found if least is None else lesser(least, found)
    assert least is not None
    return least


def _may_count(lease: Lease) -> bool:
    """Whether its checkpoint is all that there is of it: exact, without an owner, and nothing behind it was read."""
    return (
        not lease.scope
        and not lease.completed
        and lease.checkpoint.exact
        and lease.pending is None
        and lease.batch_id is None
        and lease.lease_owner is None
    )


def _counted(before: Rows, tips: Tips, after: Rows) -> dict[str, int]:
    """The tips that count: their rows did not change, and nothing unread can have expired unnoticed."""
    if before.application.reset_count != after.application.reset_count:
        return {}
    gone_ms = kept_today(after.application, tips.retention_ms).gone_before(tips.at_ms)
    if gone_ms is None:
        return {}
    known, behind = {lease.shard_id: lease for lease in before.leases}, bounds(after.leases)
    found = {}
    for lease in after.leases:
        bound = behind.get(lease.shard_id)
        if lease.shard_id not in tips.places or lease != known.get(lease.shard_id) or not _may_count(lease):
            continue
        if bound is not None and bound - MARGIN_MS > gone_ms:
            found[lease.shard_id] = tips.at_ms
    return found
