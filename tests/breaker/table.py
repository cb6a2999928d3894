# SPDX-License-Identifier: Apache-2.0
"""The stream of a table, as the service keeps it: shards that roll and split, late children, records that are trimmed.

It knows nothing of clients: ``table_client.py`` is how a process asks it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zlib import crc32

from shardbatch.core.position import after
from shardbatch.core.shard import KeyRange
from shardbatch.sources.kinesis.hash_space import HASH_KEYS
from tests.breaker.plans import Plans
from tests.breaker.stream import ExpiringStream, Sent
from tests.support.rig import FakeTime
from tests.support.scripted import Item, ScriptedShard

#: A sequence number is a count, then twenty digits that all numbers of its shard share: so they differ in length.
SHARE = 10**20
#: No child is listed later than so long after its birth, however seldom listings are asked for.
LATEST_MS = 20 * 60_000
#: How long a stream is about to be disabled; then all that were born are listed.
DISABLING_MS = 5_000


@dataclass(frozen=True)
class Habits:
    """What a service and the library that calls it may do, the same for a whole schedule.

    ``by_name``: the stream is named by its table. ``instants``, ``filters``: whether the library knows iterators of an
    instant and the filter for children, and what the service does about them. ``shows_body``: the library shows the
    body of an answer. ``page_shards``: shards of a listing page, of which ``repeats`` stand in the next one again.
    ``late_looks``, ``late_ms``: a child is listed after so many pages of listings, and so long after its birth.
    ``ends_with_records``: a closed shard ends in the answer that has its last records. ``absent``: an end lacks its
    iterator rather than saying that there is none. ``empties``: so many empty answers stand before the first of a new
    iterator. ``lenient``: a place is called trimmed only if something behind it is. ``attempts``: so often the source
    asks before it gives up.
    """

    by_name: bool
    instants: str
    filters: str
    shows_body: bool
    page_shards: int
    repeats: int
    late_looks: int
    late_ms: int
    ends_with_records: bool
    absent: bool
    empties: int
    lenient: bool
    attempts: int

    @classmethod
    def of(cls, plans: Plans) -> Habits:
        """Drawn from a tape; plain where it has ended."""
        return cls(
            by_name=plans.choose((True, True, False)),
            instants=plans.choose(("found", "unknown", "unknown", "refused")),
            filters=plans.choose(("found", "unknown", "refused", "ignored")),
            shows_body=plans.choose((True, True, False)),
            page_shards=plans.choose((100, 1, 2, 3)),
            repeats=plans.choose((0, 0, 1)),
            late_looks=plans.choose((0, 0, 2, 15, 40)),
            late_ms=plans.choose((0, 0, 2_000, 30_000, LATEST_MS)),
            ends_with_records=plans.choose((True, False)),
            absent=plans.choose((False, True)),
            empties=plans.choose((0, 0, 1, 4)),
            lenient=plans.choose((False, True)),
            attempts=plans.choose((6, 2, 1)),
        )


PLAIN = Habits.of(Plans())


@dataclass
class Enabled:
    """One stream of the table: its name, and when it was disabled."""

    arn: str
    disabled_ms: int | None = None

    def status(self, now_ms: int) -> str:
        """The state that the service names."""
        if self.disabled_ms is None:
            return "ENABLED"
        return "DISABLING" if now_ms - self.disabled_ms < DISABLING_MS else "DISABLED"


class TableStream(ExpiringStream):
    """One stream of a table after the other; ``shards`` and ``sent`` have all that there ever were, in their order.

    ``streams`` are all that were enabled, the last is the table's. ``looks`` counts the pages of listings, ``trimmed``
    has the highest number that each shard has lost, ``of`` the stream of each shard.
    """

    shown_ms = 1000

    def __init__(self, time: FakeTime, habits: Habits = PLAIN, **options: Any) -> None:
        self.habits = habits
        self.looks = 0
        self.streams = [Enabled(_arn(options["name"], time.ms))]
        self.trimmed: dict[str, int] = {}
        self.of: dict[str, Enabled] = {}
        self._first: int = options["shards"]
        self._born: dict[str, tuple[int, int]] = {}
        super().__init__(time, **options)
        self._next_sequence = 95
        self.retention = timedelta(hours=24)

    # what it is

    @property
    def arn(self) -> str:
        """The table's stream."""
        return self.streams[-1].arn

    def identity(self) -> str:
        return self.source_arn

    @property
    def source_arn(self) -> str:
        """The stream that is to be read: the table's, or the one that was named."""
        return self.streams[-1 if self.habits.by_name else 0].arn

    def stream(self, arn: str) -> Enabled | None:
        """The stream of an ARN, for a day after it was disabled."""
        return next((one for one in self.streams if one.arn == arn and not self._over(one)), None)

    def _over(self, one: Enabled) -> bool:
        return one.disabled_ms is not None and self.now_ms - one.disabled_ms >= self.retention_ms()

    @property
    def gone(self) -> bool:
        """Whether what is to be read is no more."""
        return self.stream(self.source_arn) is None

    @gone.setter
    def gone(self, value: bool) -> None:
        """It is told by the streams."""

    def shards_of(self, one: Enabled) -> list[ScriptedShard]:
        """Those that a stream has, in the order of their ids."""
        return [shard for name, shard in sorted(self.shards.items()) if self.of[name] is one and not shard.gone]

    def enable(self) -> None:
        """The table has another stream from now on."""
        self._time.ms += 1  # no two streams have one label
        self.streams.append(Enabled(_arn(self.name, self.now_ms)))
        width = HASH_KEYS.size // self._first
        for number in range(self._first):
            end = HASH_KEYS.end if number == self._first - 1 else (number + 1) * width - 1
            self._add(KeyRange(number * width, end), ())

    def disable(self) -> None:
        """No more records come, and no shard has children any more."""
        for shard in self.shards.values():
            if not shard.closed:
                self._close(shard.shard_id)
        self.streams[-1].disabled_ms = self.now_ms

    @property
    def enabled(self) -> bool:
        """Whether records come."""
        return self.streams[-1].disabled_ms is None

    def calm(self) -> None:
        """From now on it is at its best: children are listed at once, no answer is empty that need not be, and what
        was disabled stays for a while."""
        self.habits = replace(self.habits, late_looks=0, late_ms=0, empties=0, attempts=PLAIN.attempts)
        for one in self.streams:
            if one.disabled_ms is not None and not self._over(one):
                one.disabled_ms = self.now_ms

    # records

    def pack(self, *keys: str, shard_id: str | None = None) -> list[str]:
        """Nothing is sent as one, and nothing at all while there is no stream."""
        if not self.enabled:
            return []
        return super().pack(*keys, shard_id=shard_id) if len(keys) == 1 else self.put(*keys, shard_id=shard_id)

    def _append(self, shard: ScriptedShard, items: list[Item]) -> None:
        for item in items:
            item.sequence_number = item.sequence_number * SHARE + crc32(shard.shard_id.encode())
            item.arrival_ms -= item.arrival_ms % self.shown_ms  # no record shows more
        super()._append(shard, items)

    def expire(self) -> None:
        """Drop what is too old now, and closed shards of which nothing is left."""
        oldest = self.now_ms - self.retention_ms()
        for shard in self.shards.values():
            old = 0
            while old < len(shard.items) and shard.items[old].arrival_ms < oldest:
                old += 1
            self.drop(shard.shard_id, len(shard.items) - old)
            shard.gone = shard.gone or (shard.closed and self._closed_ms[shard.shard_id] < oldest)

    def drop(self, shard_id: str, keep: int) -> list[Sent]:
        """Trim all but the newest records of a shard; which they were."""
        shard = self.shards[shard_id]
        dropped = shard.items[: len(shard.items) - keep]
        del shard.items[: len(dropped)]
        for item in dropped:
            self.sent[str(item.place)].expired = True
            self.trimmed[shard_id] = item.sequence_number
        return [self.sent[str(item.place)] for item in dropped]

    def has(self, shard_id: str, number: int) -> bool:
        """Whether a shard ever gave out a sequence number."""
        sent = self.sent.get(str(after(str(number))))
        return sent is not None and sent.shard_id == shard_id

    # lineage

    def reshard(self, at: int, *, merge: bool) -> None:
        """Split an open shard, or, for ``merge``, roll it: nothing makes one shard of two."""
        still = [shard for shard in self.shards.values() if not shard.closed]
        if still:
            shard_id = still[at % len(still)].shard_id
            self.roll(shard_id) if merge else self.split(shard_id)

    def roll(self, shard_id: str) -> str:
        """Close a shard; one child has its range."""
        self._close(shard_id)
        return self._add(self.shards[shard_id].hash_range, (shard_id,)).shard_id

    def split(self, shard_id: str) -> tuple[str, str]:
        """Close a shard; two children have half its range each."""
        self._close(shard_id)
        return super().split(shard_id)

    def _close(self, shard_id: str) -> None:
        self.before = self.list_shards()
        self.shards[shard_id].closed = True
        self._closed_ms[shard_id] = self.now_ms

    def _add(self, hash_range: KeyRange, parents: tuple[str, ...]) -> ScriptedShard:
        name = f"shardId-{self._next_shard:020d}-{crc32(b'%d' % self._next_shard):08x}"
        shard = ScriptedShard(name, hash_range, parents)
        self._next_shard += 1
        self.shards[shard.shard_id] = shard
        self.of[shard.shard_id] = self.streams[-1]
        if parents:
            self._born[shard.shard_id] = self.now_ms, self.looks
        return shard

    def shows(self, shard: ScriptedShard) -> bool:
        """Whether listings show a shard by now. The children of a shard are shown all at once."""
        born_ms, looks = self._born.get(shard.shard_id, (0, -(1 << 30)))
        age_ms = self.now_ms - born_ms
        known = self.looks - looks >= self.habits.late_looks and age_ms >= self.habits.late_ms
        known = known or age_ms >= LATEST_MS or self.of[shard.shard_id].status(self.now_ms) == "DISABLED"
        if not known:
            self.hidden.add(shard.shard_id)
        return known


def _arn(table: str, now_ms: int) -> str:
    moment = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
    return f"arn:aws:dynamodb:eu-west-1:123456789012:table/{table}/stream/{moment}"
