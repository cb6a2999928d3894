# SPDX-License-Identifier: Apache-2.0
"""Departures and delays per carrier and day, as in flights.py, on a Spark Connect server that stays up.

The job is the same file. This DAG needs the connections ``aws_default``, ``leases_db`` (a SQL database other than
Airflow's own) and ``spark_connect_default``, and a folder that Airflow's workers and the server share.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, DeltaDataIntervalTimetable

from shardbatch import (
    ClaimOptions,
    KinesisStream,
    ReadLimits,
    SparkConnectBatchOperator,
    SQLLeases,
    Staging,
    StreamBatch,
    batch_params,
)

FOLDER = os.environ.get("FLIGHTS_FOLDER", "/tmp/flights")
EVERY = timedelta(seconds=int(os.environ.get("FLIGHTS_EVERY_SECONDS", "900")))

with DAG(
    "flights_connect",
    schedule=DeltaDataIntervalTimetable(EVERY),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    params=batch_params("flights"),
):
    with StreamBatch(
        "flights",
        app_name="flights-over-connect",
        stream=KinesisStream("flights", aws_conn_id="aws_default"),
        leases=SQLLeases(conn_id="leases_db"),
        staging=Staging(f"{FOLDER}/staging"),
        limits=ReadLimits(duration=timedelta(minutes=5)),
        claim=ClaimOptions(read_tasks=2),
    ) as batch:
        SparkConnectBatchOperator(
            task_id="by_day",
            application=str(Path(__file__).parent / "jobs" / "flights.py"),
            application_args=[f"{FOLDER}/over_connect"],
            conf={"spark.sql.shuffle.partitions": "2"},
            batch=batch,
        )
