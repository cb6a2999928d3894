# SPDX-License-Identifier: Apache-2.0
"""DAGs whose applications the Streams page shows. Only `orders` runs; the rows of the others are written by the tests.

`SHARDBATCH_TEST_FOLDER` holds what the work is told: `fail-orders` makes it fail, `hold-orders` makes it wait until
that file is gone.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task

from shardbatch import ClaimOptions, KinesisStream, Policies, SQLLeases, Staging, StreamBatch, batch_params

FOLDER = Path(os.environ.get("SHARDBATCH_TEST_FOLDER", "/nonexistent"))
QUICK = {"retries": 0, "retry_delay": timedelta(seconds=1)}


@task
def work(name: str, manifest_uri: str) -> None:
    deadline = time.monotonic() + 300
    while (FOLDER / f"hold-{name}").exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    if (FOLDER / f"fail-{name}").exists():
        raise RuntimeError(f"the work on {manifest_uri} fails because the test says so")


def make(name: str, leases: str = "leases_page") -> DAG:
    with (
        DAG(name, schedule=None, params=batch_params("batch"), default_args=QUICK) as dag,
        StreamBatch(
            "batch",
            app_name=name,
            stream=KinesisStream(name, aws_conn_id="aws_page"),
            leases=SQLLeases(leases),
            staging=Staging(str(FOLDER / "staging")),
            policies=Policies(sink="own"),
            claim=ClaimOptions(read_tasks=1),
        ) as batch,
    ):
        work(name, batch.manifest_uri)
    return dag


for each in ("orders", "troubles", "wide"):
    globals()[each] = make(each)
silent = make("silent", "leases_silent")
