# SPDX-License-Identifier: Apache-2.0
"""Which shards come from which, by rows and by a listing, and whether the children of a reshard are all there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from shardbatch.core.lease import Lease
from shardbatch.core.shard import KeyRange, Shard, holes


def parents_of(rows: Iterable[Lease], listing: Iterable[Shard]) -> dict[str, tuple[str, ...]]:
    """Of each shard that has a row or is listed the parents that are named."""
    found = {shard.shard_id: shard.parent_shard_ids for shard in listing}
    for lease in rows:
        found[lease.shard_id] = tuple(dict.fromkeys((*lease.parent_shard_ids, *found.get(lease.shard_id, ()))))
    return found


def descendants(parent: str, parents: Mapping[str, Sequence[str]]) -> set[str]:
    """All shards that come from one, however many reshards later."""
    below: dict[str, list[str]] = {}
    for child, named in parents.items():
        for name in named:
            below.setdefault(name, []).append(child)
    found: set[str] = set()
    left = list(below.get(parent, ()))
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += below.get(name, ())
    return found


def uncovered(keys: KeyRange, ranges: Iterable[KeyRange | None]) -> list[KeyRange]:
    """The parts of a shard's keys that none of these ranges covers. What a range has beside these keys is left out: a
    shard that comes from two has the keys of both."""
    clipped = [
        KeyRange(max(span.start, keys.start), min(span.end, keys.end))
        for span in ranges
        if span is not None and span.meets(keys)
    ]
    return holes(clipped, keys)
