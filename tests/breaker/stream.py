# SPDX-License-Identifier: Apache-2.0
"""A scripted stream whose records and shards expire with time, and that remembers what it was sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from shardbatch.core.ports import Page
from shardbatch.core.position import Position, after
from shardbatch.core.shard import Shard
from shardbatch.core.slice import Trimmed
from tests.support.rig import FakeTime
from tests.support.scripted import Item, ScriptedShard, ScriptedStream, follows


@dataclass
class Sent:
    """One record: where and when it arrived, by its stamp, and whether it expired. ``late`` was put after that, and
    ``early`` was trimmed before its time: ``behind`` is the record that was read before it, if that proves it."""

    place: Position
    shard_id: str
    arrival_ms: int
    expired: bool = False
    late: bool = False
    early: bool = False
    behind: str | None = None


class ExpiringStream(ScriptedStream):
    """Drops what is older than its retention, and closed shards of which nothing is left.

    ``shown_ms``: what arrived within so many milliseconds looks alike. ``word``: what it says itself of a place that is
    gone: nothing, that it is ``trimmed``, or how many records behind it are (``counted``).
    """

    shown_ms = 1
    word = ""

    def __init__(self, time: FakeTime, **options: Any) -> None:
        self._time = time
        self.sent: dict[str, Sent] = {}
        self._closed_ms: dict[str, int] = {}
        self.before: list[Shard] = []
        #: Whether the stream itself is no more.
        self.gone = False
        #: Shards that a listing left out, or showed beside a parent that it called open.
        self.hidden: set[str] = set()
        super().__init__(**options)

    @property
    def now_ms(self) -> int:
        return self._time.ms

    @now_ms.setter
    def now_ms(self, value: int) -> None:
        """Its time is the world's."""

    def _append(self, shard: ScriptedShard, items: list[Item]) -> None:
        super()._append(shard, items)
        self.sent.update((str(item.place), Sent(item.place, shard.shard_id, item.arrival_ms)) for item in items)

    def reshard(self, at: int, *, merge: bool) -> None:
        """Split the open shard at this place of the hash space, or merge it with the next."""
        self.before = self.list_shards()
        still = sorted((s for s in self.shards.values() if not s.closed), key=lambda s: s.hash_range.start)
        at %= len(still)
        if merge and at + 1 < len(still):
            self.merge(still[at].shard_id, still[at + 1].shard_id)
        else:
            self.split(still[at].shard_id)
        for shard in still:
            if shard.closed:
                self._closed_ms[shard.shard_id] = self.now_ms

    def calm(self) -> None:
        """From now on it is at its best; what else may go wrong is the fate of a call."""

    def expire(self) -> None:
        """Drop what is too old now."""
        oldest = self.now_ms - self.retention_ms()
        for shard in self.shards.values():
            for item in shard.items:
                self.sent[str(item.place)].expired = item.arrival_ms < oldest
            shard.items = [item for item in shard.items if item.arrival_ms >= oldest]
            shard.gone = shard.gone or (shard.closed and self._closed_ms[shard.shard_id] < oldest)

    def seen(self, how: str) -> list[Shard]:
        """The listing: as it is, as it was before the last reshard, or with the last parents still open.

        One that is old does not show what has left the stream: none is a day late.
        """
        self.expire()
        listing = self.list_shards()
        if how == "old" and self.before:
            shown = [shard for shard in self.before if not self.shards[shard.shard_id].gone]
            self.hidden |= {shard.shard_id for shard in listing} - {shard.shard_id for shard in shown}
            return shown
        if how == "lacking":
            parents = {parent for shard in listing for parent in shard.parent_shard_ids}
            return [shard for shard in listing if not (shard.closed and shard.shard_id in parents)]
        if how == "racing":
            known = {shard.shard_id for shard in self.before if not shard.closed}
            self.hidden |= {shard.shard_id for shard in listing if known.intersection(shard.parent_shard_ids)}
            return [replace(shard, closed=shard.closed and shard.shard_id not in known) for shard in listing]
        return listing

    def read(self, shard_id: str, position: Position) -> Iterator[Page]:
        self.expire()
        for page in super().read(shard_id, position):
            yield page
            self.expire()

    def told(self, shard_id: str, place: Position, page: Page) -> Page:
        """An answer to a read from a place, with what the service says of it."""
        if not self.word or not page.checkpoint_gone:
            return page
        lost = len(self.lost(shard_id, place, next(iter(page.records.column("sequence_number").to_pylist()), None)))
        counted = self.word == "counted"
        return replace(page, trimmed=Trimmed(counted and lost > 0, lost if counted else None))

    def lost(self, shard_id: str, place: Position, first: str | None) -> list[Sent]:
        """The records behind a place, and before a sequence number, that are no more."""
        found = [
            sent for sent in self.sent.values() if sent.shard_id == shard_id and sent.expired and sent.place > place
        ]
        return found if first is None else [sent for sent in found if sent.place < after(first)]

    def behind(self, shard_id: str, position: Position) -> int:
        """A lag that does not become zero and says nothing that is untrue: at least as long ago as the oldest record
        arrived that is unread."""
        unread = [item.arrival_ms for item in self.shards[shard_id].items if follows(item, position)]
        return max(60_000, self.now_ms - min(unread, default=self.now_ms) + 1)

    def late(self, by_ms: int, *keys: str) -> None:
        """Records that are put now and stamped a while ago."""
        self._time.ms -= by_ms
        for number in self.put(*keys):
            self.sent[number].late = True
        self._time.ms += by_ms

    def nothing(self) -> Any:
        """A page's records when there are none."""
        return self._batch([])
