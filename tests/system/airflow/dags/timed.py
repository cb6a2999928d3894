# SPDX-License-Identifier: Apache-2.0
"""The DAGs of test_backfills.py, with intervals, and of test_claim_waits.py, whose claims wait. Batches go to a file
each; `fail-<dag>` makes the first attempt of each batch fail."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, CronTriggerTimetable, task

from shardbatch import ClaimOptions, KinesisStream, Policies, SQLLeases, Staging, StreamBatch, batch_params

FOLDER = Path(os.environ.get("SHARDBATCH_TEST_FOLDER", "/nonexistent"))
BERLIN = "Europe/Berlin"
QUICK = {"retry_delay": timedelta(seconds=1), "retry_exponential_backoff": 0}


@task(retries=0)
def work(name: str, manifest_uri: str, batch_id: str, attempt: int) -> None:
    """Writes the batch's records to a file of its own, replaced as a whole."""
    import json

    from shardbatch import open_batch

    if (FOLDER / f"fail-{name}").exists() and attempt == 1:
        raise RuntimeError("the work fails because the test says so")
    data = [value.decode() for value in open_batch(manifest_uri).to_arrow()["data"].to_pylist()]
    folder = FOLDER / "out" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f".{batch_id}").write_text(json.dumps({"attempt": attempt, "data": data}), "utf-8")
    (folder / f".{batch_id}").replace(folder / f"{batch_id}.json")


def make(name: str, schedule: Any, aws_conn_id: str, **changes: Any) -> DAG:
    with (
        DAG(
            name,
            schedule=schedule,
            start_date=datetime(2020, 1, 1, tzinfo=UTC),
            catchup=False,
            params=batch_params("batch"),
            default_args=QUICK,
        ) as dag,
        StreamBatch(
            "batch",
            app_name="test",
            stream=KinesisStream(name, aws_conn_id=aws_conn_id),
            leases=SQLLeases("leases_local"),
            staging=Staging(str(FOLDER / "staging")),
            policies=Policies(sink="own"),
            **changes,
        ) as batch,
    ):
        work(name, batch.manifest_uri, batch.batch_id, batch.attempt)
    return dag


# Each live run takes one of two shards, so two runs at once have a batch each.
days = make(
    "days", CronDataIntervalTimetable("0 0 * * *", timezone=BERLIN), "aws_days", claim=ClaimOptions(max_shards=1)
)
mornings = make(
    "mornings", CronTriggerTimetable("0 12 * * *", timezone=BERLIN, interval=timedelta(hours=6)), "aws_days"
)
patient = make("patient", None, "aws_local", wait=timedelta(minutes=10))
hasty = make("hasty", None, "aws_local", wait=timedelta(seconds=15))
