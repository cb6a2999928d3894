# SPDX-License-Identifier: Apache-2.0
"""A small part of Airflow's metadata database, in SQLite: the tables of runs and of task instances."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from sqlalchemy import Table, create_engine, insert, update
from sqlalchemy.orm import sessionmaker


class Metadata:
    """The database and what stands in it; as ``settings.Session`` it is what Airflow opens."""

    def __init__(self, folder: Path) -> None:
        from airflow.models import DagRun, TaskInstance, import_all_models

        import_all_models()  # the tables name each other
        self.engine = create_engine(f"sqlite:///{folder / 'airflow.db'}")
        self._runs: Table = DagRun.__table__  # type: ignore[assignment]
        self._tasks: Table = TaskInstance.__table__  # type: ignore[assignment]
        self.session = sessionmaker(self.engine)

    def create(self) -> Metadata:
        """Makes the tables."""
        for table in (self._runs, self._tasks):
            table.create(self.engine)
        return self

    def run(self, dag_id: str, run_id: str, state: str) -> None:
        """A run, in a state."""
        now = datetime.now(UTC)
        values = {"dag_id": dag_id, "run_id": run_id, "state": state, "run_type": "manual", "run_after": now}
        with self.engine.begin() as connection:
            connection.execute(insert(self._runs).values(**values, log_template_id=None))

    def ends(self, dag_id: str, run_id: str, state: str) -> None:
        """The run comes to its end."""
        is_it = (self._runs.c.dag_id == dag_id) & (self._runs.c.run_id == run_id)
        with self.engine.begin() as connection:
            connection.execute(update(self._runs).where(is_it).values(state=state))

    def task(self, dag_id: str, run_id: str, task_id: str, state: str | None, map_index: int = -1) -> None:
        """A task instance of a run, in a state."""
        values = {"id": uuid4(), "dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": map_index}
        needed = {"state": state, "pool": "default_pool", "pool_slots": 1}
        with self.engine.begin() as connection:
            connection.execute(insert(self._tasks).values(**values, **needed))
