# SPDX-License-Identifier: Apache-2.0
"""What landing costs: bytes a second, CPU, and that memory stays bounded whatever the volume.

    python benchmarks/landing.py [--megabytes 300] [--record-bytes 1000] [--compression zstd] [--json]

Pages of 1,000 records are made once and landed again and again as one slice in a temporary folder. The growth of the
process's largest resident size is taken from after the first row group, so that libraries are not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import Namespace
from shardbatch.landing.area import StagingArea

PAGE = 1_000
FIRST = 49590338271490256608559692538361571095921575989136588898


def make_page(size: int) -> pa.RecordBatch:
    """A page of records of which a half of the bytes cannot be compressed, as in the measurements of the design."""
    data = [os.urandom(size // 2).ljust(size, b"x") for _ in range(PAGE)]
    return pa.RecordBatch.from_pydict(
        {
            "sequence_number": pa.array([str(FIRST + n) for n in range(PAGE)]),
            "sub_sequence_number": pa.array([0] * PAGE, pa.int64()),
            "partition_key": pa.array([f"key-{n % 97}" for n in range(PAGE)]),
            "arrival_time": pa.array([1_767_323_045_000_000 + n for n in range(PAGE)], pa.timestamp("us", tz="UTC")),
            "data": pa.array(data, pa.binary()),
        }
    )


def peak_bytes() -> int:
    """The process's largest resident size so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def measure(megabytes: int, record_bytes: int, compression: str) -> dict[str, float]:
    """Land one slice of that volume."""
    page = make_page(record_bytes)
    pages = max(1, (megabytes << 20) // (PAGE * record_bytes))
    with tempfile.TemporaryDirectory() as folder:
        writer = StagingArea(folder, compression=compression).slice(
            Namespace("bench", "bench"), "shard-0", TRIM_HORIZON
        )
        warm = (40 << 20) // (PAGE * record_bytes)
        for _ in range(warm):
            writer.write(page)
        before, wall, cpu = peak_bytes(), time.perf_counter(), time.process_time()
        for _ in range(pages):
            writer.write(page)
        files = writer.finish()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        written = sum(file.bytes for file in files)
        largest = max(file.bytes for file in files)
        assert sum(path.stat().st_size for path in Path(folder).rglob("*.parquet")) == written
    payload = pages * PAGE * record_bytes
    return {
        "payload_mb": round(payload / 1e6, 1),
        "mb_per_wall_s": round(payload / 1e6 / wall, 1),
        "mb_per_cpu_s": round(payload / 1e6 / cpu, 1),
        "size_percent": round(100 * written / (payload + warm * PAGE * record_bytes), 1),
        "files": len(files),
        "largest_file_mb": round(largest / 1e6, 1),
        "memory_growth_mb": round((peak_bytes() - before) / 1e6, 1),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--record-bytes", type=int, default=1000)
    parser.add_argument("--compression", default="zstd")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    options = parser.parse_args()
    found = measure(options.megabytes, options.record_bytes, options.compression)
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:>18}  {value}")


if __name__ == "__main__":
    main()
