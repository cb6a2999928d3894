# SPDX-License-Identifier: Apache-2.0
"""One stream of a table: its state, its open and closed shards, and where a change goes."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from shardbatch.local.dynamodb.shard import ChangeShard
from shardbatch.local.options import Options
from shardbatch.local.stream import even_ranges

DAY_MS = 86_400_000
#: First counts of the shards that a stream begins with are so far apart.
BASES_APART = 37


class View(StrEnum):
    """What a change record shows of the item."""

    KEYS_ONLY = "KEYS_ONLY"
    NEW_IMAGE = "NEW_IMAGE"
    OLD_IMAGE = "OLD_IMAGE"
    NEW_AND_OLD_IMAGES = "NEW_AND_OLD_IMAGES"


@dataclass(eq=False)
class ChangeStream:
    """A stream and all that it holds. Time is passed in: nothing here asks a clock."""

    home: str
    region: str
    table: str
    arn: str
    label: str
    view: View
    key_schema: list[dict[str, str]]
    created_ms: int
    options: Options
    disabled_ms: int | None = None
    listings: int = 0
    """Calls of DescribeStream so far."""
    shards: dict[str, ChangeShard] = field(default_factory=dict)
    _made: int = 0
    _open: list[ChangeShard] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)
    _expiry_ms: int | None = None

    # state

    def status(self, now_ms: int) -> str:
        """State of the stream, as the service names it."""
        switch_ms = self.options.enable_seconds * 1000
        if self.disabled_ms is not None:
            return "DISABLING" if now_ms - self.disabled_ms < switch_ms else "DISABLED"
        return "ENABLING" if now_ms - self.created_ms < switch_ms else "ENABLED"

    def gone(self, now_ms: int) -> bool:
        """Whether it was disabled a day ago, and so is no more."""
        return self.disabled_ms is not None and now_ms - self.disabled_ms >= DAY_MS

    def settle(self, now_ms: int) -> None:
        """Bring lineage and listing to the present."""
        age_ms = int(self.options.roll_seconds * 1000)
        while age_ms and (due := [shard for shard in self._open if shard.opened_ms + age_ms <= now_ms]):
            at_ms = min(shard.opened_ms for shard in due) + age_ms
            self.roll([shard for shard in due if shard.opened_ms + age_ms <= at_ms], at_ms)
        if self._expiry_ms is not None and self._expiry_ms <= now_ms:
            horizon_ms = now_ms - DAY_MS
            self.forget([s for s in self.shards.values() if s.closed_ms is not None and s.closed_ms <= horizon_ms])

    def trim(self, shard: ChangeShard, now_ms: int) -> None:
        """Drop the shard's records that are older than a day."""
        shard.expire(now_ms - DAY_MS)

    def forget(self, shards: list[ChangeShard]) -> None:
        """Take shards out of the listing; their children go on naming them."""
        for shard in shards:
            self.shards.pop(shard.shard_id, None)
        self._plan_expiry()

    def listed(self, now_ms: int) -> list[ChangeShard]:
        """The shards that a listing shows at present, in the order of their ids."""
        return [shard for shard in self.shards.values() if shard.parent_id is None or self._shows(shard, now_ms)]

    def _shows(self, child: ChangeShard, now_ms: int) -> bool:
        calls, age_ms = self.listings - child.listings, now_ms - child.opened_ms
        return calls >= self.options.child_listings and age_ms >= self.options.child_seconds * 1000

    # routing

    def route(self, hash_key: int) -> ChangeShard:
        """The open shard that owns ``hash_key``."""
        return self._open[bisect_right(self._starts, hash_key) - 1]

    def open_shards(self) -> list[ChangeShard]:
        """Open shards by hash range; together they cover every hash key once."""
        return list(self._open)

    # lineage

    def open_first(self, shard_count: int, now_ms: int) -> None:
        """Make the first shards, of equal ranges."""
        for index, (start, end) in enumerate(even_ranges(shard_count)):
            self._make(start, end, now_ms, 1 + index * BASES_APART)
        self._index()

    def roll(self, shards: list[ChangeShard], now_ms: int) -> list[ChangeShard]:
        """Close shards; one child takes over each."""
        return self._succeed([(shard, [(shard.hash_start, shard.hash_end)]) for shard in shards], now_ms)

    def split(self, shards: list[ChangeShard], now_ms: int) -> list[ChangeShard]:
        """Close shards; two children halve each one's range."""
        halves = []
        for shard in shards:
            middle = (shard.hash_start + shard.hash_end + 1) // 2
            halves.append((shard, [(shard.hash_start, middle - 1), (middle, shard.hash_end)]))
        return self._succeed(halves, now_ms)

    def disable(self, now_ms: int) -> None:
        """Close every shard; none gets children."""
        self.disabled_ms = now_ms
        self._succeed([(shard, []) for shard in self._open], now_ms)

    def _succeed(self, heirs: list[tuple[ChangeShard, list[tuple[int, int]]]], now_ms: int) -> list[ChangeShard]:
        children: list[ChangeShard] = []
        for shard, ranges in heirs:
            shard.closed_ms = now_ms
            children += [self._make(start, end, now_ms, shard.last_base + 1, shard) for start, end in ranges]
        self._index()
        return children

    def _make(self, start: int, end: int, now_ms: int, base: int, parent: ChangeShard | None = None) -> ChangeShard:
        self._made = max(now_ms, self._made + 1)
        shard = ChangeShard(self.arn, self._made, start, end, now_ms, base, parent, self.listings)
        self.shards[shard.shard_id] = shard
        return shard

    def _index(self) -> None:
        self._open = sorted((s for s in self.shards.values() if not s.closed), key=lambda s: s.hash_start)
        self._starts = [shard.hash_start for shard in self._open]
        self._plan_expiry()

    def _plan_expiry(self) -> None:
        closed = [shard.closed_ms for shard in self.shards.values() if shard.closed_ms is not None]
        self._expiry_ms = min(closed) + DAY_MS if closed else None

    # what listings and tables show

    def describe(self, now_ms: int) -> dict[str, Any]:
        """The stream without its shards."""
        return {
            "StreamArn": self.arn,
            "StreamLabel": self.label,
            "StreamStatus": self.status(now_ms),
            "StreamViewType": self.view.value,
            "CreationRequestDateTime": self.created_ms / 1000,
            "TableName": self.table,
            "KeySchema": self.key_schema,
        }
