# SPDX-License-Identifier: Apache-2.0
"""DAGs of test_kills.py: the same group on streams of their own, whose tasks die where a file says so.

Those that the next scheduled run heals have two runs to catch up with, one after the other, once they are unpaused.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, CronDataIntervalTimetable, get_parsing_context, task

import shardbatch
from scripts.environment import QUICK_JAVA
from shardbatch import ClaimOptions, KinesisStream, ReadLimits, StreamBatch
from tests.support.deadly import DeadlyLeases, DeadlyStaging, Orders
from tests.system.airflow.kill_cases import CASES, REPEATED, Case

FOLDER = Path(os.environ.get("SHARDBATCH_TEST_FOLDER", "/nonexistent"))
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
JOB = Path(__file__).parent.parent / "spark_job.py"
SPARK = {
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.sql.shuffle.partitions": "1",
    "spark.log.level": "WARN",
}


@task
def work(name: str, manifest_uri: str, attempt: int) -> None:
    """What an application does with ``open_batch``, without Spark; it dies in the block or behind it."""
    from airflow.sdk import get_current_context

    from tests.support.starts import enter, records, write

    orders, ti = Orders(FOLDER, name), get_current_context()["ti"]
    with enter(manifest=manifest_uri, attempt=attempt, work=ti.task_id, token=str(ti.id)) as batch:
        data = records(batch)
        folder, half = batch.output(f"file://{FOLDER / 'out' / name}"), len(data) // 2
        write(folder, data[:half], 0)
        orders.at("working")
        write(folder, data[half:], 1)
    orders.at("worked")


def make(case: Case) -> DAG:
    scheduled = {
        "schedule": CronDataIntervalTimetable("* * * * *", "UTC"),
        "start_date": FIRST,
        "end_date": FIRST + timedelta(minutes=1),
        "catchup": True,
    }
    retrying = {
        "retries": 1 if case.healing == "retried" else 0,
        "retry_delay": timedelta(seconds=1),
        "retry_exponential_backoff": 0,
    }
    when = scheduled if case.healing == "next" else {"schedule": None}
    with DAG(case.dag_id, **when, max_active_runs=1, default_args=retrying) as dag:
        consume(case)
    return dag


def consume(case: Case) -> None:
    name = case.dag_id
    deadly = {"folder": str(FOLDER), "dag_id": name}
    with StreamBatch(
        "batch",
        app_name="test",
        stream=KinesisStream(name, aws_conn_id="aws_local"),
        leases=DeadlyLeases("leases_local", **deadly),
        staging=DeadlyStaging(str(FOLDER / "staging"), **deadly),
        claim=ClaimOptions(attempt_grace=timedelta(seconds=5)),
        limits=ReadLimits(concurrency=4),
    ) as batch:
        if not case.spark:
            work(name, batch.manifest_uri, batch.attempt)
            return
        shardbatch.SparkSubmitBatchOperator(  # loaded only here: most tasks need no Spark
            task_id="work",
            batch=batch,
            conn_id="spark_local",
            application=str(JOB),
            application_args=[str(FOLDER / "out" / name), str(FOLDER / f"hold-{name}")],
            conf={**SPARK, "spark.sql.warehouse.dir": str(FOLDER / "warehouse")},
            heartbeat=timedelta(seconds=1),
        )


asked = get_parsing_context().dag_id  # a task needs its own DAG only
for each in [*CASES, *REPEATED]:
    if asked in (None, each.dag_id):
        globals()[each.dag_id] = make(each)
