# SPDX-License-Identifier: Apache-2.0
"""DAGs of test_ends.py: one for each story, on a stream of its own; the work writes what `open_batch` lets it write.

Output stands in `out/<dag>/<root>` of `SHARDBATCH_TEST_FOLDER`. The work is told by files there: `fail-<dag>` makes it
fail, `blocked-<dag>` makes its end record unwritable once, and `changed-<dag>` makes the block another one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.triggers.temporal import DateTimeTrigger
from airflow.sdk import DAG, BaseOperator, ResumableJobMixin, get_current_context, get_parsing_context, task

from shardbatch import KinesisStream, Policies, SQLLeases, Staging, StreamBatch, batch_params
from shardbatch.landing import layout
from shardbatch.operators.end_record import work_of
from tests.support.starts import enter, records, write

FOLDER = Path(os.environ.get("SHARDBATCH_TEST_FOLDER", "/nonexistent"))
QUICK = {"retry_delay": timedelta(seconds=1), "retry_exponential_backoff": 0}
PROGRAM = f"{sys.executable} -m tests.support.starts"


def told(name: str, word: str) -> bool:
    return (FOLDER / f"{word}-{name}").exists()


def out(name: str, root: str) -> str:
    return str(FOLDER / "out" / name / root)


def copy(name: str, root: str, manifest_uri: str, attempt: int) -> None:
    """Copies the batch to a root, each record with the name of the task before it."""
    import shardbatch

    print(f"the code is {shardbatch.__file__}")
    ti = get_current_context()["ti"]
    if told(name, "fail"):
        raise RuntimeError("the work fails because the test says so")
    work = work_of(ti.task_id, ti.map_index)
    with enter(manifest=manifest_uri, attempt=attempt, work=work, token=str(ti.id)) as batch:
        write(batch.output(out(name, root)), [f"{work.partition('.')[2]}:{text}" for text in records(batch)])
        obstacle = Path(manifest_uri.removeprefix("file://")).parent / layout.WORKS / work / layout.ENDED
    if told(name, "blocked"):
        (FOLDER / f"blocked-{name}").unlink()
        obstacle.write_text("no folder", "utf-8")
    elif obstacle.is_file():
        obstacle.unlink()


@task
def work(name: str, root: str, manifest_uri: str, attempt: int, part: int = 0) -> None:
    copy(name, root, manifest_uri, attempt)


class Waiting(BaseOperator):
    """Waits in the triggerer and works when it is back in a worker."""

    template_fields = ("manifest_uri", "attempt")

    def __init__(self, *, of: str, manifest_uri: Any, attempt: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.of = of
        self.manifest_uri = manifest_uri
        self.attempt = attempt

    def execute(self, context: Any) -> None:
        self.defer(trigger=DateTimeTrigger(datetime.now(UTC)), method_name="go_on")

    def go_on(self, context: Any, event: Any = None) -> None:
        copy(self.of, "waiting", self.manifest_uri, self.attempt)


class Job(ResumableJobMixin, BaseOperator):
    """As operators of Glue and Databricks are: it keeps its job's id in its task's state. Every job succeeds."""

    template_fields = ("manifest_uri", "attempt")

    def __init__(self, *, of: str, root: str, manifest_uri: Any, attempt: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.of = of
        self.root = root
        self.manifest_uri = manifest_uri
        self.attempt = attempt

    def execute(self, context: Any) -> None:
        self.execute_resumable(context)

    def submit_job(self, context: Any) -> str:
        copy(self.of, self.root, self.manifest_uri, self.attempt)
        return f"the job of attempt {self.attempt}"

    def get_job_status(self, external_id: Any, context: Any) -> str:
        return "SUCCEEDED"

    def is_job_active(self, status: str) -> bool:
        return False

    def is_job_succeeded(self, status: str) -> bool:
        return True

    def poll_until_complete(self, external_id: Any, context: Any) -> None: ...

    def get_job_result(self, external_id: Any, context: Any) -> Any: ...


def kinds(name: str, batch: StreamBatch) -> None:
    given = {"manifest_uri": batch.manifest_uri, "attempt": batch.attempt}
    work.override(task_id="plain")(name, "plain", **given)
    commands = [f"{PROGRAM} {out(name, root)}" for root in ("shell0", "shell1")]
    shell = BashOperator.partial(task_id="shell", env=batch.environment, append_env=True)
    shell.expand(bash_command=commands)
    # A scheduler that is behind takes a task that is back from the triggerer for one that was lost (seen in 3.3).
    Waiting(task_id="waiting", of=name, retries=3, **given)


def roots(name: str, batch: StreamBatch) -> None:
    """One job with a block for each root, two tasks that are started by words alone, and a stock operator's job."""
    one, two = out(name, "one"), out(name, "two")
    second = f"$(test -e {FOLDER / f'changed-{name}'} || echo {two})"
    BashOperator(task_id="job", bash_command=f"{PROGRAM} {one} {second}", env=batch.environment, append_env=True)
    for root in ("three", "four"):
        BashOperator(task_id=root, bash_command=" ".join([PROGRAM, *batch.args, out(name, root)]))
    Job(task_id="five", of=name, root="five", manifest_uri=batch.manifest_uri, attempt=batch.attempt)


def changing(name: str, batch: StreamBatch) -> None:
    """The same group in two versions: a task is renamed, there are fewer instances, and another branch is taken."""
    given = {"manifest_uri": batch.manifest_uri, "attempt": batch.attempt}

    @task.branch
    def choose(count: int) -> str:
        assert count
        return "batch.right" if told(name, "changed") else "batch.left"

    @task
    def parts() -> list[int]:
        return [0] if told(name, "changed") else [0, 1]

    choose(batch.record_count) >> [work.override(task_id=side)(name, "out", **given) for side in ("left", "right")]
    work.override(task_id="each").partial(name=name, root="out", **given).expand(part=parts())
    work.override(task_id="renamed" if told(name, "changed") else "named")(name, "out", **given)


def plain(name: str, batch: StreamBatch) -> None:
    retries = 1 if name == "ends_own" else 0
    work.override(retries=retries)(name, "out", batch.manifest_uri, batch.attempt)


def make(name: str, shape: Callable[[str, StreamBatch], None]) -> DAG:
    with (
        DAG(name, schedule=None, params=batch_params("batch"), max_active_runs=2, default_args=QUICK) as dag,
        StreamBatch(
            "batch",
            app_name="test",
            stream=KinesisStream(name, aws_conn_id="aws_local"),
            leases=SQLLeases("leases_local"),
            staging=Staging(str(FOLDER / "staging")),
            policies=Policies(sink="own" if name == "ends_own" else "starts"),
        ) as batch,
    ):
        shape(name, batch)
    return dag


SHAPES = {
    "ends_kinds": kinds,
    "ends_roots": roots,
    "ends_changing": changing,
    "ends_alone": plain,
    "ends_own": plain,
}
asked = get_parsing_context().dag_id  # a task needs its own DAG only
for each, shape in SHAPES.items():
    if asked in (None, each):
        globals()[each] = make(each, shape)
