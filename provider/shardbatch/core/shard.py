# SPDX-License-Identifier: Apache-2.0
"""Shards, their lineage, and the ranges of keys that they have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from shardbatch.core.shortlist import shortlist


@dataclass(frozen=True)
class KeyRange:
    """Keys ``start`` to ``end``, both included, as unsigned integers."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError("a range of keys begins at zero or above and does not run backwards")

    def __str__(self) -> str:
        return f"{self.start}-{self.end}"

    @classmethod
    def parse(cls, text: str) -> KeyRange:
        """The range of a text that ``str`` made."""
        start, _, end = text.partition("-")
        return cls(int(start), int(end))

    def __contains__(self, key: int) -> bool:
        return self.start <= key <= self.end

    def meets(self, other: KeyRange) -> bool:
        """Whether they have a key in common."""
        return self.start <= other.end and other.start <= self.end

    @property
    def size(self) -> int:
        """How many keys it has."""
        return self.end - self.start + 1


@dataclass(frozen=True)
class Shard:
    """A shard as a listing shows it.

    ``parent_shard_ids`` holds whichever of parent and adjacent parent is set (K-2); ``hash_range`` is the shard's range
    of keys, of a source that has a key space; ``closed`` says that no record comes any more, ``leaf`` that it will
    never have a child. A source without lineage leaves the rest empty.
    """

    shard_id: str
    parent_shard_ids: tuple[str, ...] = ()
    hash_range: KeyRange | None = None
    closed: bool = False
    starting_sequence_number: str | None = None
    leaf: bool = False


def holes(ranges: Iterable[KeyRange], space: KeyRange) -> list[KeyRange]:
    """The parts of a key space that no range covers; all of it when there are no ranges (KV-6)."""
    found, expected = [], space.start
    for item in sorted(ranges, key=lambda r: (r.start, r.end)):
        if item.start > expected:
            found.append(KeyRange(expected, item.start - 1))
        expected = max(expected, item.end + 1)
    if expected <= space.end:
        found.append(KeyRange(expected, space.end))
    return found


def childless(shards: Iterable[Shard]) -> list[Shard]:
    """The closed shards of which no child is listed: a shard closes in favour of its children."""
    listed = list(shards)
    parents = {parent for shard in listed for parent in shard.parent_shard_ids}
    return [shard for shard in listed if shard.closed and shard.shard_id not in parents]


def inconsistent(shards: Iterable[Shard]) -> list[Shard]:
    """The shards whose parent is still open in the same listing: a race between paging and a reshard (K-10)."""
    listed = {shard.shard_id: shard for shard in shards}
    return [
        shard
        for shard in listed.values()
        if any(parent in listed and not listed[parent].closed for parent in shard.parent_shard_ids)
    ]


def generations(parents: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """Depth of every shard below the oldest shard of its lineage, parents outside the mapping left out.

    :raises ValueError: if a lineage runs in a circle.
    """
    above = {shard: {p for p in named if p in parents} for shard, named in parents.items()}
    below: dict[str, list[str]] = {shard: [] for shard in parents}
    for shard, named in above.items():
        for parent in named:
            below[parent].append(shard)
    depth = {shard: 0 for shard, named in above.items() if not named}
    ready = list(depth)
    for shard in ready:
        for child in below[shard]:
            above[child].discard(shard)
            if not above[child]:
                depth[child] = max(depth[p] + 1 for p in parents[child] if p in depth)
                ready.append(child)
    if len(depth) < len(parents):
        raise ValueError(f"a lineage must not run in a circle: {shortlist(sorted(set(parents) - set(depth)))}")
    return depth
