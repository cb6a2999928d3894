# SPDX-License-Identifier: Apache-2.0
"""The test servers themselves: each answers on loopback only, ends with its block, and has the trait it is used for."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
import sqlalchemy
from botocore.exceptions import ClientError

from tests.support import kinesis
from tests.support.aws import AwsServer
from tests.support.kinesis import KinesisServer
from tests.support.postgres import PostgresServer
from tests.support.server import ServerDiedError, running
from tests.support.waiting import wait_until

KINESIS = ["kinesis_local", "kinesalite"]
DYNAMODB = ["dynalite", "ministack"]


@pytest.fixture
def kinesis_server(request: pytest.FixtureRequest) -> KinesisServer:
    server: KinesisServer = request.getfixturevalue(request.param)
    return server


@pytest.fixture
def dynamodb_server(request: pytest.FixtureRequest) -> AwsServer:
    server: AwsServer = request.getfixturevalue(request.param)
    return server


def active(client: Any, stream: str) -> Callable[[], bool]:
    return lambda: bool(
        client.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE"
    )


@pytest.mark.parametrize("kinesis_server", KINESIS, indirect=True)
def test_an_iterator_expires_when_the_clock_is_moved_ahead(kinesis_server: KinesisServer, unique_name: str) -> None:
    client = kinesis_server.client("kinesis", attempts=1)
    client.create_stream(StreamName=unique_name, ShardCount=1)
    wait_until(active(client, unique_name), 10, "the stream to be active")
    shard = client.list_shards(StreamName=unique_name)["Shards"][0]["ShardId"]
    iterator = client.get_shard_iterator(StreamName=unique_name, ShardId=shard, ShardIteratorType="TRIM_HORIZON")
    try:
        client.get_records(ShardIterator=iterator["ShardIterator"])
        kinesis_server.advance(timedelta(minutes=6))
        with pytest.raises(ClientError) as raised:
            client.get_records(ShardIterator=iterator["ShardIterator"])
    finally:
        kinesis_server.advance(timedelta(0))
    assert raised.value.response["Error"]["Code"] == "ExpiredIteratorException"


def test_kinesalite_trims_what_is_older_than_the_retention(kinesalite: KinesisServer, unique_name: str) -> None:
    client = kinesalite.client("kinesis")
    client.create_stream(StreamName=unique_name, ShardCount=1)
    wait_until(active(client, unique_name), 10, "the stream to be active")
    client.put_record(StreamName=unique_name, PartitionKey="a", Data=b"old")
    shard = client.list_shards(StreamName=unique_name)["Shards"][0]["ShardId"]

    def records() -> list[bytes]:
        iterator = client.get_shard_iterator(StreamName=unique_name, ShardId=shard, ShardIteratorType="TRIM_HORIZON")
        return [each["Data"] for each in client.get_records(ShardIterator=iterator["ShardIterator"])["Records"]]

    assert records() == [b"old"]
    try:
        kinesalite.advance(timedelta(hours=25))
        client.put_record(StreamName=unique_name, PartitionKey="a", Data=b"new")
        wait_until(lambda: records() == [b"new"], 10, "the old record to be trimmed")
    finally:
        kinesalite.advance(timedelta(0))


@pytest.mark.parametrize("dynamodb_server", DYNAMODB, indirect=True)
def test_conditional_writes_have_one_winner(dynamodb_server: AwsServer, unique_name: str) -> None:
    client = dynamodb_server.client("dynamodb")
    client.create_table(
        TableName=unique_name,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    client.get_waiter("table_exists").wait(TableName=unique_name, WaiterConfig={"Delay": 1, "MaxAttempts": 20})

    def wins(writer: int) -> bool:
        own = dynamodb_server.client("dynamodb")
        item = {"pk": {"S": "one"}, "writer": {"N": str(writer)}}
        try:
            own.put_item(TableName=unique_name, Item=item, ConditionExpression="attribute_not_exists(pk)")
        except own.exceptions.ConditionalCheckFailedException:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(wins, range(8))) == 1


def test_moto_keeps_objects(moto_server: AwsServer, unique_name: str) -> None:
    client = moto_server.client("s3")
    client.create_bucket(Bucket=unique_name, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    client.put_object(Bucket=unique_name, Key="a", Body=b"x", IfNoneMatch="*")
    with pytest.raises(ClientError) as raised:
        client.put_object(Bucket=unique_name, Key="a", Body=b"y", IfNoneMatch="*")
    assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 412


def test_every_test_has_a_postgres_database_of_its_own(postgres_url: str, unique_name: str) -> None:
    engine = sqlalchemy.create_engine(postgres_url)
    with engine.begin() as connection:
        assert connection.scalar(sqlalchemy.text("select current_database()")) == unique_name
        assert connection.scalar(sqlalchemy.text("show server_encoding")) == "UTF8"
    engine.dispose()


def test_the_servers_listen_on_loopback_only(
    kinesis_local: KinesisServer,
    kinesalite: KinesisServer,
    dynalite: AwsServer,
    ministack: AwsServer,
    moto_server: AwsServer,
    postgres_server: PostgresServer,
) -> None:
    ports = [int(each.url.rsplit(":", 1)[1]) for each in (kinesis_local, kinesalite, dynalite, ministack, moto_server)]
    addresses: dict[int, set[str]] = {port: set() for port in (*ports, postgres_server.port)}
    ours = {os.getpid(), *(each.pid for each in psutil.Process().children(recursive=True))}
    for each in ours:
        with contextlib.suppress(psutil.NoSuchProcess):  # a worker of PostgreSQL may have ended since it was listed
            for found in psutil.Process(each).net_connections(kind="inet"):
                if found.status == psutil.CONN_LISTEN:
                    addresses.setdefault(found.laddr.port, set()).add(found.laddr.ip)
    assert all(addresses[port] for port in (*ports, postgres_server.port))
    assert set().union(*addresses.values()) <= {"127.0.0.1", "::1"}


def test_a_server_is_gone_after_its_block(tmp_path: Path) -> None:
    with kinesis.kinesalite(tmp_path) as server:
        port = int(server.url.rsplit(":", 1)[1])
        socket.create_connection(("127.0.0.1", port), 5).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5)


def test_a_server_is_gone_when_its_test_run_was_killed(tmp_path: Path) -> None:
    program = f"""
import pathlib, signal, os
from tests.support import kinesis
with kinesis.kinesalite(pathlib.Path({str(tmp_path)!r})) as server:
    print(server.url.rsplit(":", 1)[1], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False)
    port = int(done.stdout)

    def refused() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
        except ConnectionRefusedError:
            return True
        return False

    wait_until(refused, 15, "the server to end")


def test_a_server_that_dies_at_once_tells_its_last_words() -> None:
    command: list[str | Path] = [sys.executable, "-c", "import sys; sys.exit('no such port')"]
    with (
        pytest.raises(ServerDiedError, match="no such port"),
        running(command, lambda: socket.create_connection(("127.0.0.1", 9), 1)),
    ):
        raise AssertionError("the block must not be entered")
