# SPDX-License-Identifier: Apache-2.0
"""One DAG for each way to run the demo's job: each has its own application, and reads the same stream."""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import DAG

from shardbatch import (
    KinesisStream,
    SparkConnectBatchOperator,
    SparkJvm,
    SparkSubmitBatchOperator,
    SQLLeases,
    Staging,
    StreamBatch,
)

FOLDER = os.environ.get("SECONDS_FOLDER", "/nonexistent")
JOB = str(Path(__file__).resolve().parents[2] / "dags" / "jobs" / "flights.py")
WAYS = {
    "submit": (SparkSubmitBatchOperator, {"conn_id": "seconds_spark", "jvm": SparkJvm.PLAIN}),
    "submit_quick": (SparkSubmitBatchOperator, {"conn_id": "seconds_spark", "jvm": SparkJvm.QUICK}),
    "connect": (SparkConnectBatchOperator, {"conn_id": "seconds_connect"}),
}

for way, (operator, arguments) in WAYS.items():
    with (
        DAG(f"seconds_{way}", schedule=None, max_active_runs=1),
        StreamBatch(
            "batch",
            app_name=f"seconds-{way}",
            stream=KinesisStream("seconds", aws_conn_id="seconds_aws"),
            leases=SQLLeases("seconds_leases"),
            staging=Staging(f"{FOLDER}/staging"),
        ) as batch,
    ):
        operator(task_id="work", application=JOB, application_args=[f"{FOLDER}/output/{way}"], batch=batch, **arguments)
