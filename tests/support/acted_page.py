# SPDX-License-Identifier: Apache-2.0
"""The Streams page with a whole database of Airflow, in which runs are started, and users who may read, edit and start
some DAGs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.api_fastapi.app import _AuthManagerState
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.api_fastapi.core_api.security import get_user
from airflow.models import import_all_models
from airflow.models.base import Base
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.xcom import XComModel
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import LazyDeserializedDAG
from fastapi.testclient import TestClient
from sqlalchemy import insert, select

from tests.support.metadata import Metadata

FROM_THE_PAGE = {"X-Shardbatch": "act", "Origin": "http://testserver", "Sec-Fetch-Site": "same-origin"}


def database(folder: Path, dags: Sequence[DAG], names: Sequence[str] = ()) -> None:
    """Makes Airflow's database in a folder, with these DAGs, serialized, and others of which it knows the names."""
    import_all_models()
    metadata = Metadata(folder)
    Base.metadata.create_all(metadata.engine)
    with metadata.session() as session:
        session.add(DagBundleModel(name="dags"))
        session.commit()
        for dag_id in (*(dag.dag_id for dag in dags), *names):
            session.add(DagModel(dag_id=dag_id, bundle_name="dags", is_stale=False))
        session.commit()
        for dag in dags:
            SerializedDagModel.write_dag(LazyDeserializedDAG.from_dag(dag), bundle_name="dags", session=session)
        session.commit()
    metadata.engine.dispose()


class Rights(SimpleAuthManager):
    """Airflow's simple auth manager, with users who may read or edit only some DAGs.

    ``reads`` and ``edits`` have the DAGs of each user; ``starts`` those of which they may start runs. Whoever stands in
    ``admins`` may do all.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reads: dict[str, set[str]] = {}
        self.edits: dict[str, set[str]] = {}
        self.starts: dict[str, set[str]] = {}
        self.admins: set[str] = set()

    def is_authorized_dag(self, *, method: Any, user: Any, access_entity: Any = None, details: Any = None) -> bool:
        if user.get_name() in self.admins:
            return True
        kept = self.starts if access_entity is not None else self.reads if method == "GET" else self.edits
        return details is not None and details.id in kept.get(user.get_name(), set())

    def is_authorized_connection(self, *, method: Any, user: Any, details: Any = None) -> bool:
        return user.get_name() in self.admins


class Page:
    """The page, and what Airflow knows.

    :param folder: has Airflow's database, as :func:`database` makes it.
    :param patch: pytest's ``monkeypatch``.
    """

    def __init__(self, folder: Path, patch: Any) -> None:
        from shardbatch_plugin.web import found, stores
        from shardbatch_plugin.web.app import app

        self.metadata = Metadata(folder)
        for module, name, fresh in ((found, "_dags", found.Dags()), (stores, "_askers", {}), (stores, "FRESH_S", 0.0)):
            patch.setattr(module, name, fresh)
        patch.setattr("airflow.settings.Session", self.metadata.session)
        self.rights = Rights()
        patch.setattr(_AuthManagerState, "instance", self.rights)
        self._app = app
        self.client = TestClient(app)

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str, value: Any, map_index: int = -1) -> None:
        """A task of a run has left a value."""
        runs = self.metadata._runs
        with self.metadata.engine.begin() as connection:
            of_run = (runs.c.dag_id == dag_id) & (runs.c.run_id == run_id)
            number = connection.execute(select(runs.c.id).where(of_run)).scalar_one()
            names = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": map_index, "key": key}
            table: Any = XComModel.__table__
            connection.execute(
                insert(table).values(**names, dag_run_id=number, value=value, timestamp=datetime.now(UTC))
            )

    def log_in(self, name: str | None) -> None:
        """From now on this user calls; ``None``: nobody is logged in."""
        self._app.dependency_overrides.clear()
        if name is not None:
            user = SimpleAuthManagerUser(username=name, role=None)
            self._app.dependency_overrides[get_user] = lambda: user

    def get(self, path: str, **query: Any) -> Any:
        """The status and the JSON of an answer."""
        answer = self.client.get(f"/api/{path}", params=query)
        return answer.status_code, answer.json()

    def act(self, body: Any, headers: dict[str, str] | None = None) -> Any:
        """As :meth:`get`, of an action."""
        answer = self.client.post("/api/act", json=body, headers=FROM_THE_PAGE if headers is None else headers)
        return answer.status_code, answer.json()

    def close(self) -> None:
        """Nobody is logged in any more."""
        self._app.dependency_overrides.clear()
        self.metadata.engine.dispose()
