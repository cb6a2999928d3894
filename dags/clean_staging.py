# SPDX-License-Identifier: Apache-2.0
"""Cleans the staging folder and the output roots of each application, once a week.

It removes what nothing can use any more, and may run beside all other runs. Batches whose archive time is over cannot
be replayed from then on; their output stays. To see what it would remove, trigger it with ``preview``.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime

from airflow.sdk import DAG, CronTriggerTimetable, Param

from shardbatch import CleanStagingOperator, KinesisStream, SQLLeases, Staging

FOLDER = os.environ.get("FLIGHTS_FOLDER", "/tmp/flights")
APPLICATIONS = os.environ.get("FLIGHTS_APPLICATIONS", "flights-by-day flights-by-hand flights-by-airport").split()

with DAG(
    "clean_staging",
    schedule=CronTriggerTimetable("0 3 * * 0", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    params={
        "preview": Param(
            default=False,
            type="boolean",
            title="Only show it",
            description="Say what would be removed, and how many bytes that is; remove nothing.",
        ),
    },
):
    for app_name in APPLICATIONS:
        CleanStagingOperator(
            task_id=f"clean_{app_name.replace('-', '_')}",
            app_name=app_name,
            stream=KinesisStream("flights", aws_conn_id="aws_default"),
            leases=SQLLeases(conn_id="leases_db"),
            staging=Staging(f"{FOLDER}/staging"),
            reason="the clean-up of the week",
            preview="{{ params.preview }}",
        )
