# SPDX-License-Identifier: Apache-2.0
"""A stream of lines as a source."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

import pyarrow as pa

from shardbatch.core.ports import Capabilities, Page
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, Kind, Position, after
from shardbatch.core.shard import Shard
from shardbatch.core.words import Words
from shardbatch.errors import SourceError, StreamNotFound
from shardbatch.sources.records import batch_of
from tests.support.lines.files import Line, LineFiles

#: Seconds between two looks at a shard that has nothing new.
IDLE = 0.01


class LinesSource:
    """Reads a stream of lines.

    :param page_lines: lines that one answer may hold at most, default 100.
    """

    capabilities = Capabilities(lineage=True, instants=False, arrival_times=False)
    words = Words(busy="Others read the same disk: wait for them", look=" with 'ls'")

    def __init__(self, files: LineFiles, *, page_lines: int = 100) -> None:
        self.name = files.name
        self._files = files
        self._page_lines = page_lines

    def identity(self) -> str:
        found = self._files.identity()
        if found is None:
            raise StreamNotFound(f"There is no stream {self.name} in {self._files.folder.parent}.", stream=self.name)
        return f"lines:{self.name}@{found}"

    def list_shards(self) -> Sequence[Shard]:
        self.identity()
        return [Shard(shelf.name, shelf.parents, closed=shelf.closed) for shelf in self._files.shards()]

    def missing(self, listing: Sequence[Shard]) -> str:
        return ""

    def open_at(self, instant_ms: int) -> Sequence[Shard] | None:
        return None

    def clock_ms(self) -> int | None:
        return None

    def resolve(self, start: Position, shard_id: str | None = None) -> Position:
        if start.kind is not Kind.LATEST or shard_id is None:
            return start
        lines = self._files.lines(shard_id)
        return after(str(lines[-1].number)) if lines else TRIM_HORIZON

    def retention_ms(self) -> int | None:
        return None

    def read(self, shard_id: str, after: Position) -> Iterator[Page]:
        if after == SHARD_END:
            yield page_of([], SHARD_END, ended=True, requests=0)
            return
        if after.kind is Kind.AT_TIMESTAMP:
            raise SourceError(f"A stream of lines cannot be read from {after}.")
        position, first = after, True
        while True:
            closed = self._files.closed(shard_id)  # before its lines: none comes after that
            lines = self._files.lines(shard_id)
            if lines is None:
                self.identity()  # or it is the stream that is gone
                yield page_of([], position, ended=True, gone=True)
                return
            unread = [line for line in lines if place_of(line) > position]
            found, rest = unread[: self._page_lines], unread[self._page_lines :]
            lost = first and position.exact and all(place_of(line) != position for line in lines)
            position = place_of(found[-1]) if found else position
            ended = closed and not rest
            yield page_of(found, position, ended=ended, at_tip=not (rest or ended), checkpoint_gone=lost)
            if ended:
                return
            first = False
            if not found:
                time.sleep(IDLE)

    def end_reading(self, others: Callable[[], bool]) -> None:
        """Nothing was set up."""

    def close(self) -> None:
        """Nothing to give back."""


def place_of(line: Line) -> Position:
    """The place after a line."""
    return after(str(line.number))


def page_of(lines: Sequence[Line], position: Position, **said: bool | int) -> Page:
    """An answer with these lines."""
    times: list[datetime | None] = [None] * len(lines)
    records: pa.RecordBatch = batch_of(
        [str(line.number) for line in lines],
        [line.key for line in lines],
        times,
        [line.text.encode() for line in lines],
    )
    return Page(records, position, **said)  # type: ignore[arg-type]
