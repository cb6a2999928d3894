# SPDX-License-Identifier: Apache-2.0
"""A group whose batch is set aside by a task behind it when its work fails, and a DAG that moves its shards back."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, Param, task

from shardbatch import KinesisStream, Policies, ResetOperator, SetAsideBatchOperator, SQLLeases, Staging, StreamBatch

FOLDER = Path(os.environ.get("SHARDBATCH_TEST_FOLDER", "/nonexistent"))
GIVEN = {
    "app_name": "test",
    "stream": KinesisStream("verbs", aws_conn_id="aws_local"),
    "leases": SQLLeases("leases_local"),
}


@task(retries=0)
def work(manifest_uri: str) -> None:
    """Writes the records of the batch under a start of its own, unless it is told to fail."""
    import json

    from shardbatch import open_batch

    if (FOLDER / "fail-verbs").exists():
        raise RuntimeError("the work fails because the test says so")
    batch = open_batch(manifest_uri)
    folder = FOLDER / "out" / "verbs"
    folder.mkdir(parents=True, exist_ok=True)
    data = [value.decode() for value in batch.to_arrow()["data"].to_pylist()]
    (folder / f"{batch.batch_id}.json").write_text(json.dumps({"attempt": 1, "data": data}), "utf-8")


with DAG("verbs", schedule=None, default_args={"retry_delay": timedelta(seconds=1)}) as dag:
    with StreamBatch(
        "batch", **GIVEN, staging=Staging(str(FOLDER / "staging")), policies=Policies(sink="own")
    ) as group:
        work(group.manifest_uri)
    group >> SetAsideBatchOperator(
        task_id="set_aside",
        **GIVEN,
        batch_id="{{ ti.xcom_pull(task_ids='batch.freeze', key='batch_id') }}",
        reason="its work failed in {{ run_id }}",
        trigger_rule="one_failed",
    )

with DAG("verbs_repair", schedule=None, params={"preview": Param(True, type="boolean")}) as repair:
    ResetOperator(
        task_id="reset",
        **GIVEN,
        every=True,
        to="TRIM_HORIZON",
        reason="{{ run_id }} asked for it",
        preview="{{ params.preview }}",
    )
