# SPDX-License-Identifier: Apache-2.0
"""Shards, their lineage, and the coverage of the hash space."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

MAX_HASH_KEY = 2**128 - 1


@dataclass(frozen=True)
class HashRange:
    """Hash keys ``start`` to ``end``, both included, as unsigned 128-bit integers."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end <= MAX_HASH_KEY:
            raise ValueError("a hash range lies within 0 and 2**128 - 1 and does not run backwards")

    def __str__(self) -> str:
        return "{}-{}".format(self.start, self.end)

    @classmethod
    def parse(cls, text: str) -> HashRange:
        """The range of a text that ``str`` made."""
        start, _, end = text.partition("-")
        return cls(int(start), int(end))

    def __contains__(self, hash_key: int) -> bool:
        return self.start <= hash_key <= self.end


@dataclass(frozen=True)
class Shard:
    """A shard as a listing shows it.

    ``parent_shard_ids`` holds whichever of parent and adjacent parent is set (K-2); ``closed`` says that its ending
    sequence number is known. A source without lineage leaves the rest empty.
    """

    shard_id: str
    parent_shard_ids: tuple[str, ...] = ()
    hash_range: HashRange | None = None
    closed: bool = False
    starting_sequence_number: str | None = None


def hash_key(partition_key: str) -> int:
    """The hash key of a partition key: MD5 of its UTF-8 text as an unsigned integer (Kinesis API reference)."""
    digest = hashlib.md5(partition_key.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest, "big")


def holes(ranges: Iterable[HashRange]) -> list[HashRange]:
    """The parts of the hash space that no range covers; all of it when there are no ranges (KV-6)."""
    found, expected = [], 0
    for item in sorted(ranges, key=lambda r: (r.start, r.end)):
        if item.start > expected:
            found.append(HashRange(expected, item.start - 1))
        expected = max(expected, item.end + 1)
    if expected <= MAX_HASH_KEY:
        found.append(HashRange(expected, MAX_HASH_KEY))
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
        raise ValueError("a lineage must not run in a circle: {}".format(sorted(set(parents) - set(depth))[:4]))
    return depth
