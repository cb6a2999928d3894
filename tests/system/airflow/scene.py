# SPDX-License-Identifier: Apache-2.0
"""What a story of one DAG has: its stream, the gestures of a person in Airflow's pages, and what came of them."""

from __future__ import annotations

from typing import Any

from shardbatch.core.batch import Batch
from shardbatch.core.rows import BATCH, Namespace
from shardbatch.stores.sql import SQLStore
from tests.support.airflow_instance import PATIENCE, Deployment

FIRST, LATER = (0, 10), (10, 20)


class Scene:
    """A DAG with its stream, ten records in it, and the gestures."""

    def __init__(self, airflow: Deployment, name: str) -> None:
        self.airflow = airflow
        self.name = name
        airflow.create_stream(name, shards=1)
        self.sent = airflow.put(name, *FIRST)

    def start(self, run_id: str) -> str:
        return self.airflow.start(self.name, run_id=run_id)

    def wait(self, run_id: str) -> str:
        return self.airflow.client.wait_for_run(self.name, run_id, PATIENCE)

    def run(self, run_id: str) -> str:
        return self.wait(self.start(run_id))

    def fail(self, run_id: str) -> None:
        """A run whose work fails."""
        told = self.airflow.tell(f"fail-{self.name}")
        assert self.run(run_id) == "failed"
        told.unlink()

    def put_more(self) -> list[str]:
        self.sent = sorted(self.sent + self.airflow.put(self.name, *LATER))
        return self.sent

    def clear(self, run_id: str, *tasks: str, **fields: Any) -> str:
        return self.airflow.again(self.name, run_id, list(tasks) or None, **fields)

    def mark(self, run_id: str, task: str, state: str) -> str:
        """Marks a task; if that lets the run go on, waits for its end."""
        client = self.airflow.client
        before = client.run(self.name, run_id)["end_date"]
        client.mark_task(self.name, run_id, f"batch.{task}", state)
        if client.run(self.name, run_id)["end_date"] == before:
            return str(client.run(self.name, run_id)["state"])
        return self.wait(run_id)

    def states(self, run_id: str) -> dict[str, str | None]:
        return self.airflow.states(self.name, run_id)

    def xcom(self, run_id: str, task: str, key: str = "return_value") -> Any:
        return self.airflow.xcom(self.name, run_id, task, key)

    def log(self, run_id: str, task: str, attempt: int = 1, map_index: int = -1) -> str:
        return self.airflow.log(self.name, run_id, task, attempt, map_index)

    def batch_id(self, run_id: str) -> str:
        return str(self.xcom(run_id, "freeze", "batch_id"))

    def rows(self) -> tuple[list[Any], list[Batch]]:
        """All lease and batch rows."""
        store = SQLStore(f"sqlite:///{self.airflow.folder / 'leases.db'}", create=False)
        try:
            batches: list[Any] = list(store.list(BATCH, Namespace("test", self.name)))
        finally:
            store.close()
        return self.airflow.leases(self.name), sorted(batches, key=lambda row: row.batch_id)

    def batch(self) -> Batch:
        [row] = self.rows()[1]
        return row

    def unmoved(self) -> bool:
        return {str(lease.checkpoint) for lease in self.airflow.leases(self.name)} == {"TRIM_HORIZON"}

    def written(self) -> dict[str, int]:
        return self.airflow.batches(self.name)

    def output(self) -> list[str]:
        return self.airflow.output(self.name)
