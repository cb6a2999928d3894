# SPDX-License-Identifier: Apache-2.0
"""DAGs of the system tests: the same group on streams of their own, with work that does what a file asks for.

`SHARDBATCH_TEST_FOLDER` holds what the work writes (`out/<dag>/<batch id>.json`) and what it is told: `fail-<dag>`
makes it fail, `hold-<dag>` makes it wait until that file is gone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task

from shardbatch import ClaimOptions, KinesisStream, Policies, ReadLimits, SQLLeases, Staging, StreamBatch, batch_params

FOLDER = Path(os.environ.get("SHARDBATCH_TEST_FOLDER", "/nonexistent"))
QUICK = {"retry_delay": timedelta(seconds=1), "retry_exponential_backoff": 0}


@task(retries=0)
def work(name: str, manifest_uri: str, batch_id: str, attempt: int) -> None:
    """Writes the batch's records to a file of its own, replaced as a whole."""
    import json

    from shardbatch import open_batch

    deadline = time.monotonic() + 120
    while (FOLDER / f"hold-{name}").exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    if (FOLDER / f"fail-{name}").exists():
        raise RuntimeError("the work fails because the test says so")
    table = open_batch(manifest_uri).to_arrow()
    folder = FOLDER / "out" / name
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"attempt": attempt, "data": [value.decode() for value in table["data"].to_pylist()]})
    (folder / f".{batch_id}").write_text(text, "utf-8")
    (folder / f".{batch_id}").replace(folder / f"{batch_id}.json")


@task
def after(outcome: object) -> None:
    print("AFTER", outcome)


def make(
    name: str,
    *,
    dag_id: str | None = None,
    stream: KinesisStream | None = None,
    staging: str = "staging",
    app_name: str = "test",
    default_args: Mapping[str, object] = QUICK,
    native: bool = False,
    **changes: object,
) -> DAG:
    with DAG(
        dag_id or name,
        schedule=None,
        params=batch_params("batch"),
        max_active_runs=4,
        default_args=dict(default_args),
        render_template_as_native_obj=native,
    ) as dag:
        arguments = {
            "policies": Policies(sink="own"),
            "claim": ClaimOptions(read_tasks=2),
            "limits": ReadLimits(concurrency=2),
            **changes,
        }
        with StreamBatch(
            "batch",
            app_name=app_name,
            stream=stream or KinesisStream(name, aws_conn_id="aws_local"),
            leases=SQLLeases("leases_local"),
            staging=Staging(str(FOLDER / staging)),
            **arguments,
        ) as batch:
            work(name, batch.manifest_uri, batch.batch_id, batch.attempt)
        after(batch.committed)
    return dag


for each in ("acted", "failing", "replayed", "events", "isolated", "stopped", "shapes"):
    globals()[each] = make(each)
killed = make("killed", native=True, app_name="{{ '2026' }}")  # which renders to a number for other tasks
whole = make(  # what is meant for other tasks, and one slot for all reads
    "whole",
    native=True,
    default_args={
        **QUICK,
        "do_xcom_push": False,
        "trigger_rule": "all_success",
        "max_active_tis_per_dagrun": 1,
        "map_index_template": "{{ ti.task_id }}",
    },
)
# As long as a folder's name of Airflow's logs may be, and in the rows three times as long.
interval = make("interval", dag_id="интервал" * 14)
# The label of a read task with thousands of shards, and what is pushed.
many = make("many", claim=ClaimOptions(read_tasks=16), limits=ReadLimits(concurrency=32))
no_stream = make("no_stream", stream=KinesisStream("nowhere", aws_conn_id="aws_local"))
no_connection = make(  # a connection may be unknown for a moment, so it is looked for again by every retry
    "no_connection", stream=KinesisStream("whole", aws_conn_id="absent"), task_args={"claim": {"retries": 0}}
)
no_staging = make("no_staging", staging="missing/too")  # no folder is made in one that is not there
