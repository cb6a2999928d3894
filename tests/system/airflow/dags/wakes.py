# SPDX-License-Identifier: Apache-2.0
"""The DAG of test_wakes.py, which its stream wakes: its batches go to a file each. It begins paused."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task

from shardbatch import KinesisStream, Policies, SQLLeases, Staging, StreamBatch, stream_asset

FOLDER = Path(os.environ.get("SHARDBATCH_TEST_FOLDER", "/nonexistent"))
QUICK = {"retry_delay": timedelta(seconds=1), "retry_exponential_backoff": 0}
ORDERS = KinesisStream("wakes", aws_conn_id="aws_local")
LEASES = SQLLeases("leases_local")
UNREAD = stream_asset(app_name="test", stream=ORDERS, leases=LEASES, poll_interval=timedelta(seconds=1))


@task(retries=0)
def work(manifest_uri: str, batch_id: str, attempt: int) -> None:
    """Writes the batch's records to a file of its own, replaced as a whole."""
    import json

    from shardbatch import open_batch

    data = [value.decode() for value in open_batch(manifest_uri).to_arrow()["data"].to_pylist()]
    folder = FOLDER / "out" / "wakes"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f".{batch_id}").write_text(json.dumps({"attempt": attempt, "data": data}), "utf-8")
    (folder / f".{batch_id}").replace(folder / f"{batch_id}.json")


with (
    DAG("wakes", schedule=[UNREAD], max_active_runs=1, is_paused_upon_creation=True, default_args=QUICK),
    StreamBatch(
        "batch",
        app_name="test",
        stream=ORDERS,
        leases=LEASES,
        staging=Staging(str(FOLDER / "staging")),
        policies=Policies(sink="own"),
    ) as batch,
):
    work(batch.manifest_uri, batch.batch_id, batch.attempt)
