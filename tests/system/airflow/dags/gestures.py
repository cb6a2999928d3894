# SPDX-License-Identifier: Apache-2.0
"""DAGs of test_gestures.py: one for each story, on a stream of its own.

`SHARDBATCH_TEST_FOLDER` holds what the work writes (`out/<dag>/<batch id>.json`) and what it is told: `fail-<dag>`
makes it fail, `once-<dag>` makes it fail once, `hold-<dag>` makes it wait until that file is gone, and the application
is told by words in `job-<dag>`.
"""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, get_parsing_context, task

from scripts.environment import QUICK_JAVA
from shardbatch import ClaimOptions, KinesisStream, Policies, SQLLeases, Staging, StreamBatch
from tests.system.airflow.gesture_names import IN_PYTHON, IN_SPARK, RETRIED

FOLDER = Path(os.environ.get("SHARDBATCH_TEST_FOLDER", "/nonexistent"))
JOB = Path(__file__).parent.parent / "gesture_job.py"
QUICK = {"retry_delay": timedelta(seconds=1), "retry_exponential_backoff": 0}
SPARK = {
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.sql.shuffle.partitions": "1",
    "spark.log.level": "WARN",
}


@task
def work(name: str, manifest_uri: str, attempt: int) -> None:
    """Writes the batch's records to a file of its own, replaced as a whole."""
    from shardbatch import open_batch

    deadline = time.monotonic() + 240
    while (FOLDER / f"hold-{name}").exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    once = FOLDER / f"once-{name}"
    if once.exists():
        once.unlink()
        raise RuntimeError("the work fails once because the test says so")
    if (FOLDER / f"fail-{name}").exists():
        raise RuntimeError("the work fails because the test says so")
    batch = open_batch(manifest_uri)
    folder = FOLDER / "out" / name
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"attempt": attempt, "data": [one.decode() for one in batch.to_arrow()["data"].to_pylist()]})
    (folder / f".{batch.batch_id}").write_text(text, "utf-8")
    (folder / f".{batch.batch_id}").replace(folder / f"{batch.batch_id}.json")


def make(name: str) -> DAG:
    with (
        DAG(name, schedule=None, max_active_runs=2, default_args=QUICK) as dag,
        StreamBatch(
            "batch",
            app_name="test",
            stream=KinesisStream(name, aws_conn_id="aws_local"),
            leases=SQLLeases("leases_local"),
            staging=Staging(str(FOLDER / "staging")),
            claim=ClaimOptions(lease_duration=timedelta(seconds=10)),
            policies=Policies(sink="starts" if name in IN_SPARK else "own"),
        ) as batch,
    ):
        if name in IN_SPARK:
            from shardbatch import SparkSubmitBatchOperator

            SparkSubmitBatchOperator(
                task_id="work",
                batch=batch,
                conn_id="spark_local",
                retries=0,
                application=str(JOB),
                application_args=[str(FOLDER / "out" / name), str(FOLDER / f"job-{name}")],
                conf={**SPARK, "spark.sql.warehouse.dir": str(FOLDER / "warehouse")},
            )
        else:
            retries = 1 if name == RETRIED else 0
            work.override(retries=retries)(name, batch.manifest_uri, batch.attempt)
    return dag


asked = get_parsing_context().dag_id  # a task needs its own DAG only
for each in (*IN_PYTHON, *IN_SPARK):
    if asked in (None, each):
        globals()[each] = make(each)
