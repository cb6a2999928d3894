# SPDX-License-Identifier: Apache-2.0
"""A service whose streams are a fixed number of tapes in memory, for the contract of sources.

Its shards never end and have no children, nothing tells a stream from an earlier one of its name, it keeps so many
records and not so much time, and what is put at once has one number and is told apart by sub-sequence numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa

from shardbatch.core.ports import Capabilities, Page
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, Kind, Position, after
from shardbatch.core.shard import Shard
from shardbatch.core.words import Words
from shardbatch.errors import SourceError, StreamNotFound
from shardbatch.sources.records import SCHEMA, empty


@dataclass(frozen=True)
class Mark:
    """One record: where it stands, and its text."""

    place: Position
    text: str


@dataclass
class Tapes:
    """All streams of the service by name, each with its tapes."""

    streams: dict[str, list[list[Mark]]] = field(default_factory=dict)
    last: int = 0

    def put(self, stream: str, tape: int, *texts: str) -> list[str]:
        """Append records under one number; their places."""
        self.last += 1
        marks = [Mark(after(str(self.last), sub), text) for sub, text in enumerate(texts)]
        self.streams[stream][tape] += marks
        return [str(mark.place) for mark in marks]


class TapeSource:
    """Reads the tapes of one stream."""

    capabilities = Capabilities(lineage=False, instants=False, arrival_times=True)
    words = Words()

    def __init__(self, tapes: Tapes, name: str, *, page_records: int = 100) -> None:
        self.name = name
        self._tapes = tapes
        self._page_records = page_records

    def identity(self) -> str:
        self._stream()
        return f"tapes:{self.name}"

    def list_shards(self) -> Sequence[Shard]:
        return [Shard(str(number)) for number in range(len(self._stream()))]

    def missing(self, listing: Sequence[Shard]) -> str:
        return ""

    def open_at(self, instant_ms: int) -> Sequence[Shard] | None:
        return None

    def clock_ms(self) -> int | None:
        return None

    def resolve(self, start: Position, shard_id: str | None = None) -> Position:
        if start.kind is not Kind.LATEST or shard_id is None:
            return start
        marks = self._stream()[int(shard_id)]
        return marks[-1].place if marks else TRIM_HORIZON

    def retention_ms(self) -> int | None:
        return None

    def read(self, shard_id: str, after: Position) -> Iterator[Page]:
        if after == SHARD_END:
            yield Page(empty(), SHARD_END, ended=True, requests=0)
            return
        if after.kind is Kind.AT_TIMESTAMP:
            raise SourceError(f"A tape cannot be read from {after}.")
        position, first = after, True
        while True:
            stream = self._stream()
            if int(shard_id) >= len(stream):
                yield Page(empty(), position, ended=True, gone=True)
                return
            marks = stream[int(shard_id)]
            unread = [mark for mark in marks if mark.place > position]
            found, rest = unread[: self._page_records], unread[self._page_records :]
            lost = first and position.exact and all(mark.place != position for mark in marks)
            position, first = found[-1].place if found else position, False
            yield Page(_batch(found), position, at_tip=not rest, checkpoint_gone=lost)

    def end_reading(self, others: Callable[[], bool]) -> None:
        """Nothing was set up."""

    def close(self) -> None:
        """Nothing to give back."""

    def _stream(self) -> list[list[Mark]]:
        if self.name not in self._tapes.streams:
            raise StreamNotFound(f"There is no stream {self.name} on these tapes.", stream=self.name)
        return self._tapes.streams[self.name]


def _batch(marks: Sequence[Mark]) -> pa.RecordBatch:
    columns = {
        "sequence_number": [mark.place.sequence_number for mark in marks],
        "sub_sequence_number": [mark.place.sub_sequence_number for mark in marks],
        "partition_key": [f"k-{mark.text}" for mark in marks],
        "arrival_time": [datetime.now(UTC)] * len(marks),
        "data": [mark.text.encode() for mark in marks],
    }
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)
