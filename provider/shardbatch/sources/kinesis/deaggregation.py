# SPDX-License-Identifier: Apache-2.0
"""The records of an answer with its aggregates taken apart, in pieces, each with the place after it.

Places count the records of an aggregate whether or not it is taken apart, so a read goes on rightly inside of one, and
after the option was changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from shardbatch.core.position import Kind, Position, after
from shardbatch.core.shard import KeyRange
from shardbatch.core.slice import NOTHING_ODD, Oddities
from shardbatch.sources.kinesis.aggregate import Aggregate, look_aggregated, take_apart
from shardbatch.sources.kinesis.options import Deaggregate

#: Asks for the hash range of the shard that is read; ``None`` if it is not listed.
AskRange = Callable[[], "KeyRange | None"]

NUMBER, SUB, KEY, ARRIVAL, DATA = range(5)

#: Bytes of keys and data that a piece of aggregates has at most, unless a single record has more. A message names a key
#: once for all of its records, so they may be far more than the answer's bytes.
MOST_BYTES = 8 << 20

#: The sub-sequence number of a record that is delivered whole behind a place inside of it: larger than any in an
#: aggregate, so that no record is named twice and the place behind it says that all of it was read.
WHOLE = 2**31 - 1


@dataclass(frozen=True)
class Piece:
    """Records that belong together, the place after them (``None``: as before), and whether the answer has more."""

    records: pa.RecordBatch
    next: Position | None
    oddities: Oddities = NOTHING_ODD
    more: bool = False


def fresh(records: pa.RecordBatch, start: Position) -> tuple[pa.RecordBatch, int]:
    """An answer's records from a checkpoint's own on, and how many records inside of the first were read before.

    They stand in order, so only leading ones are left out.
    """
    if start.kind is not Kind.AFTER_SEQUENCE_NUMBER:
        return records, 0
    limit, passed = int(start.sequence_number or 0), 0
    while passed < records.num_rows and _number(records, passed) < limit:
        passed += 1
    records = records.slice(passed)
    at_checkpoint = records.num_rows > 0 and _number(records, 0) == limit
    return records, start.sub_sequence_number + 1 if at_checkpoint else 0


def pieces(records: pa.RecordBatch, read: int, how: Deaggregate, ask_range: AskRange, most: int) -> Iterator[Piece]:
    """The records in pieces of at most ``most`` and about 8 MiB, at least one piece; ``read`` as :func:`fresh` says.

    An answer without aggregates is one piece, as it is.
    """
    looks = look_aggregated(records.column(DATA))
    if not pc.any(looks).as_py():
        yield Piece(records.slice(1) if read else records, _behind(records))
    elif how is not Deaggregate.OFF:
        yield from _Unpacking(records, looks.to_pylist(), how, ask_range, most).pieces(read)
    else:
        yield from _as_they_are(records, looks.to_pylist(), read, ask_range, most)


def _as_they_are(
    records: pa.RecordBatch, looks: list[bool], read: int, ask_range: AskRange, most: int
) -> Iterator[Piece]:
    """Aggregates stay whole, but for one that was begun."""
    rest = records.slice(1) if read else records
    if read:
        begun = _Unpacking(records.slice(0, 1), looks[:1], Deaggregate.ON, ask_range, most)
        for piece in begun.pieces(read):
            yield replace(piece, more=piece.more or rest.num_rows > 0)
    if rest.num_rows:
        yield Piece(rest, _behind(rest))


def _behind(records: pa.RecordBatch) -> Position | None:
    """The place after the last of these records, and after all that it may be packed from."""
    if not records.num_rows:
        return None
    last = records.num_rows - 1
    packed = take_apart(records.column(DATA)[last].as_py())
    return after(records.column(NUMBER)[last].as_py(), len(packed) - 1 if packed else 0)


@dataclass
class _Columns:
    """A piece in the making: the row that each record comes from, what differs from that row, and the place behind."""

    rows: list[int] = field(default_factory=list)
    subs: list[int] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    data: list[bytes] = field(default_factory=list)
    foreign: int = 0
    broken: int = 0
    dropped: int = 0
    place: tuple[int, int] | None = None
    bytes: int = 0

    def full(self, most: int) -> bool:
        return len(self.rows) >= most or self.bytes >= MOST_BYTES

    def piece(self, records: pa.RecordBatch, *, more: bool) -> Piece:
        rows = pa.array(self.rows, pa.int32())
        columns = [
            records.column(NUMBER).take(rows),
            pa.array(self.subs, pa.int64()),
            pa.array(self.keys, pa.string()),
            records.column(ARRIVAL).take(rows),
            pa.array(self.data, pa.binary()),
        ]
        return Piece(
            pa.RecordBatch.from_arrays(columns, schema=records.schema),
            after(records.column(NUMBER)[self.place[0]].as_py(), self.place[1]) if self.place else None,
            Oddities(self.foreign, self.broken, self.dropped),
            more,
        )


class _Unpacking:
    """Takes the aggregates of an answer apart, one after another."""

    def __init__(
        self, records: pa.RecordBatch, looks: list[bool], how: Deaggregate, ask_range: AskRange, most: int
    ) -> None:
        self._records = records
        self._looks = looks
        self._how = how
        self._ask_range = ask_range
        self._most = most
        self._columns = _Columns()

    def pieces(self, read: int) -> Iterator[Piece]:
        """All of it; of the first row so many records were read before.

        Another reader, as KCL, may have begun to take apart what stays whole here. How much of it was read cannot be
        told, so it is delivered. Only behind its first record it looks as if it had been.
        """
        for row in range(self._records.num_rows):
            packed = take_apart(self._payload(row)) if self._looks[row] else None
            outside = packed.outside(self._ask_range()) if packed else []
            last = len(packed) - 1 if packed else 0
            if packed and outside and self._how is Deaggregate.STRICT:
                self._columns.dropped += max(0, len(packed) - read)
            else:
                inside = self._looks[row] and not packed and read > 1
                first = 0 if inside and read <= WHOLE else read
                yield from self._add(row, packed or self._single(row), outside, first)
                self._columns.broken += self._looks[row] and not packed and not first
                if inside and not first:
                    self._columns.subs[-1] = WHOLE
                last = WHOLE if inside else last
            self._columns.place = (row, last)
            read = 0
        yield self._columns.piece(self._records, more=False)

    def _add(self, row: int, packed: Aggregate, outside: list[bool], first: int) -> Iterator[Piece]:
        """Add what a row holds; yield what is full before."""
        while first < len(packed):
            if self._columns.full(self._most):
                yield self._columns.piece(self._records, more=True)
                self._columns = _Columns()
            stop = self._fitting(packed, first)
            self._columns.rows += [row] * (stop - first)
            self._columns.subs += range(first, stop)
            self._columns.keys += packed.partition_keys[first:stop]
            self._columns.data += packed.data[first:stop]
            self._columns.foreign += sum(outside[first:stop])
            self._columns.place = (row, stop - 1)
            first = stop

    def _fitting(self, packed: Aggregate, first: int) -> int:
        """Behind the last record from ``first`` on that the piece has room for, at least one; its bytes are counted."""
        stop, last = first, min(len(packed), first + self._most - len(self._columns.rows))
        while stop < last and (stop == first or self._columns.bytes < MOST_BYTES):
            key = packed.partition_keys[stop]
            self._columns.bytes += len(packed.data[stop]) + (len(key) if key.isascii() else 4 * len(key))
            stop += 1
        return stop

    def _single(self, row: int) -> Aggregate:
        """A plain record, or one that is damaged, as the only one of an aggregate."""
        return Aggregate([self._records.column(KEY)[row].as_py()], [self._payload(row)], [])

    def _payload(self, row: int) -> bytes:
        payload: bytes = self._records.column(DATA)[row].as_py()
        return payload


def _number(records: pa.RecordBatch, row: int) -> int:
    return int(records.column(NUMBER)[row].as_py())
