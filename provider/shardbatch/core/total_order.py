# SPDX-License-Identifier: Apache-2.0
"""One total order of a batch's records: by time, then by sequence number as an integer, and never against the order of
a shard and its lineage.

Clocks of a stream may run backwards, and sequence numbers of a child need not be greater than those of its parent. So a
record is placed by the greatest time and the greatest number of its lineage so far, its own included. Both never fall
from record to record, or from a parent to its child. Where two records have equal places, the generation, the shard
and the record's index decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardbatch.core.manifest import Manifest, ShardSlice


@dataclass(frozen=True)
class Floor:
    """The greatest time, in whole milliseconds, and the greatest sequence number before a place in a lineage."""

    ms: int = 0
    number: int = 0

    def raised(self, ms: int | None, number: int) -> Floor:
        """The floor behind a record; one without a time counts as of the time of the one before it."""
        return Floor(max(self.ms, ms or 0), max(self.number, number))


def parents_of(manifest: Manifest) -> dict[str, frozenset[str]]:
    """The parents that each shard has in the batch.

    Slices of shards that ended name their children, if the service names them. For a shard that has a parent in the
    batch, but that no slice names, all ended shards of earlier generations that name no children count as parents.
    """
    named: dict[str, set[str]] = {entry.slice.shard_id: set() for entry in manifest.slices}
    for entry in manifest.slices:
        for child in entry.slice.children:
            if child in named:
                named[child].add(entry.slice.shard_id)
    return {
        entry.slice.shard_id: frozenset(named[entry.slice.shard_id] or _possible(manifest, entry))
        for entry in manifest.slices
    }


def floors_of(manifest: Manifest) -> dict[str, Floor]:
    """The floor at which each shard of the batch begins."""
    parents = parents_of(manifest)
    floors: dict[str, Floor] = {}
    ends: dict[str, Floor] = {}
    for entry in sorted(manifest.slices, key=lambda entry: entry.shard_generation):
        shard = entry.slice
        above = [ends[parent] for parent in parents[shard.shard_id]]
        floor = Floor(max((end.ms for end in above), default=0), max((end.number for end in above), default=0))
        floors[shard.shard_id] = floor
        ends[shard.shard_id] = floor.raised(shard.max_arrival_ms, int(shard.last or 0))
    return floors


def _possible(manifest: Manifest, child: ShardSlice) -> list[str]:
    return [
        entry.slice.shard_id
        for entry in manifest.slices
        if entry.shard_generation < child.shard_generation and entry.slice.ended and not entry.slice.children
    ]
