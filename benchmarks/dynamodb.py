# SPDX-License-Identifier: Apache-2.0
"""Landing the changes of a DynamoDB table beside a plain loop of boto3 and beside Bloop; and what shards cost.

    python benchmarks/dynamodb.py [--json] [--changes 60000] [--rounds 3] [--generations 75]

See README.md beside this file for what is measured. Progress goes to standard error. The last line of the output is
JSON; without ``--json`` a table for people stands before it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.dynamodb_shards import Step, caught_up, many_shards
from benchmarks.dynamodb_way import WAYS
from benchmarks.stream import stream_server
from benchmarks.tables import Table
from shardbatch.core.position import TRIM_HORIZON

CHECKOUT = Path(__file__).resolve().parent.parent
SHARDS = 4
#: Ways that ours is compared with, for each of its two.
BESIDE = {"landed": ("parquet", "lines"), "read": ("loop", "bloop")}


def land(changes: int, rounds: int) -> tuple[float, dict[str, float]]:
    """Megabytes of the changes as they are landed, and the seconds of CPU of each way: medians of rounds in turns."""
    with stream_server() as endpoint_url:
        table = Table(endpoint_url, "orders")
        table.create(SHARDS)
        table.change(changes, max(1, changes // 4))
        spent: dict[str, list[float]] = {way: [] for way in WAYS}
        for number in range(rounds):
            for way in WAYS:
                command = [sys.executable, "-m", "benchmarks.dynamodb_way", way, endpoint_url, table.name, str(changes)]
                done = subprocess.run(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, check=True)
                spent[way].append(json.loads(done.stdout)["cpu_s"])
                print(f"round {number + 1}: {way} {spent[way][-1]:.2f} s of CPU", file=sys.stderr, flush=True)
        return payload(table) / 1e6, {way: statistics.median(seconds) for way, seconds in spent.items()}


def payload(table: Table) -> int:
    """Bytes of ``data`` of all changes: keys and images as compact JSON."""
    source, found = table.source(), 0
    for shard in source.list_shards():
        for page in source.read(shard.shard_id, TRIM_HORIZON):
            found += sum(map(len, page.records.column("data").to_pylist()))
            if page.at_tip:
                break
    source.close()
    return found


def show(changes: int, megabytes: float, medians: dict[str, float], steps: dict[str, Step]) -> None:
    """Tables for people."""
    print(f"{changes:,} changes, {megabytes:.0f} MB of keys and images\n")
    print(f"{'way':>10} {'CPU s':>8} {'changes / CPU s':>16} {'MB / CPU s':>11}")
    for way, seconds in medians.items():
        print(f"{way:>10} {seconds:>8.2f} {changes / seconds:>16,.0f} {megabytes / seconds:>11.1f}")
    print(f"\n{'step':>12} {'CPU s':>8} {'clock s':>8}  calls")
    for name, step in steps.items():
        calls = ", ".join(f"{operation} {count}" for operation, count in sorted(step.calls.items()))
        print(f"{name:>12} {step.cpu_s:>8.2f} {step.wall_s:>8.1f}  {calls}")
    print()


def main() -> int:
    """Measures and reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="no tables, only the line of JSON")
    parser.add_argument("--changes", type=int, default=60_000, help="of the table that is landed (default: 60000)")
    parser.add_argument("--rounds", type=int, default=3, help="of each way (default: 3)")
    parser.add_argument("--generations", type=int, default=75, help="of 40 closed shards each (default: 75)")
    given = parser.parse_args()
    megabytes, medians = land(given.changes, given.rounds)
    steps = {**many_shards(given.generations), "six later": caught_up(6, 500)}
    if not given.json:
        show(given.changes, megabytes, medians, steps)
    result: dict[str, object] = {}
    for way, others in BESIDE.items():
        result[f"{way}_per_cpu_s"] = round(given.changes / medians[way])
        result[f"{way}_mb_per_cpu_s"] = round(megabytes / medians[way], 1)
        result.update({f"{way}_to_{other}": round(medians[other] / medians[way], 2) for other in others})
    result["shards"] = {name: asdict(step) for name, step in steps.items()}
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
