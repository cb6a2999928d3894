# SPDX-License-Identifier: Apache-2.0
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
