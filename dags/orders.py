# SPDX-License-Identifier: Apache-2.0
"""Change data capture: every change of a DynamoDB table, with its types, in a lake that is partitioned by day.

It needs the connections ``orders_aws`` (the account of the table ``orders``, whose stream carries new and old images),
``leases_db`` (a SQL database other than Airflow's own) and ``spark_default``, and a folder that Airflow's workers and
Spark share.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, DeltaDataIntervalTimetable

from shardbatch import (
    DynamoDBStream,
    ReadLimits,
    SparkSubmitBatchOperator,
    SQLLeases,
    Staging,
    StreamBatch,
    StreamView,
    batch_params,
)

FOLDER = os.environ.get("ORDERS_FOLDER", "/tmp/orders")
EVERY = timedelta(seconds=int(os.environ.get("ORDERS_EVERY_SECONDS", "3600")))

with DAG(
    "orders",
    schedule=DeltaDataIntervalTimetable(EVERY),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    params=batch_params("orders"),
):
    with StreamBatch(
        "orders",
        app_name="orders-lake",
        stream=DynamoDBStream("orders", aws_conn_id="orders_aws", view=StreamView.NEW_AND_OLD_IMAGES),
        leases=SQLLeases(conn_id="leases_db"),
        staging=Staging(f"{FOLDER}/staging"),
        limits=ReadLimits(duration=timedelta(minutes=5)),
    ) as batch:
        SparkSubmitBatchOperator(
            task_id="to_lake",
            application=str(Path(__file__).parent / "jobs" / "orders.py"),
            application_args=[f"{FOLDER}/lake"],
            conf={"spark.log.level": "WARN"},
            batch=batch,
        )
