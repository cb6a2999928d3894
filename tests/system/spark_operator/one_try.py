# SPDX-License-Identifier: Apache-2.0
"""One try of a Spark task in a process of its own, for tests that kill it: ``one_try FOLDER BATCH``.

``BATCH`` is JSON: the arguments of the operator, the run's id, and ``blind`` if the try dies before it has told anybody
what it submitted. What the task's state store holds stands in ``FOLDER/state``.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from shardbatch.hooks.kinesis import KinesisStream
from shardbatch.hooks.leases import SQLLeases
from shardbatch.hooks.staging import Staging
from shardbatch.operators.spark import SparkSubmitBatchOperator


class State:
    """A task's state store in files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def get(self, key: str) -> Any:
        file = self.folder / key
        return json.loads(file.read_text("utf-8")) if file.exists() else None

    def set(self, key: str, value: Any) -> None:
        (self.folder / key).write_text(json.dumps(value), "utf-8")


def operator(folder: Path, given: dict[str, Any]) -> SparkSubmitBatchOperator:
    """The task as a DAG file of the scene would have it."""
    return SparkSubmitBatchOperator(
        task_id="transform",
        app_name="scene",
        stream=KinesisStream("orders", aws_conn_id=None),
        leases=SQLLeases("leases_db"),
        staging=Staging(str(folder / "staging")),
        group_id="batch",
        name="copy orders",
        heartbeat=timedelta(seconds=1),
        **given,
    )


def main() -> None:
    folder, given = Path(sys.argv[1]), json.loads(sys.argv[2])
    blind, run_id = given.pop("blind", False), given.pop("run_id")
    task = operator(folder, given)
    if blind:
        task._application_reference = lambda: None  # type: ignore[method-assign]
    signal.signal(signal.SIGTERM, lambda *_: task.on_kill())
    run = SimpleNamespace(dag_id="scene", run_id=run_id, run_type="manual", conf={})
    now = time.time_ns()  # ids of later tries are greater
    instance = SimpleNamespace(
        id=f"{now:020d}", task=task, task_id=task.task_id, map_index=-1, try_number=now, stats_tags={}
    )
    context: Any = {"ti": instance, "dag_run": run, "params": {}, "task_state_store": State(folder / "state")}
    task._pre_execute_hook(context)
    task.execute(context)
    task._post_execute_hook(context, None)
    print("the task has succeeded", flush=True)


if __name__ == "__main__":
    main()
