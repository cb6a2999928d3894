# SPDX-License-Identifier: Apache-2.0
"""How quick readers of committed output are, beside Spark on the same files without any markers.

    python benchmarks/readers.py [--json] [--batches 288 8640]

See README.md beside this file for what is measured. Progress goes to standard error. The last line of the output is
JSON; without ``--json`` a table for people stands before it.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from shardbatch.core.decision import Decision
from shardbatch.landing import layout
from shardbatch.landing.files import Files
from shardbatch.landing.sums import sum_markers
from shardbatch.spark import read_committed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
#: A run every five minutes.
EACH = timedelta(minutes=5)
ROWS = 5
#: What a commit leaves beside the sum: markers that none covers yet.
LOOSE = 63


@dataclass(frozen=True)
class Measured:
    """Seconds: until a frame is there, until its rows are counted, the same without markers, the last day alone."""

    plan_s: float
    count_s: float
    plain_plan_s: float
    plain_count_s: float
    day_s: float
    delta_count_s: float | None


def build(out: Path, batches: int) -> None:
    """The output of so many batches, partitioned by day, with markers, and a sum of all but the last of them."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": list(range(ROWS)), "s": ["text"] * ROWS}), sink)
    content = sink.getvalue().to_pybytes()
    (out / layout.MARKERS).mkdir(parents=True)
    for n in range(batches):
        begin = BEGIN + n * EACH
        ms = int(begin.timestamp() * 1000)
        batch_id, start = f"{ms:012x}-{n:06x}", f"{ms:012x}{secrets.token_hex(10)}"
        folder = out / layout.output_folder(batch_id, start) / f"day={begin:%Y-%m-%d}"
        folder.mkdir(parents=True)
        (folder / "part-00000.parquet").write_bytes(content)
        if n == batches - LOOSE:
            sum_markers(Files(pafs.LocalFileSystem()), str(out), least=1)
        decision = Decision(
            batch_id, 1, ((start, 1),), "etl/orders", None, 0, False, ms, ms + 299_999, ms + 310_000, (f"file://{out}",)
        )
        marker = out / layout.MARKERS / layout.marker_name(batch_id, 1)
        marker.write_text(json.dumps(decision.to_json()))


def measure(spark: SparkSession, out: Path, batches: int) -> Measured:
    """Two readings of each kind, in turn; the quicker of each.

    :raises RuntimeError: if they do not find the same rows.
    """
    last = BEGIN + batches * EACH - timedelta(days=1)
    found: list[tuple[float, ...]] = []
    for _ in range(2):
        plan_s, frame = _timed(lambda: read_committed(spark, str(out)))
        count_s, count = _timed(frame.count)
        plain_plan_s, plain = _timed(lambda: spark.read.parquet(str(out)))
        plain_count_s, plain_count = _timed(plain.count)
        day_s, _ = _timed(lambda: read_committed(spark, str(out), since=last).count())
        if not count == plain_count == batches * ROWS:
            raise RuntimeError(f"{count} rows, {plain_count} without markers, of {batches * ROWS}.")
        found.append((plan_s, count_s, plain_plan_s, plain_count_s, day_s))
    plan_s, count_s, plain_plan_s, plain_count_s, day_s = (min(values) for values in zip(*found, strict=True))
    return Measured(plan_s, count_s, plain_plan_s, plain_count_s, day_s, _delta(out, batches))


def _delta(out: Path, batches: int) -> float | None:
    """A Delta table of the same rows in as many commits, opened and counted; ``None`` without `deltalake`."""
    try:
        from deltalake import DeltaTable, write_deltalake
    except ImportError:
        return None
    table = str(out) + "-delta"
    for n in range(batches):
        day = f"{BEGIN + n * EACH:%Y-%m-%d}"
        rows = pa.table({"a": list(range(ROWS)), "s": ["text"] * ROWS, "day": [day] * ROWS})
        write_deltalake(table, rows, mode="append", partition_by=["day"])
    seconds, _ = _timed(lambda: DeltaTable(table).to_pyarrow_dataset().count_rows())
    return seconds


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.monotonic()
    result = call()
    return time.monotonic() - began, result


def session(folder: str) -> SparkSession:
    """A local Spark on two cores."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.local.dir": f"{folder}/local",
    }
    builder = SparkSession.builder.master("local[2]").appName("shardbatch-readers")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def show(found: dict[int, Measured]) -> None:
    """A table for people."""
    print("Reading what is committed, in seconds\n")
    names = ("plan", "count", "plain plan", "plain count", "last day", "delta")
    print("  " + " ".join(f"{name:>12}" for name in ("batches", *names)))
    for batches, one in found.items():
        values = (one.plan_s, one.count_s, one.plain_plan_s, one.plain_count_s, one.day_s, one.delta_count_s)
        shown = ("-" if value is None else f"{value:.2f}" for value in values)
        print("  " + " ".join(f"{value:>12}" for value in (f"{batches:,}", *shown)))
    print()


def main() -> int:
    """Measures and reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="no table, only the line of JSON")
    parser.add_argument("--batches", type=int, nargs="+", default=[288, 8640], help="how many (default: 288 8640)")
    given = parser.parse_args()
    found: dict[int, Measured] = {}
    with tempfile.TemporaryDirectory(prefix="shardbatch-readers-") as folder:
        spark = session(folder)
        try:
            build(Path(folder) / "warm", 70)
            read_committed(spark, f"{folder}/warm").count()
            for batches in given.batches:
                out = Path(folder) / str(batches)
                build(out, batches)
                found[batches] = measure(spark, out, batches)
                one = found[batches]
                print(
                    f"{batches} batches: plan {one.plan_s:.2f} s, count {one.count_s:.2f} s",
                    file=sys.stderr,
                    flush=True,
                )
                shutil.rmtree(out)
        finally:
            spark.stop()
    if not given.json:
        show(found)
    result: dict[str, dict[str, float]] = {
        name: {str(batches): round(getattr(one, name), 3) for batches, one in found.items()}
        for name in ("plan_s", "count_s", "plain_count_s")
    }
    deltas = {str(n): round(one.delta_count_s, 3) for n, one in found.items() if one.delta_count_s is not None}
    if deltas:
        result["delta_count_s"] = deltas
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
