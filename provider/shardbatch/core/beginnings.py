# SPDX-License-Identifier: Apache-2.0
"""Where shards begin that have no row yet (PROTOCOL F4, T7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from shardbatch.core.expiry import tip_seen
from shardbatch.core.lease import Lease
from shardbatch.core.position import TRIM_HORIZON, Kind, Position, at_timestamp
from shardbatch.core.shard import Shard, generations
from shardbatch.core.skipped import PASSED_OVER, passed
from shardbatch.core.slice import Gap


@dataclass(frozen=True)
class Beginning:
    """The first checkpoint of a shard, and what it may pass over since a reset moved what it descends from (W6)."""

    place: Position
    skipped: tuple[Gap, ...] = ()


def beginnings(
    listing: Sequence[Shard],
    rows: Mapping[str, Lease],
    start: Position,
    now_ms: int,
    own: Mapping[str, Position] = MappingProxyType({}),
) -> dict[str, Beginning]:
    """Of every listed shard without a row. The oldest come first: each is worked out once, however often lineages join.

    :param rows: the rows that there are, by shard.
    :param start: the application's.
    :param now_ms: by the clock that asks; looks that lie in its future are passed over.
    :param own: shards that begin at a place of their own, wherever they come from.
    """
    depth = generations({shard.shard_id: shard.parent_shard_ids for shard in listing})
    found: dict[str, Beginning] = {}
    for shard in sorted(listing, key=lambda shard: depth[shard.shard_id]):
        if shard.shard_id in own and shard.shard_id not in rows:
            found[shard.shard_id] = Beginning(own[shard.shard_id])
        elif shard.shard_id not in rows:
            found[shard.shard_id] = beginning(shard, rows, found, start, now_ms)
    return found


def beginning(
    shard: Shard, rows: Mapping[str, Lease], older: Mapping[str, Beginning], start: Position, now_ms: int
) -> Beginning:
    """Of one: at its oldest record if a parent of it has a row, a root at ``start``.

    If all that it descends from waits for an instant, it begins at that instant, too: it may be older. At the earliest
    of several, so that nothing is left out.

    :param rows: those of its parents that have one.
    :param older: of parents that have none.
    """
    places: list[Position] = []
    notes: list[str | None] = []
    for parent in shard.parent_shard_ids:
        row = rows.get(parent)
        if row is not None:
            stands = _began(row)
            places.append(stands if unopened(row, now_ms) else TRIM_HORIZON)
            if row.skipped or row.begins not in (None, stands):
                notes.append(row.note)
        elif parent in older:
            place = older[parent].place
            places.append(TRIM_HORIZON if place.exact else place)  # a place in a shard means nothing in its child
            notes += [gap.accepted for gap in older[parent].skipped]
    if not places:
        return Beginning(start)
    if any(place.kind is not Kind.AT_TIMESTAMP for place in places):
        return Beginning(places[0] if len(set(places)) == 1 else TRIM_HORIZON)
    place = min(places)
    return Beginning(place, (passed(TRIM_HORIZON, None, place, notes[0] or PASSED_OVER),) if notes else ())


def unopened(lease: Lease, now_ms: int) -> bool:
    """Whether a shard is to be read from an instant on, and no read has found a record or its tip: it may have closed,
    and its children been born, before that instant."""
    found = lease.pending is not None and lease.pending.last is not None
    return lease.checkpoint.timestamp_ms is not None and not found and tip_seen(lease, now_ms) is None


def _began(lease: Lease) -> Position:
    """Where a shard stands, or the instant that it looks for: its place on the way means nothing in its child."""
    instant = lease.checkpoint.timestamp_ms
    return lease.checkpoint if instant is None else at_timestamp(instant)
