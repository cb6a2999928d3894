# SPDX-License-Identifier: Apache-2.0
"""DAGs of test_block.py: what authors put into the block, on streams of their own.

`SHARDBATCH_TEST_FOLDER` holds what the work writes (`out/<dag>/<batch id>-<part>.json`); a file `fail-<dag>` there
makes the work fail, `skip-<dag>` makes it skip itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, TaskGroup, get_parsing_context, setup, task, teardown
from airflow.sdk.exceptions import AirflowSkipException

from shardbatch import KinesisStream, Policies, SQLLeases, Staging, StreamBatch
from shardbatch.assets import committed_batches

FOLDER = Path(os.environ.get("SHARDBATCH_TEST_FOLDER", "/nonexistent"))
QUICK = {"retry_delay": timedelta(seconds=1), "retry_exponential_backoff": 0}


def write(name: str, manifest_uri: str, attempt: int, part: int | None = None) -> None:
    """The batch's records, or every second one, in a file of its own that is replaced as a whole."""
    from shardbatch import open_batch

    batch = open_batch(manifest_uri)
    data = [value.decode() for value in batch.to_arrow()["data"].to_pylist()]
    folder, stem = FOLDER / "out" / name, batch.batch_id if part is None else f"{batch.batch_id}-{part}"
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"attempt": attempt, "data": data if part is None else data[part::2]})
    (folder / f".{stem}").write_text(text, "utf-8")
    (folder / f".{stem}").replace(folder / f"{stem}.json")


@task
def work(name: str, manifest_uri: str, attempt: int, part: int | None = None) -> None:
    if (FOLDER / f"skip-{name}").exists():
        raise AirflowSkipException("the work skips itself because the test says so")
    if (FOLDER / f"fail-{name}").exists() and part in (None, 1):
        raise RuntimeError("the work fails because the test says so")
    write(name, manifest_uri, attempt, part)


@task
def step() -> None: ...


def plain(name: str, batch: StreamBatch) -> object:
    return work(name, batch.manifest_uri, batch.attempt)


def around(name: str, batch: StreamBatch) -> None:
    up, down = setup(step.override(task_id="cluster"))(), teardown(step.override(task_id="drop_cluster"))()
    up >> plain(name, batch) >> down
    up >> down


def notifier(name: str, batch: StreamBatch) -> None:
    plain(name, batch) >> step.override(task_id="tell", trigger_rule="all_done")()


def alert(name: str, batch: StreamBatch) -> None:
    plain(name, batch) >> step.override(task_id="alarm", trigger_rule="one_failed")()


def branch(name: str, batch: StreamBatch) -> None:
    @task.branch
    def choose() -> str:
        return "batch.work"

    join = step.override(task_id="join", trigger_rule="none_failed_min_one_success")()
    choose() >> [plain(name, batch), step.override(task_id="other")()] >> join


def mapped(name: str, batch: StreamBatch) -> None:
    work.partial(name=name, manifest_uri=batch.manifest_uri, attempt=batch.attempt).expand(part=[0, 1])


def mapped_later(name: str, batch: StreamBatch) -> None:
    @task
    def parts(records: int) -> list[int]:
        return list(range(min(records, 2)))

    found = parts(batch.record_count)
    work.partial(name=name, manifest_uri=batch.manifest_uri, attempt=batch.attempt).expand(part=found)


def nested(name: str, batch: StreamBatch) -> None:
    with TaskGroup("outer"):
        first = step.override(task_id="first")()
        with TaskGroup("inner") as inner:
            plain(name, batch) >> step.override(task_id="last")()
        first >> inner


def leaves(name: str, batch: StreamBatch) -> None:
    @task
    def aside() -> None:
        raise AirflowSkipException("there is nothing to do beside")

    plain(name, batch)
    aside()


def landing(name: str, batch: StreamBatch) -> None:
    """Nothing."""


def make(name: str, shape: Callable[[str, StreamBatch], object]) -> DAG:
    with DAG(name, schedule=None, max_active_runs=2, default_args=QUICK) as dag:
        with StreamBatch(
            "batch",
            app_name="test",
            stream=KinesisStream(name, aws_conn_id="aws_local"),
            leases=SQLLeases("leases_local"),
            staging=Staging(str(FOLDER / "staging")),
            policies=Policies(sink="own"),
        ) as batch:
            shape(name, batch)
        if name == "block_landing":

            @task
            def load(outcome: dict[str, object]) -> None:
                if outcome["newly"]:
                    write(name, str(outcome["manifest_uri"]), 0)

            load(batch.committed)
        if name == "block_after":
            step.override(task_id="after")() << batch
            step.override(task_id="always", trigger_rule="all_done")() << batch
    return dag


SHAPES = {
    "block_around": around,
    "block_notifier": notifier,
    "block_alert": alert,
    "block_branch": branch,
    "block_mapped": mapped,
    "block_mapped_later": mapped_later,
    "block_nested": nested,
    "block_leaves": leaves,
    "block_soft": plain,
    "block_landing": landing,
    "block_after": plain,
}
asked = get_parsing_context().dag_id  # a task needs its own DAG only
for each, shape in SHAPES.items():
    if asked in (None, each):
        globals()[each] = make(each, shape)

with DAG("block_consumer", schedule=[committed_batches("test", "block_after")], max_active_runs=4) as block_consumer:
    EmptyOperator(task_id="seen")
