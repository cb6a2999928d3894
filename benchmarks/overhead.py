# SPDX-License-Identifier: Apache-2.0
"""What the steps of a run cost beside its Spark work, and what a run asks of the stream and the lease store.

    python benchmarks/overhead.py [--json] [--runs 10] [--read-tasks 16]

See README.md beside this file for what is measured. Progress goes to standard error. The last line of the output is
JSON; without ``--json`` a table for people stands before it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.run_calls import RunCalls, calls_per_run
from benchmarks.stream import REGION, Stream, stream_server
from scripts.airflow_instance import AirflowInstance

DAGS = Path(__file__).resolve().parent / "dags"
BATCH, EMPTY = "overhead_batch", "overhead_empty"
WORK = "batch.work"
SHARDS = (4, 100, 1000)
#: Shards, and records a shard, of the runs in Airflow.
AIRFLOW_SHARDS = 4
AIRFLOW_RECORDS = 250


@dataclass(frozen=True)
class RunTimes:
    """Seconds of one run: from its first task's start to its last task's end, and from start to end of each task.

    The instances of a mapped task count as one, from the first one's start to the last one's end.
    """

    total: float
    tasks: dict[str, float]

    @property
    def between(self) -> float:
        """When no task ran: Airflow was looking what comes next, and starting it."""
        return self.total - sum(self.tasks.values())

    @property
    def overhead(self) -> float:
        """All but the work."""
        return self.total - self.tasks.get(WORK, 0.0)


def times_of(instances: list[dict[str, Any]]) -> RunTimes:
    """The times of a finished run from its task instances as Airflow's API shows them.

    :raises RuntimeError: if a task was skipped or tried twice, for then the run measures something else.
    """
    spans: dict[str, list[tuple[float, float]]] = {}
    for instance in instances:
        if instance["state"] != "success":
            raise RuntimeError(f"{instance['task_id']} is {instance['state']}.")
        if instance["try_number"] != 1:
            raise RuntimeError(f"{instance['task_id']} was tried {instance['try_number']} times.")
        start, end = (datetime.fromisoformat(instance[name]).timestamp() for name in ("start_date", "end_date"))
        spans.setdefault(instance["task_id"], []).append((start, end))
    ordered = sorted((min(s for s, _ in span), max(e for _, e in span), task) for task, span in spans.items())
    tasks = {task: end - start for start, end, task in ordered}
    return RunTimes(max(end for _, end, _ in ordered) - ordered[0][0], tasks)


def run_once(airflow: AirflowInstance, dag_id: str) -> RunTimes:
    """One run of a DAG.

    :raises RuntimeError: if it fails.
    """
    run_id = airflow.client.trigger(dag_id)
    state = airflow.client.wait_for_run(dag_id, run_id, 300)
    if state != "success":
        raise RuntimeError(f"Run {run_id} of {dag_id} is {state}: {airflow.client.task_states(dag_id, run_id)}")
    return times_of(airflow.client.tasks(dag_id, run_id))


def measure_airflow(folder: Path, endpoint_url: str, runs: int, read_tasks: int) -> dict[str, list[RunTimes]]:
    """Runs of both DAGs in turn; the first of each, in which Airflow warms up, is not counted."""
    stream = Stream(endpoint_url, "overhead", AIRFLOW_SHARDS)
    staging = folder / "staging"
    staging.mkdir()
    aws = {
        "conn_type": "aws",
        "login": "bench",
        "password": "not-a-secret",
        "extra": {"region_name": REGION, "endpoint_url": endpoint_url},
    }
    env = {
        "AIRFLOW_CONN_OVERHEAD_AWS": json.dumps(aws),
        "AIRFLOW_CONN_OVERHEAD_LEASES": json.dumps({"conn_type": "sqlite", "host": str(folder / "leases.db")}),
        "OVERHEAD_STAGING": str(staging),
        "OVERHEAD_READ_TASKS": str(read_tasks),
    }
    found: dict[str, list[RunTimes]] = {BATCH: [], EMPTY: []}
    tell("starting Airflow")
    with AirflowInstance(folder / "airflow", DAGS, env=env) as airflow:
        for dag_id in found:
            airflow.client.wait_for_dag(dag_id)
        for number in range(runs + 1):
            stream.put(AIRFLOW_RECORDS)
            pair = {dag_id: run_once(airflow, dag_id) for dag_id in (BATCH, EMPTY)}
            if WORK not in pair[BATCH].tasks:
                raise RuntimeError("The run found no records: there is nothing to measure.")
            for dag_id, times in pair.items():
                found[dag_id] += [times] if number else []
            name = f"run {number} of {runs}" if number else "warm-up"
            tell(f"{name}: steps {pair[BATCH].overhead:.2f} s, empty DAG {pair[EMPTY].total:.2f} s")
    return found


def tell(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


# ---------------------------------------------------------------------- the report


def show_times(found: dict[str, list[RunTimes]]) -> None:
    """A table of medians, the steps beside the empty DAG; and the least, which a busy machine disturbs less."""
    batch, empty = found[BATCH], found[EMPTY]
    steps, baseline = [run.overhead for run in batch], [run.total for run in empty]
    print(f"Seconds of {len(batch)} runs, in turn with the empty DAG      median   least\n")
    show("  steps of a batch", steps)
    show("  empty DAG of six tasks", baseline)
    print(f"  {'ratio':42} {median(steps) / median(baseline):7.2f} {min(steps) / min(baseline):7.2f}\n")
    for title, runs in (("batch", batch), ("empty DAG", empty)):
        print(f"  {title}")
        for task in runs[0].tasks:
            show(f"    {task.removeprefix('batch.')}", [run.tasks[task] for run in runs])
        show("    between tasks", [run.between for run in runs])
        print()


def show(title: str, seconds: list[float]) -> None:
    """One line of the table."""
    print(f"{title:44} {median(seconds):7.2f} {min(seconds):7.2f}")


def show_calls(found: dict[int, RunCalls]) -> None:
    """A table of calls and writes for each number of shards."""
    operations = sorted({name for run in found.values() for name in run.calls})
    print("Calls to the stream and writes to the lease store of a run with records in every shard\n")
    print("  ".join([f"  {'shards':>6}", *(f"{name:>21}" for name in operations), f"{'calls':>7}", f"{'writes':>7}"]))
    for shards, run in found.items():
        counts = [f"{run.calls.get(name, 0):21,}" for name in operations]
        print("  ".join([f"  {shards:6,}", *counts, f"{run.api_calls:7,}", f"{run.lease_writes:7,}"]))
    print()


def main() -> int:
    """Measures and reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="no table, only the line of JSON")
    parser.add_argument("--runs", type=int, default=10, help="runs of each DAG that count, default 10; 0: no Airflow")
    parser.add_argument("--read-tasks", type=int, default=16, help="read tasks at most, default 16 as in a group")
    given = parser.parse_args()
    times: dict[str, list[RunTimes]] = {BATCH: [], EMPTY: []}
    with tempfile.TemporaryDirectory(prefix="shardbatch-overhead-") as name, stream_server() as endpoint_url:
        folder = Path(os.path.realpath(name))
        calls = {}
        for shards in SHARDS:
            calls[shards] = calls_per_run(folder / str(shards), endpoint_url, shards, given.read_tasks)
            tell(f"{shards} shards: {calls[shards].api_calls} calls, {calls[shards].lease_writes} writes")
        if given.runs > 0:
            times = measure_airflow(folder, endpoint_url, given.runs, given.read_tasks)
    if not given.json:
        show_calls(calls)
        if given.runs > 0:
            show_times(times)
    result = {
        "overhead_s": round(median(run.overhead for run in times[BATCH]), 3) if times[BATCH] else None,
        "airflow_baseline_s": round(median(run.total for run in times[EMPTY]), 3) if times[EMPTY] else None,
        "per_run": {
            str(shards): {"api_calls": run.api_calls, "lease_writes": run.lease_writes} for shards, run in calls.items()
        },
    }
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
