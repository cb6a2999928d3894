# SPDX-License-Identifier: Apache-2.0
"""The DAG of test_traced.py, whose lineage is told: a Spark application that copies its batch."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from airflow.providers.openlineage.utils.selective_enable import enable_lineage
from airflow.sdk import DAG

from scripts.environment import QUICK_JAVA
from shardbatch import (
    ClaimOptions,
    KinesisStream,
    ReadLimits,
    SparkSubmitBatchOperator,
    SQLLeases,
    Staging,
    StreamBatch,
)

FOLDER = Path(os.environ.get("SHARDBATCH_TEST_FOLDER", "/nonexistent"))
JOB = Path(__file__).parent.parent / "gesture_job.py"
SPARK = {
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.log.level": "WARN",
    "spark.sql.warehouse.dir": str(FOLDER / "warehouse"),
}

with DAG("traced", schedule=None, default_args={"retry_delay": timedelta(seconds=1)}) as traced:
    with StreamBatch(
        "batch",
        app_name="test",
        stream=KinesisStream("traced", aws_conn_id="aws_local"),
        leases=SQLLeases("leases_local"),
        staging=Staging(str(FOLDER / "staging")),
        claim=ClaimOptions(read_tasks=2),
        limits=ReadLimits(concurrency=1),
    ) as batch:
        SparkSubmitBatchOperator(
            task_id="work",
            batch=batch,
            conn_id="spark_local",
            retries=0,
            application=str(JOB),
            application_args=[str(FOLDER / "out" / "traced"), str(FOLDER / "job-traced")],
            conf=SPARK,
        )
    enable_lineage(traced)
