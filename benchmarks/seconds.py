# SPDX-License-Identifier: Apache-2.0
"""How long a small run takes from its trigger to its commit, step by step, by each way to run its Spark job.

    python benchmarks/seconds.py [--json] [--runs 3] [--records 60000] [--ways submit submit_quick connect]

See README.md beside this file for what is measured. Progress goes to standard error. The last line of the output is
JSON; without ``--json`` a table for people stands before it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.overhead import tell, times_of
from benchmarks.stream import REGION, Stream, stream_server
from scripts.airflow_instance import AirflowInstance
from scripts.environment import process_environment

DAGS = Path(__file__).resolve().parent / "dags"
WAYS = ("submit", "submit_quick", "connect")
STEPS = ("claim", "read", "freeze", "work", "commit")
SHARDS = 4
#: Of all ways alike; the submitting JVM's options are what differs.
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.log.level": "WARN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@dataclass(frozen=True)
class Seconds:
    """Of one run: from its trigger to the end of commit, and each step from its task's start to its end."""

    run: float
    steps: dict[str, float]

    @property
    def between(self) -> float:
        """When no step ran: Airflow was starting the run or looking what comes next."""
        return self.run - sum(self.steps.values())


def seconds_of(instances: list[dict[str, Any]], triggered: float) -> Seconds:
    """The seconds of a finished run from its task instances as Airflow's API shows them.

    :raises RuntimeError: if a task was skipped or tried twice, or if there was no work.
    """
    tasks = {task.removeprefix("batch."): took for task, took in times_of(instances).tasks.items()}
    missing = [step for step in STEPS if step not in tasks]
    if missing:
        raise RuntimeError(f"The run has no {missing[0]}: there is nothing to measure.")
    (commit,) = (one for one in instances if one["task_id"] == "batch.commit")
    ended = datetime.fromisoformat(commit["end_date"]).timestamp()
    return Seconds(ended - triggered, {step: tasks[step] for step in STEPS})


def flights(records: int) -> Iterator[bytes]:
    """Records as the demo has them."""
    for number in range(records):
        flight = {"year": 2026, "month": 1 + number % 12, "day": 1 + number % 28, "dep_delay": number % 90}
        yield json.dumps({**flight, "carrier": ("UA", "B6", "EV", "DL", "AA")[number % 5]}).encode()


def variables(folder: Path, endpoint_url: str, connect: Mapping[str, Any]) -> dict[str, str]:
    """Connections and settings of the Airflow."""
    aws = {"conn_type": "aws", "login": "bench", "password": "not-a-secret"}
    aws_extra = {"region_name": REGION, "endpoint_url": endpoint_url}
    connections: dict[str, Any] = {
        "seconds_aws": {**aws, "extra": aws_extra},
        "seconds_leases": {"conn_type": "sqlite", "host": str(folder / "leases.db")},
        "seconds_spark": {"conn_type": "spark", "host": "local[2]"},
        "seconds_connect": dict(connect),
    }
    return {
        **{f"AIRFLOW_CONN_{name.upper()}": json.dumps(one) for name, one in connections.items()},
        "AIRFLOW__SHARDBATCH__SPARK_ARCHIVES": str(folder / "archives"),
        "SECONDS_FOLDER": str(folder),
        "SPARK_CONF_DIR": str(folder / "conf"),
    }


def run_once(airflow: AirflowInstance, dag_id: str) -> Seconds:
    """One run of a DAG.

    :raises RuntimeError: if it fails.
    """
    triggered = time.time()
    run_id = airflow.client.trigger(dag_id)
    state = airflow.client.wait_for_run(dag_id, run_id, 1200)
    if state != "success":
        raise RuntimeError(f"Run {run_id} of {dag_id} is {state}: {airflow.client.task_states(dag_id, run_id)}")
    return seconds_of(airflow.client.tasks(dag_id, run_id), triggered)


def measure(folder: Path, endpoint_url: str, ways: list[str], runs: int, records: int) -> dict[str, list[Seconds]]:
    """Runs by all ways in turn; the first of each, in which Airflow and the server warm up, is not counted."""
    stream = Stream(endpoint_url, "seconds", SHARDS)
    (folder / "conf").mkdir()
    (folder / "staging").mkdir()
    lines = "".join(f"{name} {value}\n" for name, value in SETTINGS.items())
    (folder / "conf" / "spark-defaults.conf").write_text(lines, "utf-8")
    found: dict[str, list[Seconds]] = {way: [] for way in ways}
    with ExitStack() as stack:
        connect: Mapping[str, Any] = {"conn_type": "spark_connect", "host": "127.0.0.1"}
        if "connect" in ways:
            from scripts.spark_connect import start

            tell("starting a Spark Connect server")
            (folder / "server").mkdir()
            connect = stack.enter_context(start(folder / "server")).connection()
        env = variables(folder, endpoint_url, connect)
        airflow = AirflowInstance(folder / "airflow", DAGS, env=env, base=process_environment())
        tell("starting Airflow")
        stack.enter_context(airflow)
        if "submit_quick" in ways:
            tell("making the archive of Spark's classes")
            tell(airflow.airflow("shardbatch", "warm-spark").strip().splitlines()[-1])
        for way in ways:
            airflow.client.wait_for_dag(f"seconds_{way}")
        for number in range(runs + 1):
            stream.fill(flights(records))
            for way in ways:
                seconds = run_once(airflow, f"seconds_{way}")
                found[way] += [seconds] if number else []
                name = f"run {number} of {runs}" if number else "warm-up"
                tell(f"{name} by {way}: {seconds.run:.1f} s, its work {seconds.steps['work']:.1f} s")
    return found


def show(found: dict[str, list[Seconds]]) -> None:
    """A table of medians."""
    ways = [way for way, runs in found.items() if runs]
    print(f"Seconds of a run, median of {len(found[ways[0]])}\n")
    print(f"  {'':16}" + "".join(f"{way:>14}" for way in ways))
    for step in STEPS:
        print(f"  {step:16}" + "".join(f"{median(run.steps[step] for run in found[way]):14.1f}" for way in ways))
    print(f"  {'between steps':16}" + "".join(f"{median(run.between for run in found[way]):14.1f}" for way in ways))
    print(f"  {'run':16}" + "".join(f"{median(run.run for run in found[way]):14.1f}" for way in ways))
    print(f"  {'least':16}" + "".join(f"{min(run.run for run in found[way]):14.1f}" for way in ways) + "\n")


def main() -> int:
    """Measures and reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="no table, only the line of JSON")
    parser.add_argument("--runs", type=int, default=3, help="runs of each way that count, default %(default)s")
    parser.add_argument("--records", type=int, default=60_000, help="new records of a run, default %(default)s")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="default: all")
    given = parser.parse_args()
    if given.runs < 1:
        parser.error("--runs must be 1 or more")
    with tempfile.TemporaryDirectory(prefix="shardbatch-seconds-") as name, stream_server() as endpoint_url:
        found = measure(Path(os.path.realpath(name)), endpoint_url, given.ways, given.runs, given.records)
    if not given.json:
        show(found)
    result = {
        "run_s": {way: round(median(run.run for run in runs), 2) for way, runs in found.items()},
        "work_s": {way: round(median(run.steps["work"] for run in runs), 2) for way, runs in found.items()},
    }
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
