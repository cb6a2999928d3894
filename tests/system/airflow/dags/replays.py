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
def transform(manifest_uri: str, batch_id: str, attempt: int) -> None:
    """What a Spark application does under `open_batch`: output in a folder of its own, then the done marker."""
    import json
    import secrets

    from shardbatch import open_batch
    from shardbatch.core.rows import Namespace
    from shardbatch.landing import layout

    deadline = time.monotonic() + 120
    while (FOLDER / "hold-replays").exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    version = (FOLDER / "replays-version").read_text("utf-8")
    data = [f"{version}:{value.decode()}" for value in open_batch(manifest_uri).to_arrow()["data"].to_pylist()]
    start_id, out = secrets.token_hex(8), FOLDER / "replays-out"
    folder = out / layout.output_folder(batch_id, start_id)
    folder.mkdir(parents=True)
    (folder / "data.json").write_text(json.dumps(data), "utf-8")
    starts = FOLDER / "staging" / layout.starts_folder(Namespace("test", "replays"), batch_id)
    marker = starts / layout.start_name(attempt, start_id) / "start.json"
    marker.parent.mkdir(parents=True)
    done = {"start_id": start_id, "attempt": attempt, "work": "batch.transform", "outputs": [str(out)]}
    marker.write_text(json.dumps(done), "utf-8")


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
    transform(batch.manifest_uri, batch.batch_id, batch.attempt)

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
