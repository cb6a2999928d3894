# SPDX-License-Identifier: Apache-2.0
"""What becomes of a stream's shards when positions that another library kept are taken over."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from shardbatch.core.carried import Noted
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, Kind, Position
from shardbatch.core.shard import Shard, generations

_MAY_HAVE_LOST = "; its parents have left the stream, so some of it may have too, which becomes a gap"


@dataclass(frozen=True)
class Taken:
    """What becomes of a shard: its place and what it means, or ``refused``, why nothing can become of it.

    ``unseen``: it was never begun, and its first records may have expired. ``chosen``: what was taken over names no
    place, so one was chosen for it; a later call may choose another. ``noted``: what is known of it beside its place.
    """

    shard: Shard
    position: Position
    meaning: str
    owner: str = ""
    refused: str = ""
    unseen: bool = False
    chosen: bool = False
    noted: Noted | None = None

    @property
    def completed(self) -> bool:
        """Whether nothing of it is left to read."""
        return self.position.kind is Kind.SHARD_END

    def marked_unseen(self) -> Taken:
        """As one of which the first records may have expired."""
        return replace(self, meaning=self.meaning + _MAY_HAVE_LOST, unseen=True)


def unseen(taken: Taken, known: Collection[str], listed: Collection[str]) -> bool:
    """Whether records of a shard that was never begun may have expired: a shard is as old as the end of its parents,
    and those that were ``known`` have left the listing, as a shard does when its last record expires."""
    parents = taken.shard.parent_shard_ids
    begins = taken.position == TRIM_HORIZON and taken.shard.shard_id in listed and not taken.refused
    return begins and any(parent in known for parent in parents) and not any(parent in listed for parent in parents)


def youngest_first(shards: Mapping[str, Shard]) -> list[str]:
    """Their ids, children before their parents (PROTOCOL F5).

    :raises ValueError: if a lineage runs in a circle.
    """
    depth = generations({shard.shard_id: shard.parent_shard_ids for shard in shards.values()})
    return sorted(shards, key=lambda name: (-depth[name], name))


class Lines:
    """Who descends from whom, for listed shards of which nothing was kept.

    :param shards: all that are listed or were kept, with all their parents that anyone names.
    :param kept: those of which something was kept.
    :param unfinished: those of them that have not been read to their end.
    """

    def __init__(self, shards: Mapping[str, Shard], kept: Collection[str], unfinished: Iterable[str]) -> None:
        parents = {name: shard.parent_shard_ids for name, shard in shards.items()}
        children: dict[str, list[str]] = {name: [] for name in shards}
        for name, above in parents.items():
            for parent in above:
                if parent in children:
                    children[parent].append(name)
        self._above = reached(kept, parents)
        self.below_unfinished = reached(unfinished, children)

    def unkept(self, shard: Shard, *, passed: str, fresh: str) -> Taken:
        """What becomes of a listed shard of which nothing was kept. It is read from its oldest record on, unless only
        what descends from it was kept: then it was read, or never wanted.

        :param passed: what is said of one that was read, or never wanted.
        :param fresh: what is said of one that is read.
        """
        if shard.shard_id in self._above and shard.shard_id not in self.below_unfinished:
            return Taken(shard, SHARD_END, passed)
        return Taken(shard, TRIM_HORIZON, fresh)


def reached(roots: Iterable[str], edges: Mapping[str, Iterable[str]]) -> set[str]:
    """All that the edges lead to from some shards, those themselves left out unless an edge leads back to them."""
    found: set[str] = set()
    todo = deque(roots)
    while todo:
        for name in edges.get(todo.popleft(), ()):
            if name not in found:
                found.add(name)
                todo.append(name)
    return found
