# SPDX-License-Identifier: Apache-2.0
<<<<<<< HEAD
"""The Streams page without Airflow's servers: its real application, asked as some user, over real rows.

Only Airflow's auth manager is a stand-in: it knows users by their names, and what each may do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from airflow import settings
from airflow.api_fastapi.app import _AuthManagerState
from airflow.sdk import DAG
from fastapi.testclient import TestClient

from shardbatch import KinesisStream, SQLLeases, Staging, StreamBatch
from shardbatch.stores.sql import SQLStore
from tests.support.metadata import Metadata
from tests.support.rig import FakeTime, Rig
from tests.support.scripted import ScriptedStream


@dataclass(frozen=True)
class User:
    """Somebody, with the DAGs that they may read and edit."""

    name: str
    reads: frozenset[str] = frozenset()
    edits: frozenset[str] = frozenset()
    admin: bool = False

    def get_name(self) -> str:
        return self.name

    def get_id(self) -> str:
        return self.name


@dataclass
class AuthManager:
    """What the page asks of Airflow's. A token is a user's name."""

    users: Mapping[str, User]

    async def get_user_from_token(self, token: str) -> User:
        from jwt import InvalidTokenError

        if token not in self.users:
            raise InvalidTokenError
        return self.users[token]

    def get_authorized_dag_ids(self, *, user: User, method: str = "GET") -> set[str]:
        return set(user.reads if method == "GET" else user.edits)

    def is_authorized_connection(self, *, method: str, user: User, details: Any = None) -> bool:
        return user.admin


USERS = (
    User("admin", frozenset({"dag", "other"}), frozenset({"dag", "other"}), admin=True),
    User("editor", frozenset({"dag"}), frozenset({"dag"})),
    User("viewer", frozenset({"dag"})),
    User("stranger", frozenset({"other"}), frozenset({"other"})),
)


@dataclass
class Page:
    """The page of a deployment ``here``, whose DAG ``dag`` has the group ``orders`` of the application ``etl``."""

    folder: Path
    metadata: Metadata
    store: SQLStore
    client: TestClient
    stream: ScriptedStream = field(default_factory=ScriptedStream)

    @property
    def rig(self) -> Rig:
        """Runs of the application, over the page's store and staging folder."""
        return Rig(self.folder / "staging", self.stream, self.store, FakeTime(), app="etl")

    @property
    def staging(self) -> Staging:
        """Where its slices stand."""
        return Staging(str(self.folder / "staging"))

    def dag(self, dag_id: str = "dag", group_id: str = "orders", **changes: Any) -> None:
        """A DAG with a group, serialized."""
        given: dict[str, Any] = {
            "app_name": "etl",
            "stream": KinesisStream(self.stream.name),
            "leases": SQLLeases("leases"),
            "staging": self.staging,
        }
        with DAG(dag_id, schedule=None) as made:
            StreamBatch(group_id, **{**given, **changes})
        self.metadata.dag(made)

    def get(self, path: str, user: str | None = "admin", status: int = 200, **query: Any) -> dict[str, Any]:
        """What an address answers to a user."""
        headers = {} if user is None else {"Authorization": f"Bearer {user}"}
        found = self.client.get(f"/api/{path}", params=query, headers=headers)
        assert found.status_code == status, found.text
        return dict(found.json())

    def of(self, path: str, user: str | None = "admin", status: int = 200, **query: Any) -> dict[str, Any]:
        """What an address answers about the application."""
        return self.get(path, user, status, **{**self.address(), **query})

    def address(self) -> dict[str, str]:
        """The application in a query."""
        from shardbatch_plugin.web.stores import Place

        key = Place(SQLLeases("leases")).key
        return {"store": key, "app_name": "etl", "stream_name": self.stream.name}


def page_of(folder: Path, monkeypatch: pytest.MonkeyPatch, url: str = "") -> Page:
    """A page over empty tables of its own.

    :param url: the database of its lease store, default: a SQLite file.
    """
    from shardbatch_plugin.web import found, listing, stores
    from shardbatch_plugin.web.app import app

    metadata = Metadata(folder).create().create_dags()
    monkeypatch.setattr(settings, "Session", metadata.session)
    monkeypatch.setattr(_AuthManagerState, "instance", AuthManager({user.name: user for user in USERS}))
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__DEPLOYMENT_ID", "here")
    where = {"conn_type": "sqlite", "host": str(folder / "leases.db")}
    monkeypatch.setenv("AIRFLOW_CONN_LEASES", url or json.dumps(where))
    for module, name, fresh in (
        (found, "_dags", found.Dags()),
        (listing, "_names", listing._Names()),
        (stores, "_askers", {}),
    ):
        monkeypatch.setattr(module, name, fresh)
    monkeypatch.setattr(stores, "FRESH_S", 0.0)
    store = SQLStore(url or f"sqlite:///{folder / 'leases.db'}")
    store.prepare()
    return Page(folder, metadata, store, TestClient(app))
=======
"""The Streams page in this process: its application over rows of its own, an Airflow database in SQLite, and users whom
Airflow lets read and edit some DAGs."""

from __future__ import annotations

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

    :param folder: for Airflow's database.
    :param patch: pytest's ``monkeypatch``.
    """

    def __init__(self, folder: Path, patch: Any) -> None:
        from shardbatch_plugin.web.app import app

        import_all_models()
        self.metadata = Metadata(folder)
        Base.metadata.create_all(self.metadata.engine)
        patch.setattr("airflow.settings.Session", self.metadata.session)
        self.rights = Rights()
        patch.setattr(_AuthManagerState, "instance", self.rights)
        self._app = app
        self.client = TestClient(app)
        with self.metadata.session() as session:
            session.add(DagBundleModel(name="dags"))
            session.commit()

    def add(self, dag: DAG) -> None:
        """Airflow has a DAG, serialized."""
        with self.metadata.session() as session:
            session.add(DagModel(dag_id=dag.dag_id, bundle_name="dags", is_stale=False))
            session.commit()
            SerializedDagModel.write_dag(LazyDeserializedDAG.from_dag(dag), bundle_name="dags", session=session)
            session.commit()

    def knows(self, dag_id: str) -> None:
        """Airflow has a DAG of which nothing more is known."""
        with self.metadata.session() as session:
            session.add(DagModel(dag_id=dag_id, bundle_name="dags", is_stale=False))
            session.commit()

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
>>>>>>> streams-act
