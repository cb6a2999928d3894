# SPDX-License-Identifier: Apache-2.0
"""DAGs that meet on one application: several runs, several DAGs, one that is paused, one that nobody runs any more.

`SHARDBATCH_TEST_FOLDER` holds what the work writes (`out/<dag>/<batch id>.json`) and what it is told: `fail-<dag>`
makes it fail, `hold-<dag>` makes it wait until that file is gone.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task

from shardbatch import ClaimOptions, KinesisStream, Policies, SQLLeases, Staging, StreamBatch

FOLDER = Path(os.environ.get("SHARDBATCH_TEST_FOLDER", "/nonexistent"))
QUICK = {"retry_delay": timedelta(seconds=1), "retry_exponential_backoff": 0}


def hold(word: str) -> None:
    deadline = time.monotonic() + 240
    while (FOLDER / word).exists() and time.monotonic() < deadline:
        time.sleep(0.2)


@task(retries=0)
def work(name: str, manifest_uri: str, batch_id: str, attempt: int) -> None:
    import json

    from shardbatch import open_batch

    hold(f"hold-{name}")
    if (FOLDER / f"fail-{name}").exists():
        raise RuntimeError("the work fails because the test says so")
    table = open_batch(manifest_uri).to_arrow()
    folder = FOLDER / "out" / name
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"attempt": attempt, "data": [value.decode() for value in table["data"].to_pylist()]})
    (folder / f".{batch_id}").write_text(text, "utf-8")
    (folder / f".{batch_id}").replace(folder / f"{batch_id}.json")


@task(retries=0)
def elsewhere(name: str) -> None:
    hold(f"hold-elsewhere-{name}")


def make(name: str, stream: str = "", beside: bool = False, **claim: object) -> DAG:
    with DAG(name, schedule=None, max_active_runs=4, default_args=QUICK) as dag:
        with StreamBatch(
            "batch",
            app_name="test",
            stream=KinesisStream(stream or name, aws_conn_id="aws_local"),
            leases=SQLLeases("leases_local"),
            staging=Staging(str(FOLDER / "staging")),
            policies=Policies(sink="own"),
            claim=ClaimOptions(**claim),
        ) as batch:
            work(name, batch.manifest_uri, batch.batch_id, batch.attempt)
        if beside:
            elsewhere(name)
    return dag


# Runs of one DAG, each with one of two shards.
overlap_runs = make("overlap_runs", max_shards=1)
# Two DAGs of one application, and one that has its name by mistake.
overlap_first = make("overlap_first", "overlap_shared", max_shards=1, shared=True)
overlap_second = make("overlap_second", "overlap_shared", max_shards=1, shared=True)
overlap_mistake = make("overlap_mistake", "overlap_shared")
# A task beside the group that takes longer.
overlap_sibling = make("overlap_sibling", beside=True)
# What a killed `airflow dags test` holds, and a DAG that does not wait for long.
overlap_killed = make("overlap_killed")
overlap_starving = make("overlap_starving", "overlap_killed", shared=True, stuck_after=timedelta(seconds=1))
