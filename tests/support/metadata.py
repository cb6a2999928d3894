# SPDX-License-Identifier: Apache-2.0
"""A small part of Airflow's metadata database, in SQLite: the tables of runs, of their tasks, and of DAGs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from sqlalchemy import Table, create_engine, insert, update
from sqlalchemy.orm import sessionmaker

if TYPE_CHECKING:
    from airflow.sdk import DAG


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
        """Makes the tables of runs and tasks."""
        for table in (self._runs, self._tasks):
            table.create(self.engine)
        return self

    def create_dags(self) -> Metadata:
        """Makes the tables of DAGs and of the state of tasks."""
        from airflow.models.dag import DagModel
        from airflow.models.dag_version import DagVersion
        from airflow.models.serialized_dag import SerializedDagModel
        from airflow.models.task_state_store import TaskStateStoreModel

        for model in (DagModel, DagVersion, SerializedDagModel, TaskStateStoreModel):
            model.__table__.create(self.engine)  # type: ignore[attr-defined]
        return self

    def dag(self, made: DAG) -> None:
        """A DAG as the DAG processor leaves it: serialized, the latest version of its id."""
        from airflow.models.dag import DagModel
        from airflow.models.dag_version import DagVersion
        from airflow.models.serialized_dag import SerializedDagModel
        from airflow.serialization.serialized_objects import LazyDeserializedDAG
        from sqlalchemy import func, select

        with self.session() as session:
            if session.get(DagModel, made.dag_id) is None:
                session.add(DagModel(dag_id=made.dag_id, bundle_name="dags-folder", is_stale=False))
            asked = select(func.max(DagVersion.version_number)).where(DagVersion.dag_id == made.dag_id)
            version = DagVersion(id=uuid4(), dag_id=made.dag_id, version_number=(session.scalar(asked) or 0) + 1)
            session.add(version)
            session.flush()
            row = SerializedDagModel(LazyDeserializedDAG.from_dag(made))
            row.dag_version_id = version.id
            session.add(row)
            session.commit()

    def stale(self, dag_id: str) -> None:
        """The file of a DAG is gone."""
        from airflow.models.dag import DagModel

        with self.session() as session:
            session.get_one(DagModel, dag_id).is_stale = True
            session.commit()

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

    def task(
        self, dag_id: str, run_id: str, task_id: str, state: str | None, map_index: int = -1, **times: datetime
    ) -> None:
        """A task instance of a run, in a state; ``times`` are its ``start_date`` and ``end_date``."""
        values = {"id": uuid4(), "dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": map_index}
        needed = {"state": state, "pool": "default_pool", "pool_slots": 1, **times}
        with self.engine.begin() as connection:
            connection.execute(insert(self._tasks).values(**values, **needed))
