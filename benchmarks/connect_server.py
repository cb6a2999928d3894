# SPDX-License-Identifier: Apache-2.0
"""How long a Spark Connect server may live: its memory against the number of runs that it has served.

    python benchmarks/connect_server.py [--runs 500] [--left] [--records 2000] [--conf NAME=VALUE ...] [--json]

See README.md beside this file for what is measured. Progress goes to standard error. The last line of the output is
JSON; without ``--json`` a table for people stands before it. It needs the ``jcmd`` of a JDK.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.environment import process_environment
from scripts.spark_connect import ConnectServer, start
from shardbatch.landing.area import StagingArea
from shardbatch.spark import open_batch
from tests.support.batches import Frozen, freeze

SHARDS = 4
#: After how many runs the memory is looked at, beside every hundredth run.
EARLY = (0, 1, 5, 10, 25, 50)
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Seen:
    """A server after some runs. The heap is what a garbage collection leaves; ``rss_mb`` was taken before that."""

    runs: int
    rss_mb: float
    heap_mb: float
    metaspace_mb: float
    threads: int
    seconds: float


def main() -> int:
    """Measures and reports."""
    given = arguments()
    if shutil.which("jcmd", path=process_environment()["PATH"]) is None:
        sys.exit("There is no jcmd: put a JDK's bin folder on the PATH or into JAVA_HOME.")
    conf = dict(pair.split("=", 1) for pair in given.conf)
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # pyspark's functions are those of Connect from now on
    seen = []
    with tempfile.TemporaryDirectory(prefix="shardbatch-connect-") as name:
        folder = Path(name)
        (folder / "staging").mkdir()
        shards = {f"shard-{number}": given.records // SHARDS for number in range(SHARDS)}
        frozen = freeze(StagingArea(str(folder / "staging")), shards)
        with start(folder, conf=conf) as server:
            for one in measure(server, frozen, folder / "out", given.runs, left=given.left):
                print(one, file=sys.stderr, flush=True)
                seen.append(one)
    if not given.json:
        show(seen)
    last, warm = seen[-1], next((one for one in seen if one.runs >= 50), seen[0])
    per_run = (last.heap_mb - warm.heap_mb) / max(1, last.runs - warm.runs)
    print(json.dumps({"heap_mb_per_run": round(per_run, 3), "seen": [asdict(one) for one in seen]}))
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500, help="runs, one after the other (default: %(default)s)")
    parser.add_argument("--left", action="store_true", help="end no session, as clients that are killed do not")
    parser.add_argument("--records", type=int, default=2000, help="records of a batch (default: %(default)s)")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="setting of the server")
    parser.add_argument("--json", action="store_true", help="no table, only the line of JSON")
    return parser.parse_args()


def measure(server: ConnectServer, frozen: Frozen, out: Path, runs: int, *, left: bool) -> Iterator[Seen]:
    """The server's memory before the first run and after some."""
    began = time.monotonic()
    for number in range(runs + 1):
        if number:
            run(server, frozen, f"{out}/{number}", left=left)
            shutil.rmtree(out)
        if number in EARLY or number % 100 == 0 or number == runs:
            yield look(server.process.pid, number, time.monotonic() - began)


def run(server: ConnectServer, frozen: Frozen, out: str, *, left: bool) -> None:
    """What a job does, in a session of its own: open the batch, group, write, leave."""
    from pyspark.sql import functions as F
    from pyspark.sql.connect.session import SparkSession

    spark: Any = SparkSession.builder.remote(f"{server.url}/;session_id={uuid.uuid4()}").create()
    with open_batch(spark, frozen.uri, 1, work="load", token=uuid.uuid4().hex) as batch:
        rows = batch.records().select("partition_key", F.length("data").alias("bytes"))
        sums = rows.groupBy("partition_key").agg(F.count("*").alias("records"), F.sum("bytes").alias("bytes"))
        sums.coalesce(1).write.parquet(batch.output(out))
    if left:
        spark.client.close()  # the connection ends, the session stays
    else:
        spark.stop()


def look(pid: int, runs: int, seconds: float) -> Seen:
    """The memory of a server."""
    process = psutil.Process(pid)
    resident = process.memory_info().rss
    for _ in range(2):  # what the first collection finalizes, the second one frees
        jcmd(pid, "GC.run")
    info = jcmd(pid, "GC.heap_info")
    used = sum(map(int, re.findall(r"generation\s+total \d+K, used (\d+)K", info)))
    metaspace = re.search(r"Metaspace\s+used (\d+)K", info)
    if not used or metaspace is None:
        raise RuntimeError(f"jcmd shows the heap in another form than the serial collector's:\n{info}")
    return Seen(
        runs=runs,
        rss_mb=round(resident / MEGABYTE, 1),
        heap_mb=round(used / 1024, 1),
        metaspace_mb=round(int(metaspace.group(1)) / 1024, 1),
        threads=process.num_threads(),
        seconds=round(seconds, 1),
    )


def jcmd(pid: int, command: str) -> str:
    done = subprocess.run(
        ["jcmd", str(pid), command], env=process_environment(), capture_output=True, text=True, check=True
    )
    return done.stdout


def show(seen: list[Seen]) -> None:
    """A table for people."""
    print("A Spark Connect server after some runs, each in a session of its own\n")
    print(f"  {'runs':>5} {'resident MB':>12} {'live heap MB':>13} {'metaspace MB':>13} {'threads':>8} {'seconds':>8}")
    for one in seen:
        print(
            f"  {one.runs:5} {one.rss_mb:12.0f} {one.heap_mb:13.1f} {one.metaspace_mb:13.1f}"
            f" {one.threads:8} {one.seconds:8.0f}"
        )
    print()


if __name__ == "__main__":
    sys.exit(main())
