# SPDX-License-Identifier: Apache-2.0
"""From the body of a GetRecords answer, or an event of a subscription, to Arrow columns; the one place that knows their
shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from shardbatch.core.shard import KeyRange, Shard
from shardbatch.errors import InvalidAnswer
from shardbatch.sources.aws.calls import unreadable
from shardbatch.sources.records import batch_of, times_of


@dataclass(frozen=True)
class Decoded:
    """One answer of GetRecords, or one event, whose ``next_iterator`` is its continuation sequence number.

    ``metered_bytes`` is what the service charges: payload and partition keys. ``asked`` is when a subscription began
    that pushed it, on the monotonic clock.
    """

    records: pa.RecordBatch
    next_iterator: str | None
    children: tuple[Shard, ...]
    millis_behind_latest: int
    metered_bytes: int
    asked: float | None = None


class _Record(msgspec.Struct, gc=False):
    SequenceNumber: str
    Data: bytes
    PartitionKey: str = ""
    ApproximateArrivalTimestamp: float | None = None


class _Range(msgspec.Struct, gc=False):
    StartingHashKey: str
    EndingHashKey: str


class _Child(msgspec.Struct, gc=False):
    ShardId: str
    ParentShards: list[str] | None = None
    HashKeyRange: _Range | None = None


class _Answer(msgspec.Struct, gc=False):
    Records: list[_Record]
    MillisBehindLatest: int | float
    NextShardIterator: str | None = None
    ChildShards: list[_Child] | None = None


class _Event(msgspec.Struct, gc=False):
    Records: list[_Record]
    MillisBehindLatest: int | float
    ContinuationSequenceNumber: str | None = None
    ChildShards: list[_Child] | None = None


_parse = msgspec.json.Decoder(_Answer).decode
_parse_event = msgspec.json.Decoder(_Event).decode


def decode(body: bytes) -> Decoded:
    """The answer that a JSON body holds.

    :raises InvalidAnswer: if the body is cut short, or lacks its records or its lag.
    """
    try:
        answer = _parse(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise unreadable("A GetRecords answer", body, error) from error
    return _columns(answer, answer.NextShardIterator)


def decode_event(payload: bytes) -> Decoded:
    """The event that a JSON payload holds.

    :raises InvalidAnswer: if it lacks its records or its lag.
    """
    try:
        event = _parse_event(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise unreadable("An event", payload, error) from error
    return _columns(event, event.ContinuationSequenceNumber)


def adapt(response: Mapping[str, Any]) -> Decoded:
    """The answer that botocore has parsed, for versions of it that do not show the body.

    :raises InvalidAnswer: if it lacks its records or its lag, as botocore makes of a body that was cut short.
    """
    if "Records" not in response or "MillisBehindLatest" not in response:
        raise InvalidAnswer("A GetRecords answer lacks its records or its lag.")
    records = response["Records"]
    arrivals = [record.get("ApproximateArrivalTimestamp") for record in records]
    return _decoded(
        [record["SequenceNumber"] for record in records],
        [record.get("PartitionKey", "") for record in records],
        pa.array(arrivals, pa.timestamp("us", tz="UTC")),
        [record["Data"] for record in records],
        response.get("NextShardIterator"),
        tuple(_child(child) for child in response.get("ChildShards") or ()),
        response["MillisBehindLatest"],
    )


def _columns(answer: _Answer | _Event, onward: str | None) -> Decoded:
    records = answer.Records
    return _decoded(
        [record.SequenceNumber for record in records],
        [record.PartitionKey for record in records],
        times_of([record.ApproximateArrivalTimestamp for record in records]),
        [record.Data for record in records],
        onward,
        tuple(_child(msgspec.to_builtins(child)) for child in answer.ChildShards or ()),
        answer.MillisBehindLatest,
    )


def _decoded(
    numbers: Sequence[str],
    keys: Sequence[str],
    arrivals: pa.Array,
    data: Sequence[bytes],
    next_iterator: str | None,
    children: tuple[Shard, ...],
    lag: float,
) -> Decoded:
    records = batch_of(numbers, keys, arrivals, data)
    metered = sum(pc.sum(pc.binary_length(records.column(name))).as_py() or 0 for name in ("partition_key", "data"))
    return Decoded(records, next_iterator or None, children, int(lag), metered)


def _child(child: Mapping[str, Any]) -> Shard:
    span = child.get("HashKeyRange")
    return Shard(
        child["ShardId"],
        tuple(dict.fromkeys(child.get("ParentShards") or ())),
        KeyRange(int(span["StartingHashKey"]), int(span["EndingHashKey"])) if span else None,
    )
