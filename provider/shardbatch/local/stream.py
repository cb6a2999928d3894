# SPDX-License-Identifier: Apache-2.0
"""One stream: its state, its open and closed shards, and where a record goes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import md5

from shardbatch.local.shard import Shard
from shardbatch.local.throttle import Throttle

HASH_END = 2**128 - 1
HOUR_MS = 3_600_000


class Status(StrEnum):
    """State of a stream, as the service names it."""

    CREATING = "CREATING"
    ACTIVE = "ACTIVE"
    UPDATING = "UPDATING"
    DELETING = "DELETING"


@dataclass(frozen=True)
class Change:
    """A change of state that takes effect at its time."""

    due_ms: int
    apply: Callable[[int], None]


@dataclass(eq=False)
class Stream:
    """A stream and all that it holds. Time is passed in: nothing here asks a clock."""

    account: str
    home: str
    name: str
    arn: str
    created_ms: int
    on_demand: bool = False
    max_record_bytes: int = 0
    status: Status = Status.CREATING
    retention_hours: int = 24
    tags: dict[str, str] = field(default_factory=dict)
    shards: dict[str, Shard] = field(default_factory=dict)
    change: Change | None = None
    throttles: dict[str, Throttle] = field(default_factory=dict)
    recounts_ms: list[int] = field(default_factory=list)
    switches_ms: list[int] = field(default_factory=list)
    _made: int = 0
    _open: list[Shard] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)
    _expiry_ms: int | None = None

    # state

    def settle(self, now_ms: int) -> None:
        """Bring state, listing and retention to the present."""
        change = self.change
        if change is not None and change.due_ms <= now_ms:
            self.change = None
            change.apply(change.due_ms)
        if self._expiry_ms is not None and self._expiry_ms <= now_ms:
            horizon = self.horizon_ms(now_ms)
            self.forget([s for s in self.shards.values() if s.closed_ms is not None and s.closed_ms <= horizon])

    def begin(self, status: Status, due_ms: int, apply: Callable[[int], None]) -> None:
        """Enter ``status`` until ``due_ms``, then ``apply`` with that time."""
        self.status = status
        self.change = Change(due_ms, apply)

    def horizon_ms(self, now_ms: int) -> int:
        """Records that arrived at or before this time are gone."""
        return now_ms - self.retention_hours * HOUR_MS

    def trim(self, shard: Shard, now_ms: int) -> None:
        """Drop the shard's records that are past the retention."""
        shard.expire(self.horizon_ms(now_ms))

    def set_retention(self, hours: int, now_ms: int) -> None:
        """Change the retention; what is trimmed by now never comes back."""
        for shard in self.shards.values():
            self.trim(shard, now_ms)
        self.retention_hours = hours
        self._plan_expiry()

    def forget(self, shards: list[Shard]) -> None:
        """Take shards out of the listing for ever."""
        for shard in shards:
            self.shards.pop(shard.shard_id, None)
            self.throttles.pop(shard.shard_id, None)
        self._plan_expiry()

    def _plan_expiry(self) -> None:
        closed = [shard.closed_ms for shard in self.shards.values() if shard.closed_ms is not None]
        self._expiry_ms = min(closed) + self.retention_hours * HOUR_MS if closed else None

    # routing

    def route(self, hash_key: int) -> Shard:
        """The open shard that owns ``hash_key``."""
        return self._open[bisect_right(self._starts, hash_key) - 1]

    def open_shards(self) -> list[Shard]:
        """Open shards by hash range; together they cover every hash key once."""
        return list(self._open)

    def throttle(self, shard: Shard) -> Throttle:
        """The meter of one shard."""
        return self.throttles.setdefault(shard.shard_id, Throttle())

    # lineage

    def open_first(self, shard_count: int, now_ms: int) -> None:
        """Make the first shards, of equal ranges."""
        for start, end in even_ranges(shard_count):
            self._make(start, end, now_ms, now_ms // 1000, ())
        self._index()

    def split(self, shard: Shard, middle: int, now_ms: int) -> tuple[Shard, Shard]:
        """Close ``shard``; two children meet at ``middle``, which the second one owns."""
        created = self._birth((shard,), now_ms)
        parents = (shard.shard_id,)
        low = self._make(shard.hash_start, middle - 1, now_ms, created, parents)
        high = self._make(middle, shard.hash_end, now_ms, created, parents)
        shard.close(now_ms, [low, high])
        self._index()
        return low, high

    def merge(self, shard: Shard, adjacent: Shard, now_ms: int) -> Shard:
        """Close two neighbours; one child covers both ranges."""
        pair = (shard, adjacent)
        child = self._make(
            min(s.hash_start for s in pair),
            max(s.hash_end for s in pair),
            now_ms,
            self._birth(pair, now_ms),
            (shard.shard_id, adjacent.shard_id),
        )
        for parent in pair:
            parent.close(now_ms, [child])
        self._index()
        return child

    def recount(self, shard_count: int, now_ms: int) -> None:
        """Split and merge until ``shard_count`` open shards of equal ranges are left."""
        for start, end in even_ranges(shard_count):
            for cut in (start, end + 1):
                if cut <= HASH_END and self.route(cut).hash_start != cut:
                    self.split(self.route(cut), cut, now_ms)
            merged = self.route(start)
            while merged.hash_end < end:
                merged = self.merge(merged, self.route(merged.hash_end + 1), now_ms)

    def _birth(self, parents: tuple[Shard, ...], now_ms: int) -> int:
        return max(now_ms // 1000, *(parent.created for parent in parents)) + 1

    def _make(self, start: int, end: int, now_ms: int, created: int, parents: tuple[str, ...]) -> Shard:
        shard = Shard(self._made, start, end, now_ms, created, parents)
        self._made += 1
        self.shards[shard.shard_id] = shard
        return shard

    def _index(self) -> None:
        self._open = sorted((s for s in self.shards.values() if not s.closed), key=lambda s: s.hash_start)
        self._starts = [shard.hash_start for shard in self._open]
        self._plan_expiry()


def even_ranges(shard_count: int) -> list[tuple[int, int]]:
    """The 2^128 hash keys in ``shard_count`` ranges that differ by at most one key."""
    cuts = [(HASH_END + 1) * index // shard_count for index in range(shard_count + 1)]
    return [(cuts[index], cuts[index + 1] - 1) for index in range(shard_count)]


def hash_of(partition_key: str) -> int:
    """Hash key of a partition key: its MD5 as an unsigned 128-bit number."""
    return int.from_bytes(md5(partition_key.encode(), usedforsecurity=False).digest(), "big")
