# SPDX-License-Identifier: Apache-2.0
"""DAGs of test_spark_alive.py: one for each story, on a stream of its own; applications are held inside their batch.

What an application writes stands in `out/<dag>` of `SHARDBATCH_TEST_FOLDER`, what it tells and is told in `gate/<dag>`.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, get_parsing_context

from shardbatch import ClaimOptions, KinesisStream, SparkSubmitBatchOperator, StreamBatch
from tests.support.deadly import DeadlyLeases, DeadlyStaging
from tests.support.spark_cluster import SMALL, python_application
from tests.system.airflow.alive_names import GIVEN_UP, IN_CLIENT, IN_CLUSTER, retried

FOLDER = Path(os.environ.get("SHARDBATCH_TEST_FOLDER", "/nonexistent"))
JOB = Path(__file__).parent.parent.parent / "spark_operator" / "held_job.py"
#: Whoever waits for the long one fails; the short one is waited for.
LONG, SHORT = timedelta(hours=1), timedelta(seconds=10)


def make(name: str) -> DAG:
    deadly = {"folder": str(FOLDER), "dag_id": name}
    quick: dict[str, Any] = {"retry_delay": timedelta(seconds=1), "retry_exponential_backoff": 0}
    with (
        DAG(name, schedule=None, max_active_runs=2, dagrun_timeout=LONG, default_args=quick) as dag,
        StreamBatch(
            "batch",
            app_name="test",
            stream=KinesisStream(name, aws_conn_id="aws_local"),
            leases=DeadlyLeases("leases_local", **deadly),
            staging=DeadlyStaging(str(FOLDER / "staging"), **deadly),
            claim=ClaimOptions(attempt_grace=SHORT if name in GIVEN_UP else LONG),
        ) as batch,
    ):
        SparkSubmitBatchOperator(
            task_id="work",
            batch=batch,
            retries=1 if retried(name) else 0,
            heartbeat=timedelta(seconds=1),
            conf={**SMALL, "spark.log.level": "WARN", "spark.sql.warehouse.dir": str(FOLDER / "warehouse")},
            **application(name),
        )
    return dag


def application(name: str) -> dict[str, Any]:
    arguments = [str(FOLDER / "out" / name), str(FOLDER / "gate" / name)]
    if name in IN_CLUSTER:
        return {"conn_id": "spark_cluster", **python_application(JOB, *arguments)}
    return {"conn_id": "spark_local", "application": str(JOB), "application_args": arguments}


asked = get_parsing_context().dag_id  # a task needs its own DAG only
for each in (*IN_CLIENT, *IN_CLUSTER):
    if asked in (None, each):
        globals()[each] = make(each)
