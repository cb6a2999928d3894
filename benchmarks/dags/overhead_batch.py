# SPDX-License-Identifier: Apache-2.0
"""A batch whose work does nothing, so that what a run takes beside its work task is the steps around it."""

from __future__ import annotations

import os

from airflow.sdk import DAG, task

from shardbatch import ClaimOptions, KinesisStream, Policies, SQLLeases, Staging, StreamBatch


@task
def work(batch_id: str) -> None:
    """In the place of Spark."""


with (
    DAG("overhead_batch", schedule=None, max_active_runs=1),
    StreamBatch(
        "batch",
        app_name="overhead",
        stream=KinesisStream("overhead", aws_conn_id="overhead_aws"),
        leases=SQLLeases("overhead_leases"),
        staging=Staging(os.environ.get("OVERHEAD_STAGING", "/nonexistent")),
        claim=ClaimOptions(read_tasks=int(os.environ.get("OVERHEAD_READ_TASKS", "16"))),
        policies=Policies(sink="own"),
    ) as batch,
):
    work(batch.batch_id)
