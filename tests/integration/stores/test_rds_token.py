# SPDX-License-Identifier: Apache-2.0
"""A connection with ``iam``: each new connection of the database signs in with a token of its own."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import sqlalchemy as sa

from shardbatch import SQLLeases
from shardbatch.stores.sql import SQLStore
from tests.support.mysql import MysqlServer
from tests.support.ports import LOOPBACK
from tests.support.postgres import USER, PostgresServer
from tests.support.waiting import wait_until

CLEARTEXT = struct.pack("!cII", b"R", 8, 3)


class Door:
    """Stands before a PostgreSQL that trusts everyone, asks for a password in its place, and keeps what it is told."""

    def __init__(self, server: PostgresServer) -> None:
        self.passwords: list[str] = []
        self._upstream = (LOOPBACK, server.port)
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(self._upstream) as server:
            startup = _packet(client, b"")
            client.sendall(CLEARTEXT)
            self.passwords.append(_packet(client, _exactly(client, 1))[5:-1].decode())
            server.sendall(startup)
            threading.Thread(target=_copy, args=(server, client), daemon=True).start()
            _copy(client, server)


def _exactly(source: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count:
        piece = source.recv(count - len(got))
        if not piece:
            raise OSError("the other side is gone")
        got += piece
    return got


def _packet(source: socket.socket, kind: bytes) -> bytes:
    length = _exactly(source, 4)
    return kind + length + _exactly(source, struct.unpack("!I", length)[0] - 4)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@pytest.fixture
def door(postgres_server: PostgresServer) -> Iterator[Door]:
    door = Door(postgres_server)
    yield door
    door.close()


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def make(conn_id: str, **fields: Any) -> None:
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))

    return make


@contextmanager
def opened() -> Iterator[SQLStore]:
    store = SQLLeases("leases").open()
    assert isinstance(store, SQLStore)
    try:
        yield store
    finally:
        store.close()


def test_every_connection_signs_in_with_a_token_of_its_own(
    door: Door, postgres_url: str, connection: Callable[..., None]
) -> None:
    database = postgres_url.rpartition("/")[2]
    connection("aws_rds", conn_type="aws", login="AKIDRDS", password="hidden", extra={"region_name": "eu-west-1"})
    connection(
        "leases", conn_type="postgres", host=LOOPBACK, port=door.port, login=USER, password="old", schema=database,
        extra={"iam": True, "aws_conn_id": "aws_rds", "sslmode": "disable"},
    )  # fmt: skip
    with opened() as store:
        store.prepare()
        assert len(door.passwords) == 1
        second = int(time.time())
        wait_until(lambda: int(time.time()) > second, 5, "the next second, by which a token is signed")
        with store.engine.connect(), store.engine.connect() as another:  # the pool has one
            assert another.exec_driver_sql("SELECT 1").scalar() == 1
    first, *later = door.passwords
    assert len(later) == 1
    for token in door.passwords:
        assert token.startswith(f"{LOOPBACK}:{door.port}/?Action=connect&DBUser={USER}&")
        assert "AKIDRDS" in token
    assert later != [first]
    assert "Signature" not in repr(store)


@pytest.mark.long
def test_a_driver_of_mysql_takes_the_password_that_is_given_for_a_connection(
    mysql_server: MysqlServer, unique_name: str
) -> None:
    url = sa.make_url(mysql_server.create_database(unique_name))
    asked: list[str] = []

    def password() -> str:
        asked.append(str(url.password))
        return asked[-1]

    store = SQLStore(
        sa.URL.create(url.drivername, url.username, host=url.host, port=url.port, database=url.database),
        password=password,
    )
    store.prepare()
    with store.engine.connect(), store.engine.connect() as another:
        assert another.exec_driver_sql("SELECT 1").scalar() == 1
    store.close()
    assert len(asked) == 2
