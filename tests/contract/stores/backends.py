# SPDX-License-Identifier: Apache-2.0
"""The backends of the lease store suite, each behind one face: open, tap, add a column of a later version."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import sqlalchemy as sa
from botocore.config import Config
from botocore.exceptions import ReadTimeoutError

from shardbatch.core.ports import LeaseStore
from shardbatch.core.rows import Key
from shardbatch.stores.dynamodb import DynamoDBStore
from shardbatch.stores.memory import Memory, MemoryStore
from shardbatch.stores.sql import SQLStore
from tests.support.aws import ACCOUNT, REGION, SECRET, AwsServer

#: Called with "before" and "after" around every write; ``TimeoutError`` loses the request or its answer.
Hook = Callable[[str], None]


class MemoryBackend:
    """Stores over one memory."""

    url: str | None = None
    options: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self) -> None:
        self.memory = Memory()

    def open(self, *, memory: Memory | None = None, **options: Any) -> LeaseStore:
        return MemoryStore(memory or self.memory, **options)

    def place(self) -> dict[str, Any]:
        """Options of a place where no table is."""
        return {"memory": Memory()}

    @contextlib.contextmanager
    def tap(self, store: LeaseStore, hook: Hook) -> Iterator[None]:
        assert isinstance(store, MemoryStore)
        store.fault = lambda moment, write: hook(moment)
        yield
        store.fault = None

    def set_unknown(self, key: Key, name: str, value: str) -> None:
        self.memory.tables[key.table.name][tuple(key.columns().values())][name] = value

    def unknown(self, key: Key, name: str) -> Any:
        return self.memory.tables[key.table.name][tuple(key.columns().values())].get(name)


class SqlBackend:
    """Stores over one database, each with an engine of its own."""

    def __init__(self, url: str) -> None:
        self.url: str | None = url
        self.options: dict[str, Any] = {}
        self.engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")

    def open(self, **options: Any) -> LeaseStore:
        assert self.url is not None
        return SQLStore(self.url, **options)

    def place(self) -> dict[str, Any]:
        return {"prefix": f"t{uuid.uuid4().hex[:8]}_"}

    @contextlib.contextmanager
    def tap(self, store: LeaseStore, hook: Hook) -> Iterator[None]:
        assert isinstance(store, SQLStore)

        dialect: Any = store.engine.dialect
        do_commit = dialect.do_commit

        def at(moment: str, statement: str) -> None:
            try:
                hook(moment)
            except TimeoutError as error:
                raise sa.exc.OperationalError(statement, None, error) from error

        def before(conn: sa.Connection, cursor: Any, statement: str, *_: Any) -> None:
            if statement.startswith(("INSERT", "UPDATE", "DELETE")):
                at("before", statement)

        def after(conn: sa.Connection, cursor: Any, statement: str, *_: Any) -> None:
            """What a transaction wrote is written when that is committed."""
            alone = conn.get_execution_options()["isolation_level"] == "AUTOCOMMIT"
            if alone and statement.startswith(("INSERT", "UPDATE", "DELETE")):
                at("after", statement)

        def commit(connection: Any) -> None:
            do_commit(connection)
            at("after", "COMMIT")

        sa.event.listen(store.engine, "before_cursor_execute", before)
        sa.event.listen(store.engine, "after_cursor_execute", after)
        dialect.do_commit = commit
        yield
        sa.event.remove(store.engine, "before_cursor_execute", before)
        sa.event.remove(store.engine, "after_cursor_execute", after)
        dialect.do_commit = do_commit

    def set_unknown(self, key: Key, name: str, value: str) -> None:
        with self.engine.connect() as connection:
            if name not in {column["name"] for column in sa.inspect(connection).get_columns(key.table.name)}:
                connection.execute(sa.text(f"ALTER TABLE {key.table.name} ADD COLUMN {name} TEXT"))
            table = sa.table(key.table.name, *map(sa.column, [*key.columns(), name]))
            at = [table.c[column] == text for column, text in key.columns().items()]
            assert connection.execute(sa.update(table).where(*at).values({name: value})).rowcount == 1

    def unknown(self, key: Key, name: str) -> Any:
        table = sa.table(key.table.name, *map(sa.column, [*key.columns(), name]))
        at = [table.c[column] == text for column, text in key.columns().items()]
        with self.engine.connect() as connection:
            return connection.execute(sa.select(table.c[name]).where(*at)).scalar_one()


class DynamoBackend:
    """Stores over one table, each with a client of its own."""

    def __init__(self, server: AwsServer) -> None:
        self.server = server
        self.table = f"leases-{uuid.uuid4().hex[:8]}"
        self.url: str | None = f"dynamodb://{self.table}"
        self.options: dict[str, Any] = {"endpoint_url": server.url}
        self.session = boto3.session.Session(ACCOUNT, SECRET, region_name=REGION)
        self.client = self._client()

    def _client(self) -> Any:
        # Two attempts: botocore itself sends a conditional write again after a lost answer.
        retries: Any = {"total_max_attempts": 2, "mode": "standard"}
        config = Config(retries=retries, max_pool_connections=40)
        return self.session.client("dynamodb", endpoint_url=self.server.url, config=config)

    def open(self, *, table: str | None = None, **options: Any) -> LeaseStore:
        return DynamoDBStore(self._client(), table or self.table, **options)

    def place(self) -> dict[str, Any]:
        return {"table": f"leases-{uuid.uuid4().hex[:8]}"}

    @contextlib.contextmanager
    def tap(self, store: LeaseStore, hook: Hook) -> Iterator[None]:
        assert isinstance(store, DynamoDBStore)
        session = store.client._endpoint.http_session  # type: ignore[attr-defined]
        send = session.send

        def tapped(request: Any) -> Any:
            operation = request.headers["X-Amz-Target"].decode().rpartition(".")[2]
            if operation not in ("UpdateItem", "DeleteItem"):
                return send(request)
            try:
                hook("before")
                answer = send(request)
                hook("after")
            except TimeoutError as error:
                raise ReadTimeoutError(endpoint_url=request.url, error=error) from error
            return answer

        session.send = tapped
        yield
        session.send = send

    def set_unknown(self, key: Key, name: str, value: str) -> None:
        self.client.update_item(
            TableName=self.table,
            Key=self._address(key),
            UpdateExpression="SET #n = :v",
            ConditionExpression="attribute_exists(pk)",
            ExpressionAttributeNames={"#n": name},
            ExpressionAttributeValues={":v": {"S": value}},
        )

    def unknown(self, key: Key, name: str) -> Any:
        item = self.client.get_item(TableName=self.table, Key=self._address(key), ConsistentRead=True)["Item"]
        return item[name]["S"]

    def _address(self, key: Key) -> dict[str, Any]:
        return {"pk": {"S": str(key.namespace)}, "sk": {"S": "#".join((key.table.name, *key.values))}}


def made(request: pytest.FixtureRequest, folder: Path) -> Any:
    """The backend that a fixture's parameter names."""
    if request.param == "memory":
        return MemoryBackend()
    if request.param == "sqlite":
        return SqlBackend(f"sqlite:///{folder / 'leases.db'}")
    if request.param in ("dynalite", "ministack"):
        return DynamoBackend(request.getfixturevalue(request.param))
    server = "mysql_server" if request.param == "mysql" else "postgres_server"
    return SqlBackend(request.getfixturevalue(server).create_database(f"leases-{uuid.uuid4().hex[:8]}"))
