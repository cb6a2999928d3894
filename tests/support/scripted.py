# SPDX-License-Identifier: Apache-2.0
"""A stream whose every move a test decides: the ``Source`` port in memory, without pace or network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from shardbatch.core.ports import Capabilities, Page
from shardbatch.core.position import Kind, Position, after, at_timestamp
from shardbatch.core.shard import KeyRange, Shard
from shardbatch.core.words import Words
from shardbatch.errors import SourceError
from shardbatch.sources.kinesis.hash_space import HASH_KEYS, hash_key, missing

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("sequence_number", pa.string()),
        ("sub_sequence_number", pa.int64()),
        ("partition_key", pa.string()),
        ("arrival_time", pa.timestamp("us", tz="UTC")),
        ("data", pa.binary()),
    ]
)


@dataclass
class Item:
    """One record of a scripted shard; those of an aggregate have one sequence number and count from zero in ``sub``."""

    sequence_number: int
    sub: int
    key: str
    arrival_ms: int

    @property
    def place(self) -> Position:
        return after(str(self.sequence_number), self.sub)

    @property
    def data(self) -> bytes:
        """Its place, as a text."""
        return str(self.place).encode()


@dataclass
class ScriptedShard:
    """A shard: its records still held, its range and parents, and whether it is closed, since when, and gone."""

    shard_id: str
    hash_range: KeyRange
    parents: tuple[str, ...] = ()
    items: list[Item] = field(default_factory=list)
    closed: bool = False
    gone: bool = False
    born_ms: int = 0
    closed_ms: int | None = None


class ScriptedStream:
    """A stream under a test's control; ``now_ms`` is its clock, ``page_size`` the records of one page.

    ``answer_pages``: an answer has the records of so many pages, which are given out one by one. ``tells_lag``: pages
    say how far behind they are; without that, an empty one says at least whether it is at the tip. ``tells_open``: it
    knows which shards were open at an instant.
    """

    capabilities = Capabilities(
        lineage=True,
        instants=True,
        arrival_times=True,
        place_lives=timedelta(minutes=5),
        least_retention=timedelta(hours=1),
        key_space=HASH_KEYS,
    )
    words = Words(busy="The script refuses calls: change the script", look=" in the script")

    def __init__(self, name: str = "orders", shards: int = 1, page_size: int = 3) -> None:
        self.name = name
        self.page_size = page_size
        self.answer_pages = 1
        self.tells_lag = True
        self.tells_open = True
        self.now_ms = 1_800_000_000_000
        self.created_ms = 1
        self.retention = timedelta(hours=24)
        self.shards: dict[str, ScriptedShard] = {}
        self.failing: dict[str, SourceError] = {}
        self.names_children = True
        self.reads: list[tuple[str, str]] = []
        self._next_sequence = 100
        self._next_shard = 0
        width = HASH_KEYS.size // shards
        for number in range(shards):
            end = HASH_KEYS.end if number == shards - 1 else (number + 1) * width - 1
            self._add(KeyRange(number * width, end), ())

    def _add(self, hash_range: KeyRange, parents: tuple[str, ...]) -> ScriptedShard:
        shard = ScriptedShard(f"shardId-{self._next_shard:012d}", hash_range, parents, born_ms=self.now_ms)
        self._next_shard += 1
        self.shards[shard.shard_id] = shard
        return shard

    def put(self, *keys: str, shard_id: str | None = None) -> list[str]:
        """Append a record for each key; its data are its sequence number. The sequence numbers."""
        return [name for key in keys for name in self.pack(key, shard_id=shard_id)]

    def pack(self, *keys: str, shard_id: str | None = None) -> list[str]:
        """Append an aggregate with a record for each key, where the first one belongs. Their places, as texts."""
        shard = self.shards[shard_id] if shard_id else self._of(keys[0])
        added = [Item(self._next_sequence, sub, key, self.now_ms) for sub, key in enumerate(keys)]
        self._next_sequence += 1
        self._append(shard, added)
        return [str(item.place) for item in added]

    def _append(self, shard: ScriptedShard, items: list[Item]) -> None:
        shard.items += items

    def _of(self, key: str) -> ScriptedShard:
        point = hash_key(key)
        return next(s for s in self.shards.values() if not s.closed and point in s.hash_range)

    def split(self, shard_id: str) -> tuple[str, str]:
        """Close a shard in favour of two children."""
        parent = self.shards[shard_id]
        self._shut(parent)
        middle = (parent.hash_range.start + parent.hash_range.end) // 2
        low = self._add(KeyRange(parent.hash_range.start, middle), (shard_id,))
        high = self._add(KeyRange(middle + 1, parent.hash_range.end), (shard_id,))
        return low.shard_id, high.shard_id

    def merge(self, left: str, right: str) -> str:
        """Close two neighbours in favour of one child."""
        low, high = sorted((self.shards[left], self.shards[right]), key=lambda s: s.hash_range.start)
        self._shut(low, high)
        return self._add(KeyRange(low.hash_range.start, high.hash_range.end), (left, right)).shard_id

    def _shut(self, *shards: ScriptedShard) -> None:
        for shard in shards:
            shard.closed, shard.closed_ms = True, self.now_ms

    def trim(self, shard_id: str, keep: int) -> None:
        """Drop all but the newest records of a shard."""
        items = self.shards[shard_id].items
        self.shards[shard_id].items = items[len(items) - keep :] if keep else []

    def forget(self, shard_id: str) -> None:
        """The service knows the shard no more."""
        self.shards[shard_id].gone = True

    def identity(self) -> str:
        return f"arn:scripted:{self.name}@{self.created_ms}"

    def list_shards(self) -> list[Shard]:
        return self._listed()

    def _listed(self) -> list[Shard]:
        return [Shard(s.shard_id, s.parents, s.hash_range, s.closed) for s in self.shards.values() if not s.gone]

    def missing(self, listing: Sequence[Shard]) -> str:
        return missing(listing)

    def open_at(self, instant_ms: int) -> list[Shard] | None:
        if not self.tells_open:
            return None
        there = {
            s.shard_id
            for s in self.shards.values()
            if s.born_ms <= instant_ms and (s.closed_ms is None or s.closed_ms >= instant_ms)
        }
        return [shard for shard in self._listed() if shard.shard_id in there]

    def clock_ms(self) -> int | None:
        return self.now_ms

    def resolve(self, start: Position, shard_id: str | None = None) -> Position:
        return at_timestamp(self.now_ms) if start.kind is Kind.LATEST else start

    def retention_ms(self) -> int:
        return int(self.retention.total_seconds() * 1000)

    def read(self, shard_id: str, position: Position) -> Iterator[Page]:
        self.reads.append((shard_id, str(position)))
        if position.kind is Kind.AT_TIMESTAMP and (position.timestamp_ms or 0) > self.now_ms:
            raise SourceError(f"{position} lies ahead of the stream's clock, which says {self.now_ms}.")
        current = position
        first = True
        while True:
            if shard_id in self.failing:
                raise self.failing[shard_id]
            shard = self.shards[shard_id]
            if shard.gone:
                yield Page(self._batch([]), current, ended=True, gone=True)
                return
            waiting = [item for item in shard.items if follows(item, current)]
            size = self.page_size * self.answer_pages
            answer, rest = waiting[:size], waiting[size:]
            gone = first and current.kind is Kind.AFTER_SEQUENCE_NUMBER and self._missing(shard, current)
            ended = shard.closed and not rest
            lag = self.now_ms - rest[0].arrival_ms + 1 if rest else 0
            children = tuple(s for s in self._listed() if shard_id in s.parent_shard_ids) if ended else ()
            for at in range(0, max(1, len(answer)), self.page_size):
                page, last = answer[at : at + self.page_size], at + self.page_size >= len(answer)
                current = page[-1].place if page else current
                whole = Page(
                    self._batch(page),
                    current,
                    ended=ended and last,
                    children=children if self.names_children and last else (),
                    checkpoint_gone=gone and at == 0,
                    continues=at > 0,
                )
                if self.tells_lag:
                    yield of_lag(whole, lag if last else max(1, lag))
                else:
                    yield replace(whole, at_tip=not (page or rest or ended))
            first = False
            if ended:
                return

    def _missing(self, shard: ScriptedShard, position: Position) -> bool:
        number = int(position.sequence_number or 0)
        return all(item.sequence_number != number for item in shard.items)

    def _batch(self, items: list[Item]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict(
            {
                "sequence_number": [str(item.sequence_number) for item in items],
                "sub_sequence_number": [item.sub for item in items],
                "partition_key": [item.key for item in items],
                "arrival_time": [EPOCH + timedelta(milliseconds=item.arrival_ms) for item in items],
                "data": [item.data for item in items],
            },
            schema=SCHEMA,
        )

    def end_reading(self, others: Callable[[], bool]) -> None:
        """Nothing was set up."""

    def close(self) -> None:
        """Nothing to give back."""


def of_lag(page: Page, lag_ms: int | None) -> Page:
    """The page as a source makes it that knows the tip by a lag only, as Kinesis does.

    A lag of zero beside records says nothing, and a page of nothing without a lag is no answer.
    """
    nothing = page.records.num_rows == 0
    return replace(
        page, lag_ms=lag_ms, at_tip=nothing and lag_ms == 0, silent=nothing and lag_ms is None and not page.ended
    )


def follows(item: Item, position: Position) -> bool:
    if position.kind is Kind.AT_TIMESTAMP:
        return item.arrival_ms >= (position.timestamp_ms or 0)
    if position.kind is Kind.AFTER_SEQUENCE_NUMBER:
        return item.place > position
    return position.kind is Kind.TRIM_HORIZON
