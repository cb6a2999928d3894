# SPDX-License-Identifier: Apache-2.0
"""Up to when all that arrived is committed, or in a recorded gap (PROTOCOL C): by rows, of committed facts only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

from shardbatch.core.application import Application
from shardbatch.core.interval import MARGIN_MS
from shardbatch.core.lease import Lease
from shardbatch.core.owner import ResetHolder
from shardbatch.core.position import Kind
from shardbatch.core.shard import KeyRange, Shard, generations, holes

#: How many of those that hold a watermark back are named.
MOST_NAMED = 20

#: An instant before which all is committed; ``None``: nothing is known.
Bound = Optional[int]


@dataclass(frozen=True)
class Hold:
    """Something that holds a watermark back, and at which instant; ``None``: nothing is known of it.

    ``name`` is a shard, or says what no shard with a row covers.
    """

    name: str
    ms: Bound


@dataclass(frozen=True)
class Watermark:
    """Every record that arrived before ``ms`` is in a committed batch or in a recorded gap; ``None`` if that cannot be
    said of any instant.

    The promise begins at ``complete_from_ms``: where the application began, to where a person moved it on, or when it
    took over what another library had read. ``None``: with the oldest record that the stream had at the first claim,
    or, for a stream that knows no instants, at the tips that it had then. ``holds`` names what holds it back, the least
    first, at most :data:`MOST_NAMED`. ``resets`` counts what may lower it: two watermarks with the same number are of
    one history, and the greater one holds.

    Instants are milliseconds since the epoch, UTC, by the stream's clock.
    """

    ms: Bound
    complete_from_ms: int | None = None
    holds: tuple[Hold, ...] = ()
    resets: int = 0


#: Of which nothing is known.
UNKNOWN = Watermark(None)


def lesser(first: Watermark, second: Watermark) -> Watermark:
    """Of two looks at the same rows the answer that promises less: nothing, if there was a reset between them."""
    if first.resets != second.resets:
        return Watermark(None, second.complete_from_ms, (Hold("a reset", None),), second.resets)
    return first if first.ms is None or (second.ms is not None and first.ms < second.ms) else second


def watermark(application: Application, leases: Sequence[Lease], tips: Mapping[str, int] | None = None) -> Watermark:
    """The watermark of a live application, by one look at its rows.

    A list of rows is not a snapshot: before you act on the answer, look twice, and take the lesser (:func:`lesser`).

    :param tips: when shards stood at their tips, beside what their rows say; only those that count (PROTOCOL C9).
    """
    rows = {lease.shard_id: lease for lease in leases if not lease.scope}
    seen = _seen(rows, tips or {})
    found = [Hold(lease.shard_id, _of_row(lease, seen)) for lease in rows.values() if not lease.completed]
    found += [Hold(lease.shard_id, None) for lease in rows.values() if lease.completed and _is_reset(lease)]
    if application.removed is not None:
        found.append(Hold("an application that was removed", None))
    elif application.importing is not None:
        found.append(Hold("leases of another library that are being taken over", None))
    elif not rows:
        # A restart may have removed them: what was listed before it tells nothing any more.
        found.append(Hold("a stream of which no shard has a row", None))
    elif application.key_space is not None:
        found += _uncovered(application, application.key_space, rows, seen)
    else:
        found += _unlisted(application, rows, seen)
    found.sort(key=lambda hold: (hold.ms is not None, hold.ms or 0, hold.name))
    ms = found[0].ms if found else None
    holds = tuple(hold for hold in found[:MOST_NAMED] if hold.ms == ms)
    return Watermark(ms, application.complete_from, holds, application.reset_count)


def bounds(leases: Iterable[Lease]) -> dict[str, Bound]:
    """Of each open shard the instant up to which all is committed, by its row and those of its ancestors."""
    rows = {lease.shard_id: lease for lease in leases if not lease.scope}
    seen = _seen(rows, {})
    return {name: _of_row(lease, seen) for name, lease in rows.items() if not lease.completed}


def listed_whole(listing: Iterable[Shard], rows: Iterable[Lease], *, lineage: bool) -> bool:
    """Whether a listing lacks nothing as far as it shows, and all of it has rows (PROTOCOL C4).

    A shard that is over, by the listing or by its row, has to have a child there, since children appear late; unless it
    will never have one.
    """
    listed = list(listing)
    parents = {parent for shard in listed for parent in shard.parent_shard_ids}
    known = {lease.shard_id: lease for lease in rows}
    for shard in listed:
        row = known.get(shard.shard_id)
        if row is None:
            return False
        ended = lineage and not shard.leaf and (shard.closed or row.completed)
        if ended and shard.shard_id not in parents:
            return False
    return True


def over(rows: Iterable[Lease]) -> tuple[str, ...]:
    """The completed shards of which no child has a row."""
    known = list(rows)
    parents = {parent for lease in known for parent in lease.parent_shard_ids}
    return tuple(sorted(lease.shard_id for lease in known if lease.completed and lease.shard_id not in parents))


def _seen(rows: Mapping[str, Lease], tips: Mapping[str, int]) -> dict[str, Bound]:
    """Of each shard what was committed of it; else, since all that it has came later, the latest of its parents.

    Of one that a reset has nothing is known. A start instant is never a parent's for its children: a child may have
    older records.
    """
    depth = generations({name: lease.parent_shard_ids for name, lease in rows.items()})
    seen: dict[str, Bound] = {}
    for name in sorted(rows, key=lambda name: depth[name]):
        lease = rows[name]
        known = [ms for ms in (lease.committed_up_to_ms, tips.get(name)) if ms is not None]
        own = max(known, default=None)
        if _is_reset(lease):
            seen[name] = None
        elif own is not None:
            seen[name] = own - MARGIN_MS
        else:
            above = [seen[parent] for parent in lease.parent_shard_ids if parent in seen]
            seen[name] = max((ms for ms in above if ms is not None), default=None)
    return seen


def _is_reset(lease: Lease) -> bool:
    """Whether a reset holds it, which may be about to take back what was seen."""
    return ResetHolder.parse(lease.lease_owner) is not None


def _of_row(lease: Lease, seen: Mapping[str, Bound]) -> Bound:
    """The bound of an open shard: what was seen, or the instant from which on its records are wanted."""
    begins = lease.checkpoint.timestamp_ms
    if begins is None or _is_reset(lease):
        return seen[lease.shard_id]
    known = seen[lease.shard_id]
    return begins - MARGIN_MS if known is None else max(known, begins - MARGIN_MS)


def _uncovered(
    application: Application, space: KeyRange, rows: Mapping[str, Lease], seen: Mapping[str, Bound]
) -> Iterator[Hold]:
    """What open rows leave of the key space: a shard may have it that has no row yet. All that this one has arrived
    after what was seen of the youngest completed shard there, or, where none is, after the application's start."""
    open_ones = (lease.hash_range for lease in rows.values() if not lease.completed and lease.hash_range is not None)
    for hole in holes(open_ones, space):
        for part, youngest in _youngest(hole, rows):
            if youngest:
                bounds = [seen[name] for name in youngest]
                ms = None if None in bounds else min(ms for ms in bounds if ms is not None)
                yield Hold(f"what follows {', '.join(sorted(youngest))}", ms)
            else:
                start = application.start_position
                began = start.timestamp_ms if start.kind is Kind.AT_TIMESTAMP else None
                yield Hold(f"the keys {part}", None if began is None else began - MARGIN_MS)


def _youngest(hole: KeyRange, rows: Mapping[str, Lease]) -> Iterator[tuple[KeyRange, set[str]]]:
    """A part of the key space, cut where completed shards begin and end, each with those there that have no child
    there."""
    there = [
        (lease.hash_range, lease)
        for lease in rows.values()
        if lease.completed and lease.hash_range is not None and lease.hash_range.meets(hole)
    ]
    begin: dict[int, list[Lease]] = {}
    end: dict[int, list[Lease]] = {}
    for keys, lease in there:
        begin.setdefault(max(keys.start, hole.start), []).append(lease)
        end.setdefault(min(keys.end, hole.end) + 1, []).append(lease)
    cuts = sorted({hole.start, hole.end + 1, *begin, *end})
    active: dict[str, Lease] = {}
    for first, following in zip(cuts, cuts[1:]):
        for lease in end.get(first, ()):
            del active[lease.shard_id]
        active.update((lease.shard_id, lease) for lease in begin.get(first, ()))
        parents = {parent for lease in active.values() for parent in lease.parent_shard_ids}
        yield KeyRange(first, following - 1), set(active) - parents


def _unlisted(application: Application, rows: Mapping[str, Lease], seen: Mapping[str, Bound]) -> Iterator[Hold]:
    """Without a key space: a shard that has no row was not in the last whole listing, so its records came after it;
    unless it is the child of a shard that was completed since, which may have been over before that listing showed it.
    """
    whole_ms = application.listed_whole_ms
    yield Hold("shards that no whole listing has shown", None if whole_ms is None else whole_ms - MARGIN_MS)
    if whole_ms is None:
        return
    for name in set(over(rows.values())).difference(application.listed_over):
        yield Hold(f"what follows {name}", seen[name])
