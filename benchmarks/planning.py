# SPDX-License-Identifier: Apache-2.0
"""What a claim costs where there are very many shards: CPU and memory of its process, on SQLite and PostgreSQL.

    python benchmarks/planning.py [--json]

See README.md beside this file for what is measured. Progress goes to standard error. The last line of the output is
JSON; without ``--json`` a table for people stands before it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.postgres import postgres_server

CHECKOUT = Path(__file__).resolve().parent.parent
#: The streams of `benchmarks.claims`, by their number of shards; what a claim of each has to take.
STREAMS = {"1000": 1000, "20000": 20_000, "3040": 40}
#: The first claim of an application, and one after it.
RUNS = ("first", "later")
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Measured:
    """One claim in a process of its own; ``before_bytes`` is its largest resident size when the claim began."""

    cpu_s: float
    wall_s: float
    shards: int
    before_bytes: int
    peak_bytes: int


def measure(url: str, stream: str, run: str) -> Measured:
    """One claim.

    :raises RuntimeError: if it does not take what there is to take.
    """
    command = [sys.executable, "-m", "benchmarks.claims", url, stream, run]
    done = subprocess.run(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, check=True)
    measured = Measured(**json.loads(done.stdout))
    if measured.shards != STREAMS[stream]:
        raise RuntimeError(f"The {run} claim took {measured.shards} shards of {STREAMS[stream]}.")
    return measured


@contextmanager
def databases() -> Iterator[dict[str, str]]:
    """Empty databases, by name."""
    with tempfile.TemporaryDirectory(prefix="shardbatch-planning-") as folder, postgres_server() as server:
        yield {"sqlite": f"sqlite:///{folder}/leases.db", "postgres": server.create_database("planning")}


def show(found: dict[str, dict[str, dict[str, Measured]]]) -> None:
    """A table for people."""
    print("A claim, with its reading of rows, in a process of its own\n")
    print(
        f"  {'database':10} {'shards':>7} {'claim':>7} {'CPU s':>7} {'wall s':>7} {'µs a shard':>11} {'grew by MB':>11}"
    )
    for database, streams in found.items():
        for stream, runs in streams.items():
            for run, one in runs.items():
                each, grown = one.cpu_s / int(stream) * 1e6, (one.peak_bytes - one.before_bytes) / MEGABYTE
                print(
                    f"  {database:10} {int(stream):7,} {run:>7} {one.cpu_s:7.2f} {one.wall_s:7.2f}"
                    f" {each:11.0f} {grown:11.1f}"
                )
    print()


def main() -> int:
    """Measures and reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="no table, only the line of JSON")
    given = parser.parse_args()
    found: dict[str, dict[str, dict[str, Measured]]] = {}
    with databases() as urls:
        for database, url in urls.items():
            found[database] = {}
            for stream in STREAMS:
                found[database][stream] = {run: measure(url, stream, run) for run in RUNS}
                cpu = ", ".join(f"{run} {one.cpu_s:.2f} s" for run, one in found[database][stream].items())
                print(f"{database}, {stream} shards: {cpu} CPU", file=sys.stderr, flush=True)
    if not given.json:
        show(found)
    claims = [one for streams in found.values() for runs in streams.values() for one in runs.values()]
    result = {
        "cpu_s": {
            database: {stream: round(max(one.cpu_s for one in runs.values()), 3) for stream, runs in streams.items()}
            for database, streams in found.items()
        },
        "peak_rss_mb": round(max(one.peak_bytes for one in claims) / MEGABYTE, 1),
    }
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
