# SPDX-License-Identifier: Apache-2.0
"""The records of all shards of a batch in one order, without holding more than a piece of each shard."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from shardbatch.core.total_order import Floor, floors_of, parents_of
from shardbatch.errors import StagingError
from shardbatch.landing.files import explained
from shardbatch.landing.location import joined
from shardbatch.landing.schema import RECORD_SCHEMA

if TYPE_CHECKING:
    from shardbatch.core.manifest import Manifest, ShardSlice

#: What a batch that is handed out has at most: rows, and bytes (but one record at least).
ROWS, BYTES = 1000, 8 << 20
#: Each column of a file is read in parts of so many bytes.
_BUFFER = 1 << 18
#: A record's place: time, sequence number, generation, shard, index.
Place = tuple[int, int, int, str, int]


class Pieces:
    """Reads slices in pieces.

    :param folder: the staging folder.
    """

    def __init__(self, filesystem: pafs.FileSystem, folder: str) -> None:
        self._filesystem = filesystem
        self._folder = folder

    def of(self, entry: ShardSlice) -> Iterator[pa.RecordBatch]:
        """A slice's records.

        :raises StagingError: if a file is missing, cannot be read, or does not hold what the manifest says.
        """
        at, rows = RECORD_SCHEMA.get_field_index("shard_generation"), _rows_of(entry)
        for file in entry.slice.files:
            path = joined(self._folder, file.path)
            with explained("read", path), self._filesystem.open_input_file(path) as stream:
                parquet = pq.ParquetFile(stream, pre_buffer=False, buffer_size=_BUFFER)
                if parquet.metadata.num_rows != file.records:
                    raise StagingError(f"{path} holds {parquet.metadata.num_rows} records, not {file.records}.")
                for piece in parquet.iter_batches(batch_size=rows):
                    column = pa.repeat(pa.scalar(entry.shard_generation, pa.int32()), piece.num_rows)
                    table = pa.Table.from_batches([piece]).add_column(at, RECORD_SCHEMA.field(at), column)
                    yield from table.cast(RECORD_SCHEMA).to_batches()


def in_order(manifest: Manifest, pieces: Pieces) -> Iterator[pa.RecordBatch]:
    """The records of a batch in the order of :mod:`shardbatch.core.total_order`."""
    merge, runs = _Merge(manifest, pieces), _Runs()
    for run in merge.runs():
        yield from runs.add(run)
    yield from runs.rest()


class _Merge:
    """Takes runs of records from the shard whose next record comes first."""

    def __init__(self, manifest: Manifest, pieces: Pieces) -> None:
        self._pieces = pieces
        self._parents, self._floors = parents_of(manifest), floors_of(manifest)
        self._waiting = {entry.slice.shard_id: entry for entry in manifest.slices}
        self._over: set[str] = set()
        self._heap: list[tuple[Place, _Cursor]] = []

    def runs(self) -> Iterator[pa.RecordBatch]:
        """Runs of records, in order."""
        self._begin()
        while self._heap:
            _, cursor = heapq.heappop(self._heap)
            yield cursor.take(self._heap[0][0] if self._heap else None)
            self._go_on(cursor)
            if cursor.place is None:
                self._begin()

    def _begin(self) -> None:
        """Open the shards whose parents are over. A shard without records is over at once."""
        while ready := [shard_id for shard_id in self._waiting if self._parents[shard_id] <= self._over]:
            for shard_id in ready:
                entry = self._waiting.pop(shard_id)
                self._go_on(_Cursor(entry, self._floors[shard_id], self._pieces.of(entry)))

    def _go_on(self, cursor: _Cursor) -> None:
        if cursor.place is None:
            self._over.add(cursor.shard_id)
        else:
            heapq.heappush(self._heap, (cursor.place, cursor))


class _Cursor:
    """Where a shard stands."""

    def __init__(self, entry: ShardSlice, floor: Floor, pieces: Iterator[pa.RecordBatch]) -> None:
        self.shard_id = entry.slice.shard_id
        self._generation = entry.shard_generation
        self._floor = floor
        self._pieces = pieces
        self._places: list[Place] = []
        self._at = 0
        self._next()

    @property
    def place(self) -> Place | None:
        """The place of the next record; ``None`` if there is none."""
        return self._places[self._at] if self._at < len(self._places) else None

    def take(self, limit: Place | None) -> pa.RecordBatch:
        """The records of this piece that come before a place."""
        first = self._at
        self._at = len(self._places) if limit is None else bisect_right(self._places, limit, first)
        taken = self._piece.slice(first, self._at - first)
        if self._at == len(self._places):
            self._next()
        return taken

    def _next(self) -> None:
        self._places, self._at = [], 0
        for piece in self._pieces:
            if piece.num_rows:
                self._piece, self._places = piece, [*self._placed(piece)]
                return

    def _placed(self, piece: pa.RecordBatch) -> Iterator[Place]:
        columns = [piece.column(piece.schema.get_field_index(n)) for n in ("sequence_number", "record_index")]
        times = piece.column(piece.schema.get_field_index("arrival_time")).cast("int64")
        for number, index, time in zip(*(column.to_pylist() for column in (*columns, times))):
            self._floor = self._floor.raised(None if time is None else time // 1000, int(number))
            yield self._floor.ms, self._floor.number, self._generation, self.shard_id, index


class _Runs:
    """Joins short runs into batches."""

    def __init__(self) -> None:
        self._held: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def add(self, piece: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take a run; hand out what is enough."""
        if self._held and (self._rows + piece.num_rows > ROWS or self._bytes + piece.nbytes > BYTES):
            yield from self.rest()
        self._held.append(piece)
        self._rows += piece.num_rows
        self._bytes += piece.nbytes

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Hand out what there is."""
        if self._held:
            yield from pa.Table.from_batches(self._held).combine_chunks().to_batches()
        self._held, self._rows, self._bytes = [], 0, 0


def _rows_of(entry: ShardSlice) -> int:
    """How many rows of a shard are about half of a batch that is handed out."""
    each = entry.slice.raw_bytes // max(1, entry.slice.records)
    return max(1, min(ROWS, BYTES // 2 // max(1, each)))
