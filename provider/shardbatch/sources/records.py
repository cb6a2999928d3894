# SPDX-License-Identifier: Apache-2.0
"""The Arrow columns of a page's records, the same for every source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

SCHEMA = pa.schema(
    [
        ("sequence_number", pa.string()),
        ("sub_sequence_number", pa.int64()),
        ("partition_key", pa.string()),
        ("arrival_time", pa.timestamp("us", tz="UTC")),
        ("data", pa.binary()),
    ]
)


def empty() -> pa.RecordBatch:
    """No records, with all columns."""
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in SCHEMA], schema=SCHEMA)


def times_of(seconds: Sequence[float | None]) -> pa.Array:
    """Epoch seconds with milliseconds as arrival times; rounding the milliseconds half to even makes them exact."""
    millis = pc.round(pc.multiply(pa.array(seconds, pa.float64()), 1e3), round_mode="half_to_even")
    return pc.cast(pc.multiply(pc.cast(millis, pa.int64()), 1000), pa.timestamp("us", tz="UTC"))


def batch_of(
    numbers: Sequence[str], keys: Sequence[str], arrivals: Sequence[Any] | pa.Array, data: Sequence[bytes]
) -> pa.RecordBatch:
    """Records of which each was sent by itself.

    :param numbers: their sequence numbers.
    :param arrivals: when each arrived, ``None`` where that is not known.
    """
    columns = [
        pa.array(numbers, pa.string()),
        pa.repeat(pa.scalar(0, pa.int64()), len(numbers)),
        pa.array(keys, pa.string()),
        arrivals if isinstance(arrivals, pa.Array) else pa.array(arrivals, pa.timestamp("us", tz="UTC")),
        pa.array(data, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
