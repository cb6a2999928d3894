# SPDX-License-Identifier: Apache-2.0
"""What landing costs: bytes a second, CPU, and that memory stays bounded whatever the volume.

    python benchmarks/landing.py [--megabytes 300] [--record-bytes 1000] [--compression zstd] [--json] [--s3 [ROUNDS]]

Pages of 1,000 records are made once and landed again and again as one slice in a temporary folder. The growth of the
process's largest resident size is taken from after the first row group, so that libraries are not counted.

With ``--s3`` they are landed in a bucket of a local server instead (moto, in a process of its own), in turns through
boto3, as staging does it, and through pyarrow's own S3, over TLS, each in a fresh process; the ratios are those of
the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

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


def s3_file_system(through: str, endpoint: str, ca: str) -> pafs.FileSystem:
    """S3 on a local server: through ``boto3`` as Staging has it, or through ``pyarrow``."""
    keys = {"access_key": "x", "secret_key": "y", "region": "eu-west-1"}
    if through == "pyarrow":
        place = endpoint.partition("://")[2]
        return pafs.S3FileSystem(**keys, scheme="https", endpoint_override=place, tls_ca_file_path=ca)
    os.environ["AIRFLOW_CONN_BENCH"] = json.dumps(
        {
            "conn_type": "aws",
            "login": "x",
            "password": "y",
            "extra": {"region_name": "eu-west-1", "endpoint_url": endpoint, "verify": ca},
        }
    )
    from shardbatch.hooks.staging import s3_file_system

    return s3_file_system("bench")


def measure(
    megabytes: int, record_bytes: int, compression: str, through: str = "", endpoint: str = "", ca: str = ""
) -> dict[str, float]:
    """Land one slice of that volume."""
    page = make_page(record_bytes)
    pages = max(1, (megabytes << 20) // (PAGE * record_bytes))
    with tempfile.TemporaryDirectory() as folder:
        place, filesystem = (folder, None)
        if through:
            place, filesystem = "s3://bench/" + Path(folder).name, s3_file_system(through, endpoint, ca)
        writer = StagingArea(place, filesystem, compression=compression).slice(
            Namespace("bench", "bench"), "shard-0", TRIM_HORIZON, 1
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
        assert through or sum(path.stat().st_size for path in Path(folder).rglob("*.parquet")) == written
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


def compare(rounds: int, arguments: list[str]) -> dict[str, dict[str, float]]:
    """Both ways to S3 in turns, against one server: the medians, and the one by the other."""
    from tests.support.authority import make_authority
    from tests.support.moto import moto_server

    found: dict[str, list[dict[str, float]]] = {"boto3": [], "pyarrow": []}
    with tempfile.TemporaryDirectory() as folder:
        authority = make_authority(Path(folder))
        for through in [*found] * rounds:
            with moto_server(authority) as server:  # which holds all in memory
                server.client("s3").create_bucket(
                    Bucket="bench", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
                )
                way = ["--json", "--through", through, "--endpoint", server.url, "--ca", str(authority.ca)]
                done = subprocess.run([sys.executable, __file__, *arguments, *way], check=True, capture_output=True)
                found[through].append(json.loads(done.stdout.splitlines()[-1]))
    medians = {
        through: {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        for through, runs in found.items()
    }
    names = ("mb_per_wall_s", "mb_per_cpu_s", "memory_growth_mb")
    ratio = {name: round(medians["boto3"][name] / medians["pyarrow"][name], 2) for name in names}
    return {**medians, "boto3 / pyarrow": ratio}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--record-bytes", type=int, default=1000)
    parser.add_argument("--compression", default="zstd")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument("--s3", type=int, nargs="?", const=3, metavar="ROUNDS", help="compare the two ways to S3")
    parser.add_argument("--through", default="", choices=("", "boto3", "pyarrow"), help=argparse.SUPPRESS)
    parser.add_argument("--endpoint", default="", help=argparse.SUPPRESS)
    parser.add_argument("--ca", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    volume = (options.megabytes, options.record_bytes, options.compression)
    if options.s3:
        words = ("--megabytes", "--record-bytes", "--compression")
        found = compare(options.s3, [text for pair in zip(words, map(str, volume), strict=True) for text in pair])
    else:
        found = {"": measure(*volume, options.through, options.endpoint, options.ca)}
    if options.json:
        print(json.dumps(found if options.s3 else found[""]))
        return
    for way, numbers in found.items():
        if way:
            print(way)
        for name, value in numbers.items():
            print(f"{name:>18}  {value}")


if __name__ == "__main__":
    main()
