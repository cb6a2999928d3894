# SPDX-License-Identifier: Apache-2.0
"""What taking aggregates apart costs: records a second of CPU, beside aws-kinesis-agg on the same bytes.

    python benchmarks/aggregates.py [--records 20000] [--record-bytes 100] [--each 400] [--rounds 8] [--json]

``plain`` is an answer without aggregates, which is only looked through; ``whole`` has aggregates in a shard that owns
every hash key, ``half`` in one that owns half of them, so that each record's is looked at. The peer looks at none.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from aws_kinesis_agg.aggregator import RecordAggregator
from aws_kinesis_agg.deaggregator import iter_deaggregate_records

from shardbatch.core.shard import KeyRange
from shardbatch.sources.kinesis.deaggregation import pieces
from shardbatch.sources.kinesis.hash_space import HASH_KEYS
from shardbatch.sources.kinesis.options import Deaggregate
from shardbatch.sources.records import SCHEMA

WHOLE, HALF = HASH_KEYS, KeyRange(0, HASH_KEYS.end // 2)


def packed(records: int, record_bytes: int) -> bytes:
    """An aggregate, every record of it with a partition key of its own."""
    aggregator = RecordAggregator()
    for number in range(records):
        if aggregator.add_user_record(f"key-{number}", os.urandom(record_bytes)) is not None:
            raise SystemExit("An aggregate has at most a megabyte: ask for fewer or smaller records.")
    payload: bytes = aggregator.clear_and_get().get_contents()[2]
    return payload


def answer(payloads: list[bytes]) -> pa.RecordBatch:
    """An answer of the service with these records."""
    rows = [
        {
            "sequence_number": str(10**55 + n),
            "sub_sequence_number": 0,
            "partition_key": "k",
            "arrival_time": 0,
            "data": p,
        }
        for n, p in enumerate(payloads)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def ours(payloads: list[bytes], span: KeyRange) -> Callable[[], int]:
    """Delivers them as the reader does, the answer being decoded already."""
    records = answer(payloads)
    return lambda: sum(p.records.num_rows for p in pieces(records, 0, Deaggregate.ON, lambda: span, 10_000))


def peers(payloads: list[bytes]) -> Callable[[], int]:
    """The same by aws-kinesis-agg, whose records are dictionaries."""
    records = [
        {"SequenceNumber": str(n), "PartitionKey": "k", "ApproximateArrivalTimestamp": 0, "Data": payload}
        for n, payload in enumerate(payloads)
    ]
    return lambda: sum(1 for _ in iter_deaggregate_records(records, data_format="Boto3"))


def measure(records: int, record_bytes: int, each: int, rounds: int) -> dict[str, Any]:
    """Records a second of CPU; the sides take turns, and of each the best round counts."""
    payloads = [packed(each, record_bytes) for _ in range(max(1, records // each))]
    sides = {
        "plain": ours([os.urandom(record_bytes) for _ in range(records)], WHOLE),
        "whole": ours(payloads, WHOLE),
        "half": ours(payloads, HALF),
        "peer": peers(payloads),
    }
    best = dict.fromkeys(sides, 0.0)
    for _ in range(rounds):
        for name, deliver in sides.items():
            started = time.process_time()
            delivered = deliver()
            best[name] = max(best[name], delivered / (time.process_time() - started))
    return {
        **{f"{name}_records_per_cpu_s": round(value) for name, value in best.items()},
        "whole_to_peer": round(best["whole"] / best["peer"], 1),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--record-bytes", type=int, default=100)
    parser.add_argument("--each", type=int, default=400, help="records of one aggregate")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    options = parser.parse_args()
    found = measure(options.records, options.record_bytes, options.each, options.rounds)
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:>26}  {value:,}")


if __name__ == "__main__":
    main()
