# SPDX-License-Identifier: Apache-2.0
"""Replays: work that writes starts as an application does, in the version that a file names; a DAG that asks for one.

`SHARDBATCH_TEST_FOLDER` holds the output (`replays-out`), the version of the transform (`replays-version`), and
`hold-replays` while the work is to wait.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task

from shardbatch import KinesisStream, ReplayBatchOperator, SQLLeases, Staging, StreamBatch, batch_params

FOLDER = Path(os.environ.get("SHARDBATCH_TEST_FOLDER", "/nonexistent"))
QUICK = {"retry_delay": timedelta(seconds=1), "retry_exponential_backoff": 0}
STREAM = KinesisStream("replays", aws_conn_id="aws_local")


@task(retries=0)
def transform(manifest_uri: str, attempt: int) -> None:
    """What a Spark application does under `open_batch`, which is not told for which task it works: there is but one."""
    from tests.support.starts import enter, records, write

    deadline = time.monotonic() + 120
    while (FOLDER / "hold-replays").exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    version = (FOLDER / "replays-version").read_text("utf-8")
    with enter(manifest=manifest_uri, attempt=attempt) as found:
        write(found.output(str(FOLDER / "replays-out")), [f"{version}:{text}" for text in records(found)])


with (
    DAG("replays", schedule=None, params=batch_params("batch"), max_active_runs=4, default_args=QUICK),
    StreamBatch(
        "batch",
        app_name="test",
        stream=STREAM,
        leases=SQLLeases("leases_local"),
        staging=Staging(str(FOLDER / "staging")),
    ) as batch,
):
    transform(batch.manifest_uri, batch.attempt)

with DAG("replays_asked_for", schedule=None, default_args=QUICK):
    ReplayBatchOperator(
        task_id="again",
        app_name="test",
        stream=STREAM,
        leases=SQLLeases("leases_local"),
        batch_id="{{ dag_run.conf['batch_id'] }}",
        reason="{{ dag_run.conf['reason'] }}",
        wait_for_completion=True,
        poke_interval=1,
    )
