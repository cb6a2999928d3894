# SPDX-License-Identifier: Apache-2.0
"""Where in a shard a read begins, and the search for the first record of an instant.

Newer versions of the service and of boto3 find an instant themselves. Elsewhere a shard is read from its oldest record
on, and what arrived before the instant is left out. The place that such a search has reached carries the instant, so
that the next read goes on there (PROTOCOL F8).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from shardbatch.core.position import Kind, Position, after

#: Records show whole seconds.
SECOND_MS = 1000


def second_of(instant_ms: int) -> int:
    """The beginning of the second in which an instant lies, in milliseconds: a record shows no more than that."""
    return instant_ms // SECOND_MS * SECOND_MS


def iterator_parameters(place: Position, *, finds_instants: bool) -> dict[str, Any]:
    """What to ask an iterator for.

    :param finds_instants: whether the service finds an instant itself.
    :raises ValueError: for a place at which nothing can be read.
    """
    if place.kind is Kind.AFTER_SEQUENCE_NUMBER:
        return {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": place.sequence_number}
    if place.kind is Kind.AT_TIMESTAMP and finds_instants:
        moment = datetime.fromtimestamp((place.timestamp_ms or 0) // SECOND_MS, UTC)
        return {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": moment}
    if place.kind in (Kind.AT_TIMESTAMP, Kind.TRIM_HORIZON):
        return {"ShardIteratorType": "TRIM_HORIZON"}
    raise ValueError(f"nothing can be read from {place}")


def next_record(place: Position) -> dict[str, Any]:
    """What to ask an iterator for before the record whose number is the integer behind a place."""
    number = place.sequence_number or "0"
    return {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "SequenceNumber": str(int(number) + 1).zfill(len(number))}


def adjoins(place: Position, records: pa.RecordBatch) -> bool:
    """Whether the first of some records has the integer behind a place: nothing can have stood between."""
    if place.kind is not Kind.AFTER_SEQUENCE_NUMBER or not records.num_rows:
        return False
    return int(records.column("sequence_number")[0].as_py()) == int(place.sequence_number or 0) + 1


def first_since(records: pa.RecordBatch, instant_ms: int) -> int:
    """The index of the first record that arrived in the second of an instant or later; their number if none did. One of
    unknown time counts as arrived since."""
    bound = second_of(instant_ms)
    for index, micros in enumerate(records.column("arrival_time").cast("int64").to_pylist()):
        if micros is None or micros // 1000 >= bound:
            return index
    return int(records.num_rows)


def beyond(records: pa.RecordBatch, place: Position) -> int:
    """The index of the first record behind a place; their number if none is."""
    if place.kind is not Kind.AFTER_SEQUENCE_NUMBER:
        return 0
    limit = int(place.sequence_number or 0)
    for index, number in enumerate(records.column("sequence_number").to_pylist()):
        if int(number) > limit:
            return index
    return int(records.num_rows)


def last_place(records: pa.RecordBatch, instant_ms: int | None = None) -> Position:
    """The place behind the last of some records."""
    return after(records.column("sequence_number")[-1].as_py(), 0, instant_ms)
