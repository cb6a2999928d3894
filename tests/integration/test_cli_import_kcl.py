# SPDX-License-Identifier: Apache-2.0
"""``airflow shardbatch import-kcl`` from a table of KCL's in DynamoDB, for a stream, into leases in SQLite."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shardbatch.local import StreamServer
from tests.support.aws import ACCOUNT, REGION, SECRET, AwsServer
from tests.support.kcl import Worker, item_2, item_3, make_table

pytestmark = [pytest.mark.airflow]

FIRST, SECOND = "shardId-000000000000", "shardId-000000000001"
Run = Callable[..., tuple[Any, Any, str]]


@pytest.fixture(scope="module")
def streams() -> Iterator[StreamServer]:
    with StreamServer() as started:
        yield started


@pytest.fixture
def stream(streams: StreamServer, unique_name: str) -> str:
    client = AwsServer("local", streams.endpoint_url).client("kinesis")
    with contextlib.closing(client):
        client.create_stream(StreamName=unique_name, ShardCount=2)
    return unique_name


@pytest.fixture
def run(
    stream: str,
    streams: StreamServer,
    dynalite: AwsServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """The program's own parser and commands, in this process: exit code, output, errors."""
    services = {"kinesis": {"endpoint_url": streams.endpoint_url}, "dynamodb": {"endpoint_url": dynalite.url}}
    aws = {"conn_type": "aws", "login": ACCOUNT, "password": SECRET, "extra": {"service_config": services}}
    monkeypatch.setenv("AIRFLOW_CONN_KCL_AWS", json.dumps(aws))
    monkeypatch.setenv("AIRFLOW_CONN_LEASES_DB", json.dumps({"conn_type": "sqlite", "host": f"{tmp_path}/leases.db"}))
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__LEASES", "sql://leases_db")
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "")

    def call(command: str, *words: str) -> tuple[Any, Any, str]:
        from airflow.cli.cli_parser import get_parser

        where = ("-a", "orders-etl", "-s", stream, "-o", "json")
        capsys.readouterr()
        code: Any = 0
        try:
            arguments = get_parser().parse_args(["shardbatch", command, *where, *words])
            arguments.func(arguments)
        except SystemExit as left:
            code = left.code
        printed = capsys.readouterr()
        return code, json.loads(printed.out or "null"), printed.err

    return call


def results(found: Any) -> dict[str, str]:
    return {item["name"]: item["result"] for item in found}


def test_kcl_leases_are_previewed_imported_and_shown(run: Run, stream: str, dynalite: AwsServer) -> None:
    table = f"{stream}-kcl"
    make_table(dynalite.client("dynamodb"), table, item_3(FIRST, "TRIM_HORIZON", owner="w1"), item_2(SECOND, "LATEST"))
    given = ("--table", table, "--conn-id", "kcl_aws", "--region", REGION)

    code, found, told = run("import-kcl", *given)
    assert (code, results(found)) == (
        3,
        {f"orders-etl/{stream}": "would import", FIRST: "would import", SECOND: "left"},
    )
    assert "--yes" in told
    assert [item["owner"] for item in found] == ["", "w1", ""]

    code, found, told = run("import-kcl", *given, "--yes", "--reason", "leaving KCL", "--watch", "0.5")
    assert (code, results(found)) == (3, {SECOND: "left"})
    code, _, _ = run("status")
    assert "no application" in str(code)

    chosen = (*given, "--start", "2026-11-28T00:00:00+00:00", "--yes", "--reason", "leaving KCL")
    with Worker(dynalite.client("dynamodb"), table, FIRST, every=0.2):
        code, found, _ = run("import-kcl", *chosen, "--watch", "6")
    assert "WorkersAlive" in str(code)
    assert f"{FIRST} was written by w1" in str(code)

    code, found, told = run("import-kcl", *chosen, "--watch", "0.5")
    assert (code, set(results(found).values())) == (0, {"imported"})
    assert "Watching 2 leases of KCL " in told
    code, shards, _ = run("shards")
    assert {item["shard_id"]: item["checkpoint"] for item in shards} == {
        FIRST: "TRIM_HORIZON",
        SECOND: "AT_TIMESTAMP:1795824000000",
    }
    code, status, _ = run("status")
    assert "imported 2 leases of the KCL table" in status["last_action"]
    assert run("import-kcl", *chosen)[0] == 0  # done already, and not watched again


def test_what_cannot_be_read_is_one_line(run: Run, stream: str) -> None:
    code, _, _ = run("import-kcl", "--table", f"{stream}-none", "--conn-id", "kcl_aws", "--region", REGION)
    assert "ConfigurationError: There is no DynamoDB table" in str(code)
    code, _, _ = run("import-kcl", "--table", "t-kcl", "--start", "LATEST")
    assert "cannot go to LATEST" in str(code)
