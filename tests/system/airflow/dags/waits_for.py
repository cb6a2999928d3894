# SPDX-License-Identifier: Apache-2.0
"""The DAG of test_waits.py that waits for what another DAG, in another file, commits."""

from __future__ import annotations

import json
import os
from pathlib import Path

from airflow.sdk import DAG, task

from shardbatch import (
    BacklogSensor,
    CommittedUpToSensor,
    KinesisStream,
    LineageCompleteSensor,
    ShardClosedSensor,
    SQLLeases,
)

FOLDER = Path(os.environ.get("SHARDBATCH_TEST_FOLDER", "/nonexistent"))
READER = {"app_name": "test", "stream": "waits", "leases": SQLLeases("leases_local"), "poke_interval": 2}
#: With the stream itself, so that a sensor can look at it.
STREAM = {**READER, "stream": KinesisStream("waits", aws_conn_id="aws_late"), "timeout": 600}


@task
def seen() -> list[str]:
    """All that is there when the wait is over."""
    found = [json.loads(path.read_text("utf-8"))["data"] for path in (FOLDER / "out" / "waits").glob("*.json")]
    return sorted(text for batch in found for text in batch)


with DAG("waits_for", schedule=None, max_active_runs=8):
    whole = CommittedUpToSensor(task_id="whole", until="{{ dag_run.conf['until'] }}", timeout=600, **READER)
    small = BacklogSensor(task_id="small", landed_records=0, timeout=600, mode="reschedule", **READER)
    [whole, small] >> seen()

with DAG("waits_idle", schedule=None):
    CommittedUpToSensor(task_id="whole", until="{{ dag_run.conf['until'] }}", **STREAM)

with DAG("waits_shards", schedule=None):
    ShardClosedSensor(task_id="read", shard_ids="{{ dag_run.conf['shard'] }}", state="completed", **STREAM)
    LineageCompleteSensor(task_id="behind", parents="{{ dag_run.conf['shard'] }}", **STREAM)
