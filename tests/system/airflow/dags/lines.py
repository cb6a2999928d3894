# SPDX-License-Identifier: Apache-2.0
"""A DAG of test_lines.py: a batch of a stream whose class and source shardbatch does not know."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task

from shardbatch import Policies, ShardbatchHook, SQLLeases, Staging, StreamBatch, batch_params
from tests.support.lines.stream import LinesStream

FOLDER = Path(os.environ.get("SHARDBATCH_TEST_FOLDER", "/nonexistent"))
QUICK = {"retry_delay": timedelta(seconds=1), "retry_exponential_backoff": 0}


@task(retries=0)
def work(manifest_uri: str, batch_id: str, attempt: int) -> None:
    """Writes the batch's records to a file of its own, replaced as a whole."""
    import json

    from shardbatch import open_batch

    data = [value.decode() for value in open_batch(manifest_uri).to_arrow()["data"].to_pylist()]
    folder = FOLDER / "out" / "lines"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f".{batch_id}").write_text(json.dumps({"attempt": attempt, "data": data}), "utf-8")
    (folder / f".{batch_id}").replace(folder / f"{batch_id}.json")


@task
def look(outcome: dict[str, object]) -> dict[str, object]:
    """How the application stands, with its group's templates rendered as in any task."""
    hook = ShardbatchHook(batch=batch)
    status = hook.status()
    return {
        "application": f"{status.app_name}/{status.stream_name}",
        "committed_batches": status.committed_batches,
        "shards": {shard.shard_id: shard.state for shard in hook.shards()},
        "batches": [[one.batch_id, one.state, one.records] for one in hook.batches(limit=2)],
        "latest": outcome["batch_id"],
    }


with (
    DAG("lines", schedule=None, params=batch_params("batch"), default_args=QUICK),
    StreamBatch(
        "batch",
        app_name="test",
        stream=LinesStream("{{ dag.dag_id }}", str(FOLDER / "streams")),
        leases=SQLLeases("leases_local"),
        staging=Staging(str(FOLDER / "staging")),
        policies=Policies(sink="own"),
    ) as batch,
):
    work(batch.manifest_uri, batch.batch_id, batch.attempt)

with batch.dag:
    look(batch.committed)
