# SPDX-License-Identifier: Apache-2.0
"""Servers as pytest fixtures: one of each for a test process, started by the first test that asks for it."""

from __future__ import annotations

import importlib.util
import uuid
from collections.abc import Iterator

import pytest

from tests.support import dynamodb, kinesis, moto, mysql, ports, postgres
from tests.support.aws import AwsServer
from tests.support.kinesis import KinesisServer
from tests.support.mysql import MysqlServer
from tests.support.postgres import PostgresServer

#: Of each AWS service one emulator is played by `make test`; these are the second ones.
SECOND_EMULATORS = ("dynalite", "kinesalite")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What runs on a second emulator is played by `make test-long`."""
    for item in items:
        if any(name in item.name for name in SECOND_EMULATORS):
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def kinesis_local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KinesisServer]:
    """Shared: use `unique_name` for streams, and set the clock back if you moved it."""
    with kinesis.kinesis_local(tmp_path_factory.mktemp("kinesis-local")) as server:
        yield server


@pytest.fixture(scope="session")
def kinesalite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KinesisServer]:
    """Shared: use `unique_name` for streams, and set the clock back if you moved it."""
    with kinesis.kinesalite(tmp_path_factory.mktemp("kinesalite")) as server:
        yield server


@pytest.fixture(scope="session")
def dynalite() -> Iterator[AwsServer]:
    with dynamodb.dynalite() as server:
        yield server


@pytest.fixture(scope="session")
def ministack() -> Iterator[AwsServer]:
    with dynamodb.ministack_server() as server:
        yield server


@pytest.fixture(scope="session")
def moto_server() -> Iterator[AwsServer]:
    with moto.moto_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with postgres.postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def mysql_server() -> Iterator[MysqlServer]:
    """Skips the test where no such server, or no driver for it, is installed."""
    program = mysql.program()
    if program is None or importlib.util.find_spec("pymysql") is None:
        pytest.skip(mysql.ABSENT)
    with mysql.mysql_server(program) as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, unique_name: str) -> str:
    """The SQLAlchemy URL of an empty database of the test's own."""
    return postgres_server.create_database(unique_name)


@pytest.fixture
def unique_name() -> str:
    """A name that no other test has: for streams, tables, buckets, databases, applications."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def free_port() -> int:
    return ports.free_port()
