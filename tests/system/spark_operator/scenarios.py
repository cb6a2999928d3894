# SPDX-License-Identifier: Apache-2.0
"""Runs SparkSubmitBatchOperator with a real Spark, one process for all, and writes down what happened.

``python -m tests.system.spark_operator.scenarios FOLDER`` in an environment made by the test leaves FOLDER/found.json.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowFailException

from scripts.environment import QUICK_JAVA
from shardbatch.core import batch as batches
from shardbatch.core.batch import Batch
from shardbatch.core.owner import Owner
from shardbatch.core.policies import ClaimOptions
from shardbatch.core.ports import Verdict
from shardbatch.core.rows import Namespace
from shardbatch.hooks.kinesis import KinesisStream
from shardbatch.hooks.leases import SQLLeases
from shardbatch.hooks.staging import Staging
from shardbatch.landing.area import StagingArea
from shardbatch.operators.spark import SparkSubmitBatchOperator
from shardbatch.run import Consumer, Frozen, beat, claim, freeze, land
from shardbatch.stores.sql import SQLStore
from shardbatch.submit import processes
from tests.support.scripted import ScriptedStream

FOLDER = Path(sys.argv[1])
JOB = Path(__file__).with_name("job.py")
OUTPUTS = ("batch_id", "attempt", "manifest_uri", "manifest_digest")
CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "WARN",
    "spark.sql.warehouse.dir": f"{FOLDER}/warehouse",
}


class Scene:
    """An application with two landed shards of 12 records, its frozen batch, and an operator for it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.staging = FOLDER / name / "staging"
        self.out = FOLDER / name / "out"
        self.staging.mkdir(parents=True)
        self.consumer = self._consumer()
        self.owner = Owner("local", name, "run1", "orders")
        self.frozen: Frozen | None = None

    def _consumer(self) -> Consumer:
        stream = ScriptedStream(shards=2)
        stream.put(*[f"key-{number}" for number in range(12)])
        store = SQLStore(f"sqlite:///{FOLDER}/leases.db")
        store.prepare()
        return Consumer(
            namespace=Namespace(self.name, "orders"),
            source=stream,
            store=store,
            landing=StagingArea(str(self.staging)),
            liveness=lambda owner: Verdict.ACTIVE,
            deployment="local",
            options=ClaimOptions(attempt_grace=timedelta(milliseconds=100)),
        )

    def freeze(self, run_id: str = "run1") -> Frozen:
        """Claim, land and freeze for a run; again: the next attempt."""
        self.owner = Owner("local", self.name, run_id, "orders")
        if self.frozen is None:
            claimed = claim(self.consumer, self.owner)
            for group in claimed.groups:
                land(self.consumer, self.owner, group.group, cast("Any", self.consumer.source).now_ms + 1)
        self.frozen = freeze(self.consumer, self.owner, None)
        return self.frozen

    def operator(self, what: str, **more: Any) -> SparkSubmitBatchOperator:
        given: dict[str, Any] = {
            "task_id": "transform",
            "application": str(JOB),
            "application_args": [str(self.out), what],
            "conf": CONF,
            "heartbeat": timedelta(seconds=1),
            "app_name": self.name,
            "stream": KinesisStream("orders", aws_conn_id=None),
            "leases": SQLLeases("leases_db"),
            "staging": Staging(str(self.staging)),
            "group_id": "orders",
            "name": "copy orders",
            **(asdict(self.frozen) if self.frozen else {}),
            **more,
        }
        for name in ("record_count", "bytes", "shards", "gaps", "replay", "waiting"):
            given.pop(name, None)
        return SparkSubmitBatchOperator(**given)

    def context(self) -> Any:
        run = SimpleNamespace(dag_id=self.name, run_id="run1", run_type="manual", conf={})
        return {"ti": SimpleNamespace(map_index=-1, id="try-1"), "dag_run": run, "params": {}}

    def row(self) -> Batch:
        assert self.frozen is not None
        found = self.consumer.batch(cast("str", self.frozen.batch_id))
        assert found is not None
        return found

    def change(self, transition: Callable[[Batch], Batch]) -> None:
        while True:
            seen = self.row()
            if self.consumer.store.replace(seen, transition(seen)):
                return

    def when_running(self, act: Callable[[int], None]) -> threading.Thread:
        """Do something with the process id of spark-submit once its Python has entered the batch."""

        def watch() -> None:
            deadline = time.monotonic() + 240
            while time.monotonic() < deadline:
                process = processes.parse(self.row().spark_application[1] or "")
                if process and any(runs_the_job(child) for child in processes.family(process[1])[1:]):
                    return act(process[1])
                time.sleep(0.2)
            return None

        thread = threading.Thread(target=watch)
        thread.start()
        return thread

    def found(self, **more: Any) -> dict[str, Any]:
        row = self.row()
        starts = self.consumer.landing.finished_starts(self.consumer.namespace, row.batch_id)
        leases = self.consumer.leases()
        return {
            "batch_id": row.batch_id,
            "attempt": row.attempt,
            "closed": row.attempt_closed,
            "application": row.spark_application[1],
            "starts": [start.to_json() for start in starts],
            "checkpoints": sorted(str(lease.checkpoint) for lease in leases),
            **more,
        }


def at_work(process: psutil.Process) -> bool:
    """Whether a process runs; one that has ended and was not collected yet does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def runs_the_job(process: psutil.Process) -> bool:
    try:
        return "python" in process.name() and str(JOB) in process.cmdline()
    except psutil.Error:
        return False


def attempted(operator: SparkSubmitBatchOperator, context: Any) -> str:
    """The class and text of what execution raised, or an empty text."""
    try:
        operator.execute(context)
    except Exception as error:  # noqa: BLE001 - what was raised is what the test looks at
        final = "final " if isinstance(error, AirflowFailException) else ""
        return f"{final}{type(error).__name__}: {error}"
    return ""


def in_a_dag_run() -> dict[str, Any]:
    """The operator after a real task, its batch from XComs; an older attempt's spark-submit still runs here."""
    scene = Scene("in_a_dag_run")
    older: list[subprocess.Popen[bytes]] = []

    with DAG("in_a_dag_run", schedule=None) as dag:

        @task(multiple_outputs=True)
        def prepare(run_id: Any = None) -> dict[str, Any]:
            frozen = scene.freeze(run_id)
            marked = f"spark.shardbatch.batch={frozen.batch_id}"
            words = [sys.executable, "-c", "import time; time.sleep(600)", "spark-submit", "--conf", marked]
            older.append(subprocess.Popen(words))
            batch_id = cast("str", frozen.batch_id)
            beat(scene.consumer, scene.owner, batch_id, 1, processes.reference(older[0].pid))
            frozen = scene.freeze(run_id)
            return {name: getattr(frozen, name) for name in OUTPUTS}

        outputs = prepare()
        operator = scene.operator("copy", **{name: outputs[name] for name in OUTPUTS})
        assert "prepare" in operator.upstream_task_ids
    run = run_dag(dag)
    older_ended = older[0].poll() is not None
    (rows,) = [scene.out.glob("batch_id=*/start=*/*.parquet")]
    import pyarrow.parquet as pq

    records = sum(pq.read_table(file).num_rows for file in rows)
    return scene.found(state=str(run.state), older_ended=older_ended, records=records)


def run_dag(dag: DAG) -> Any:
    """``dag.test`` of a DAG that stands in no bundle."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.serialization.definitions.dag import SerializedDAG
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.session import create_session

    with create_session() as session:
        DagBundlesManager().sync_bundles_to_db(session=session)
        session.commit()
        lazy = LazyDeserializedDAG.from_dag(dag)
        SerializedDAG.bulk_write_to_db("dags-folder", None, [lazy], session=session)
        SerializedDagModel.write_dag(lazy, bundle_name="dags-folder", session=session)
        session.commit()
    return dag.test()


def committed_already() -> dict[str, Any]:
    scene = Scene("committed_already")
    scene.freeze()
    scene.change(lambda batch: batches.decide(batch, (), 1, 1))
    error = attempted(scene.operator("fail"), scene.context())
    return scene.found(error=error)


def of_another_owner() -> dict[str, Any]:
    scene = Scene("of_another_owner")
    scene.freeze()
    scene.change(lambda batch: batches.adopt(batch, "another/owner"))
    error = attempted(scene.operator("fail"), scene.context())
    return scene.found(error=error)


def job_fails() -> dict[str, Any]:
    scene = Scene("job_fails")
    scene.freeze()
    error = attempted(scene.operator("fail"), scene.context())
    return scene.found(error=error)


def lost_while_it_runs() -> dict[str, Any]:
    scene = Scene("lost_while_it_runs")
    scene.freeze()
    family: list[psutil.Process] = []

    def rob(pid: int) -> None:
        family.extend(processes.family(pid))
        scene.change(lambda batch: batches.adopt(batch, "another/owner"))

    thread = scene.when_running(rob)
    error = attempted(scene.operator("wait"), scene.context())
    thread.join()
    left = [process.pid for process in family if at_work(process)]
    return scene.found(error=error, processes=len(family), left=left)


def killed() -> dict[str, Any]:
    """As a worker does it: SIGTERM to the task, whose handler calls on_kill."""
    scene = Scene("killed")
    scene.freeze()
    operator = scene.operator("wait")
    family: list[psutil.Process] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: operator.on_kill())

    def kill(pid: int) -> None:
        family.extend(processes.family(pid))
        os.kill(os.getpid(), signal.SIGTERM)

    thread = scene.when_running(kill)
    error = attempted(operator, scene.context())
    thread.join()
    signal.signal(signal.SIGTERM, before)
    left = [process.pid for process in family if at_work(process)]
    return scene.found(error=error, processes=len(family), left=left)


SCENARIOS = (in_a_dag_run, committed_already, of_another_owner, job_fails, lost_while_it_runs, killed)


def main() -> None:
    from airflow.utils.db import initdb

    initdb()
    found = {}
    for scenario in SCENARIOS:
        print(f"=== {scenario.__name__}", flush=True)
        found[scenario.__name__] = scenario()
        (FOLDER / "found.json").write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
