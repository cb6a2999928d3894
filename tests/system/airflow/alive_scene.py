# SPDX-License-Identifier: Apache-2.0
"""What the stories of test_spark_alive.py tell of: a DAG, its runs, and applications that are held in their batch."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

from scripts.airflow_client import wait_until
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.rows import BATCH, Namespace
from shardbatch.stores.sql import SQLStore
from tests.support.airflow_instance import GROUP, PATIENCE, Deployment
from tests.support.committed import committed
from tests.support.deadly import Orders
from tests.support.spark_cluster import SparkCluster

T = TypeVar("T")

RECORDS = 20


@dataclass(frozen=True)
class Held:
    """A start of an application, as it stands in its batch."""

    start_id: str
    batch_id: str
    attempt: int
    pid: int
    folder: str
    records: int

    @property
    def driver(self) -> str:
        """Its name at a standalone cluster, which gives a driver a folder of that name."""
        return Path(self.folder).name

    @property
    def alive(self) -> bool:
        """Whether its Python runs."""
        try:
            return psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


class Scene:
    """A DAG with its stream and records in it, the gestures of its people, and its applications."""

    def __init__(self, airflow: Deployment, name: str, cluster: SparkCluster | None) -> None:
        self.airflow = airflow
        self.name = name
        self._cluster = cluster
        self.gate = airflow.folder / "gate" / name
        self.out = airflow.folder / "out" / name
        self.gate.mkdir(parents=True)
        self.orders = Orders(airflow.folder, name)
        airflow.create_stream(name, shards=1)
        self.sent = airflow.put(name, 0, RECORDS)

    @property
    def cluster(self) -> SparkCluster:
        assert self._cluster is not None
        return self._cluster

    # ------------------------------------------------------------------ runs

    def start(self, run_id: str) -> None:
        self.airflow.start(self.name, run_id=run_id)

    def wait(self, run_id: str) -> str:
        return self.airflow.client.wait_for_run(self.name, run_id, PATIENCE)

    def log(self, run_id: str, task: str, attempt: int = 1) -> str:
        return self.airflow.log(self.name, run_id, task, attempt)

    def until(self, look: Callable[[], T | None], what: str) -> T:
        """Waits for something true to see."""
        return wait_until(look, PATIENCE, lambda: f"{self.name}: waited in vain for {what}")

    def wait_for_retry(self, said: str) -> None:
        """Waits until the second try of the Spark task of the run `p` has said something in its log."""

        def tried() -> bool:
            tasks = {task["task_id"]: task for task in self.airflow.client.tasks(self.name, "p")}
            return bool(tasks[f"{GROUP}.work"]["try_number"] == 2)

        self.until(tried, "a retry")
        self.until(lambda: said in self.log("p", "work", 2), f"{said!r} in the log of the retry")

    # ------------------------------------------------------------------ ways to be over

    def time_out(self, run_id: str) -> None:
        """The run is suddenly as old as its DAG's ``dagrun_timeout`` allows, and older."""
        older = "UPDATE dag_run SET start_date = start_date - interval '1 day' WHERE dag_id = %s AND run_id = %s"
        [_] = self.airflow.metadata_rows(f"{older} RETURNING id", self.name, run_id)

    def lose_worker(self) -> None:
        """The Spark task and its supervisor are gone, at the next heartbeat."""
        self.orders.arm("before-beaten", supervisor=True)
        self.until(lambda: self.orders.obeyed("before-beaten"), "the end of the worker")

    # ------------------------------------------------------------------ applications

    def held(self) -> list[Held]:
        """The applications that are in their batch or have been, the first one first."""
        found = [json.loads(path.read_text("utf-8")) for path in sorted(self.gate.glob("started-*"))]
        return [Held(**{name: one[name] for name in Held.__dataclass_fields__}) for one in found]

    def wait_for_start(self, number: int, run_id: str | None = None) -> Held:
        """Waits until the n-th application is in its batch, while this run, if one is given, is not over."""

        def inside() -> Held | None:
            starts = self.held()
            if len(starts) < number and run_id is not None:
                state = self.airflow.client.run(self.name, run_id)["state"]
                assert state in ("queued", "running"), (run_id, state, self.airflow.states(self.name, run_id))
            return starts[number - 1] if len(starts) >= number else None

        found = self.until(inside, f"start {number}")
        assert found.records == RECORDS
        return found

    def wait_for_own_start(self) -> Held:
        """Waits until the application that the batch row names is in its batch."""

        def inside() -> Held | None:
            _, name = self.batch().spark_application
            return next((start for start in self.held() if name == f"standalone:{start.driver}"), None)

        return self.until(inside, "the start of the recorded driver")

    def let_go(self, start: Held) -> None:
        (self.gate / f"go-{start.start_id}").touch()

    def end(self, start: Held) -> None:
        """Lets a start go to its end, whatever that is."""
        self.let_go(start)
        self.until(lambda: not start.alive, f"the end of {start}")

    def close(self) -> None:
        """Ends what a story that failed has left."""
        for start in self.held():
            if start.alive:
                with contextlib.suppress(psutil.NoSuchProcess):
                    psutil.Process(start.pid).kill()

    def written(self) -> set[str]:
        """The starts that have written output."""
        return {path.name.removeprefix("start=") for path in self.out.glob("batch_id=*/start=*")}

    # ------------------------------------------------------------------ rows

    def batch(self) -> Batch:
        store = SQLStore(f"sqlite:///{self.airflow.folder / 'leases.db'}", create=False)
        try:
            [row] = store.list(BATCH, Namespace("test", self.name))
        finally:
            store.close()
        assert isinstance(row, Batch)
        return row

    def require_unmoved(self) -> None:
        """Nothing is committed."""
        assert {str(lease.checkpoint) for lease in self.airflow.leases(self.name)} == {"TRIM_HORIZON"}  # R85
        assert self.batch().state is BatchState.FROZEN

    def require_committed(self, winner: Held) -> None:
        """The start is what was committed, and readers see every record once."""
        row = self.batch()
        assert (row.state, row.batch_id, row.decided) == (BatchState.COMMITTED, winner.batch_id, winner.attempt)
        assert [start.start_id for start in row.starts] == [winner.start_id]
        assert all(lease.checkpoint.sequence_number for lease in self.airflow.leases(self.name))
        assert all(lease.lease_owner is None for lease in self.airflow.leases(self.name))
        assert committed([self.out]) == {self.name: self.sent}
