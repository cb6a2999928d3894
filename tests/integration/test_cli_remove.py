# SPDX-License-Identifier: Apache-2.0
"""``airflow shardbatch remove`` on a stream of the local server: rows, staging and the consumer of fan-out go."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shardbatch import KinesisStream
from shardbatch.core.policies import Outputs
from shardbatch.core.ports import SYSTEM_CLOCK
from shardbatch.errors import ApplicationRemoved, ShardbatchError
from shardbatch.local import StreamServer
from shardbatch.sources.kinesis.options import FanOut
from shardbatch.sources.kinesis.registration import consumer_name
from shardbatch.stores.sql import SQLStore
from tests.support.aws import ACCOUNT, REGION, SECRET, AwsServer
from tests.support.metadata import Metadata
from tests.support.rig import Rig

pytestmark = [pytest.mark.airflow]


@pytest.fixture(scope="module")
def server() -> Iterator[StreamServer]:
    with StreamServer(region=REGION) as started:
        yield started


class World:
    """A stream, its client, and applications on it in one lease store and one staging folder."""

    def __init__(self, client: Any, name: str, folder: Path) -> None:
        self.client, self.name, self.folder = client, name, folder
        client.create_stream(StreamName=name, ShardCount=1)
        self.arn = client.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamARN"]
        self.store = SQLStore(f"sqlite:///{folder}/leases.db")
        self.store.prepare()
        self.opened: list[Any] = []

    def put(self, *keys: str) -> None:
        for key in keys:
            self.client.put_record(StreamName=self.name, PartitionKey=key, Data=key.encode())

    def consumers(self) -> list[str]:
        listed = self.client.list_stream_consumers(StreamARN=self.arn)["Consumers"]
        return sorted(one["ConsumerName"] for one in listed if one["ConsumerStatus"] != "DELETING")

    def rig(self, app: str, fan_out: FanOut = FanOut.NEVER) -> Rig:
        """An application; one that does not read by fan-out itself has a consumer of a run that died."""
        if fan_out is FanOut.NEVER and consumer_name(app) not in self.consumers():
            self.client.register_stream_consumer(StreamARN=self.arn, ConsumerName=consumer_name(app))
        stream = KinesisStream(stream_arn=self.arn, aws_conn_id="stream_aws", fan_out=fan_out)
        source = stream.open(app, timedelta(minutes=5))
        self.opened.append(source)
        named: Any = SimpleNamespace(name=self.name, now_ms=1 << 50)
        options = {"source": source, "clock": SYSTEM_CLOCK, "outputs": Outputs(shared=True)}
        return Rig(self.folder / "staging", named, self.store, app=app, options=options)

    def files(self, app: str) -> list[Path]:
        return [path for path in (self.folder / "staging" / app).rglob("*") if path.is_file()]

    def close(self) -> None:
        for one in (*self.opened, self.store):
            one.close()


@pytest.fixture
def world(server: StreamServer, unique_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    extra = {"endpoint_url": server.endpoint_url, "region_name": REGION}
    aws = {"conn_type": "aws", "login": ACCOUNT, "password": SECRET, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_STREAM_AWS", json.dumps(aws))
    monkeypatch.setenv("AIRFLOW_CONN_STORE", json.dumps({"conn_type": "sqlite", "host": f"{tmp_path}/leases.db"}))
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__DEPLOYMENT_ID", "here")
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "")
    with contextlib.closing(AwsServer("local", server.endpoint_url).client("kinesis")) as client:
        made = World(client, unique_name, tmp_path)
        yield made
        made.close()


@pytest.fixture
def call(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Any, list[dict[str, Any]], str]]:
    """The program's own parser and command, in this process: exit code, rows, errors."""
    from airflow import settings

    metadata = Metadata(tmp_path)
    monkeypatch.setattr(settings, "Session", metadata.session)
    metadata.create()
    metadata.run("dag", "r1", "success")
    metadata.run("dag", "r2", "running")

    def run(app: str, *words: str) -> tuple[Any, list[dict[str, Any]], str]:
        from airflow.cli.cli_parser import get_parser

        where = ("-a", app, "-s", world.name, "-l", "sql://store", "--staging", str(world.folder / "staging"))
        capsys.readouterr()
        code: Any = 0
        try:
            given = ["shardbatch", "remove", *where, "--conn-id", "stream_aws", "-o", "json", *words]
            arguments = get_parser().parse_args(given)
            arguments.func(arguments)
        except SystemExit as left:
            code = left.code
        printed = capsys.readouterr()
        return code, json.loads(printed.out) if printed.out else [], printed.err

    return run


ACT = ("--yes", "--reason", "not needed")


def test_rows_files_and_the_consumer_go_and_those_of_another_application_stay(
    world: World, call: Callable[..., Any]
) -> None:
    world.put("a", "b", "c")
    rig, other = world.rig("etl", FanOut.ALWAYS), world.rig("other")
    for one in (rig, other):
        assert one.run("r1").records == 3
    assert world.consumers() == [consumer_name("etl"), consumer_name("other")]
    read, beside, kept = rig.sink(), world.files("other"), other.batches()

    code, rows, err = call("etl")
    assert (code, "This is a preview" in err) == (0, True)
    assert {row["result"] for row in rows} == {"would remove"}
    size = sum(path.stat().st_size for path in world.files("etl"))
    assert sum(row.get("bytes", 0) for row in rows) == size
    assert [row["name"] for row in rows if row["kind"] == "consumer"] == [consumer_name("etl")]
    assert len(world.consumers()) == 2

    code, done, _ = call("etl", *ACT)
    assert (code, {row["result"] for row in done}) == (0, {"removed"})
    assert [(row["kind"], row["number"], row["bytes"]) for row in done] == [
        (row["kind"], row["number"], row["bytes"]) for row in rows
    ]
    assert world.files("etl") == []
    assert world.consumers() == [consumer_name("other")]
    assert (world.files("other"), other.batches()) == (beside, kept)
    assert rig.sink() == read
    with pytest.raises(ApplicationRemoved, match="not needed"):
        rig.claim("r3")
    assert call("etl", *ACT)[1][0]["result"] == "already"
    assert call("etl", "--free-name", *ACT)[0] == 0
    world.put("d")
    assert world.rig("etl").run("r4").records == 4


def test_a_run_at_work_is_left_alone_with_exit_code_3(world: World, call: Callable[..., Any]) -> None:
    world.put("a")
    rig = world.rig("etl")
    rig.land("r2", rig.claim("r2"))
    code, rows, _ = call("etl", "--discard", *ACT)
    assert (code, [row["result"] for row in rows]) == (3, ["left"])
    assert "it is at work" in rows[0]["why"]
    assert rig.freeze("r2").record_count == 1


def test_a_stream_that_is_out_of_reach_leaves_only_the_consumer(
    world: World, call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put("a")
    world.rig("etl").run("r1")
    code, rows, _ = call("etl", "--conn-id", "unknown", *ACT)
    assert (code, [row["kind"] for row in rows if row["result"] == "left"]) == (3, ["consumer"])
    assert world.files("etl") == []
    assert world.consumers() == [consumer_name("etl")]
    code, rows, _ = call("etl", *ACT)
    assert (code, world.consumers()) == (0, [])


def test_a_stream_that_is_gone_has_no_consumer_left(world: World, call: Callable[..., Any]) -> None:
    world.put("a")
    world.rig("etl").run("r1")
    world.client.delete_stream(StreamName=world.name, EnforceConsumerDeletion=True)
    code, rows, err = call("etl", *ACT)
    assert (code, {row["result"] for row in rows}) == (0, {"removed"}), err
    assert "consumer" not in {row["kind"] for row in rows}


def test_a_service_that_refuses_is_said_and_nothing_is_swallowed(world: World, server: StreamServer) -> None:
    stream = KinesisStream(stream_arn=world.arn, aws_conn_id="stream_aws")
    found = stream.registered("etl")
    assert not found.stands()
    assert not found.take_away()
    world.client.register_stream_consumer(StreamARN=world.arn, ConsumerName=found.name)
    assert found.stands()
    assert found.take_away()
    with pytest.raises(ShardbatchError):
        KinesisStream(stream_arn=world.arn, aws_conn_id="unknown").registered("etl").stands()
