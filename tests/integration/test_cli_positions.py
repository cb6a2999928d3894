# SPDX-License-Identifier: Apache-2.0
"""``airflow shardbatch positions`` and its operators: a token of Bloop becomes an application that runs, and goes back.

Both ways in are tried on the same stream, over lease stores of their own.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from shardbatch import DynamoDBStream, ExportPositionsOperator, ImportPositionsOperator, PositionsFormat, SQLLeases
from shardbatch.core.application import Application
from shardbatch.core.limits import ReadLimits
from shardbatch.core.policies import GapPolicy, Policies
from shardbatch.core.rows import APPLICATION, SHARD_LEASE, Namespace
from shardbatch.local import StreamServer
from shardbatch.stores.sql import SQLStore
from tests.integration.sources.dynamodb_world import TABLE, World, committed, rig_of
from tests.integration.sources.test_dynamodb_tokens import OLDEST, after, at, named, numbers, token_of
from tests.support.actions import run as run_task
from tests.support.aws import ACCOUNT, REGION, SECRET
from tests.support.rig import Rig

pytestmark = [pytest.mark.airflow]

WHERE = ("-a", "orders-etl", "-s", TABLE, "--format", "bloop", "--conn-id", "stream_aws")
STREAM = DynamoDBStream(TABLE, aws_conn_id="stream_aws", region_name=REGION)
NAMESPACE = Namespace("orders-etl", TABLE)
Call = Callable[..., tuple[Any, str, str]]


@pytest.fixture
def world() -> Iterator[World]:
    with StreamServer(region=REGION) as server:
        yield World(server, shards=2)


class Ways:
    """Both ways in."""

    def __init__(self, folder: Path, call: Call) -> None:
        self.stores = {way: SQLStore(f"sqlite:///{folder}/{way}.db") for way in ("command", "task")}
        self._folder, self._call = folder, call

    def bring(self, token: Any, *, preview: bool = False, start: str | None = None) -> Any:
        """What both answer to an import, which is the same: results and reasons by row, or an error."""
        file = self._folder / "token.json"
        file.write_text(token if isinstance(token, str) else json.dumps(token))
        words = (*(("--start", start) if start else ()), *(() if preview else ("--yes", "--reason", "moving")))
        code, out, _ = self._call("import", str(file), *words, "-o", "json")
        task = ImportPositionsOperator(
            task_id="import",
            app_name="orders-etl",
            stream=STREAM,
            leases=SQLLeases("leases_task"),
            reason="moving",
            preview=preview,
            format="bloop",
            positions=token,
            start=start,
        )
        pushed: dict[str, Any] = {}
        try:
            answer = run_task(task, pushed)["rows"]
        except AirflowFailException as error:
            answer = pushed["return_value"]["rows"] if pushed else f"{type(error).__name__}: {error}"
        found = json.loads(out) if out else str(code)
        assert answer == found
        assert self.rows("command") == self.rows("task")
        return found

    def export(self) -> tuple[Any, str]:
        """The token that both write, and what they say beside it."""
        code, out, err = self._call("export")
        task = ExportPositionsOperator(
            task_id="export",
            app_name="orders-etl",
            stream=STREAM,
            leases=SQLLeases("leases_task"),
            format=PositionsFormat.BLOOP,
        )
        answer = run_task(task)
        assert code == 0
        assert json.loads(json.dumps(answer)) == answer
        assert answer["format"] == "bloop"
        assert answer["positions"] == json.loads(out)
        said = [line for line in err.splitlines() if line.startswith(("lease ", "batch "))]  # Airflow logs there, too
        assert [line.split()[1] for line in said] == [f"{remark['name']}:" for remark in answer["remarks"]]
        return answer["positions"], "\n".join(said)

    def rows(self, way: str) -> list[Any]:
        unlike = {"note", "last_action", "lease_count", "tenure", "row_count", "staging", "committed_to"}
        store = self.stores[way]
        if store.pending():
            return []
        found = (row.columns() for table in (APPLICATION, SHARD_LEASE) for row in store.list(table, NAMESPACE))
        return [
            {name: value for name, value in columns.items() if name not in unlike and not name.endswith("_ms")}
            for columns in found
        ]

    def rig(self, way: str, world: World) -> Rig:
        rig = rig_of(self._folder / way, world)
        rig.folder.parent.mkdir(exist_ok=True)
        rig.app, rig.store = "orders-etl", self.stores[way]
        return rig


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: World) -> Call:
    """The program's own parser and commands, in this process: exit code, output, errors."""
    extra = {"endpoint_url": world.server.endpoint_url, "region_name": REGION}
    aws = {"conn_type": "aws", "login": ACCOUNT, "password": SECRET, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_STREAM_AWS", json.dumps(aws))
    for way in ("command", "task"):
        host = {"conn_type": "sqlite", "host": f"{tmp_path}/{way}.db"}
        monkeypatch.setenv(f"AIRFLOW_CONN_LEASES_{way.upper()}", json.dumps(host))
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__LEASES", "sql://leases_command")
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__DEPLOYMENT_ID", "prod")
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "")

    def run(command: str, *words: str) -> tuple[Any, str, str]:
        from airflow.cli.cli_parser import get_parser

        capsys.readouterr()
        code: Any = 0
        try:
            arguments = get_parser().parse_args(["shardbatch", "positions", command, *WHERE, *words])
            arguments.func(arguments)
        except SystemExit as left:
            code = left.code
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def ways(tmp_path: Path, call: Call) -> Iterator[Ways]:
    made = Ways(tmp_path, call)
    yield made
    for store in made.stores.values():
        store.close()


def results(found: Any) -> set[str]:
    return {row["result"] for row in found}


def test_a_token_becomes_an_application_that_runs_and_is_written_again(world: World, ways: Ways, call: Call) -> None:
    sent = world.put(*"abcdefgh")
    one, two = world.shards()
    world.split(one)
    sent += world.put(*"abcdefgh")
    token = token_of(world, [one, two], **{one: after(numbers(world, one)[0]), two: at(numbers(world, two)[1])})

    assert results(ways.bring(token, preview=True)) == {"would import"}
    assert ways.rows("command") == []
    assert "StoreNotFound" in call("export")[0]
    assert results(ways.bring(token)) == {"imported"}
    assert results(ways.bring(token)) == {"already"}
    assert ways.export() == (token, "")

    read: dict[str, list[str]] = {}
    for way in ("command", "task"):
        rig = ways.rig(way, world)
        rig.run("short", limits=ReadLimits(records=1))
        assert committed(rig)
    written, said = ways.export()
    assert said == ""
    assert written != token
    for way in ("command", "task"):
        rig = ways.rig(way, world)
        for number in range(3):
            rig.run(f"r{number}")
        read[way] = committed(rig)
    unread = set(sent) - {named(world, one)[0], named(world, two)[0]}
    assert sorted(read["command"]) == sorted(read["task"]) == sorted(unread)
    assert "does not stand where the token does" in ways.bring(token)


def test_what_is_wrong_with_a_token_is_said_alike_and_nothing_is_written(world: World, ways: Ways) -> None:
    world.put(*"abcdefgh")
    one, two = world.shards()
    fit = token_of(world, [one, two], **{one: OLDEST, two: OLDEST})
    number = numbers(world, two)[0]
    for token, words in (
        ("{", "InvalidToken: The positions are not JSON"),
        ({**fit, "active": ["Z"], "shards": []}, "InvalidToken: .* active names Z, which shards does not have"),  # BV-5
        ({**fit, "active": ["Z"], "shards": [{"shard_id": "Z"}]}, "InvalidStream: No shard of the token"),  # BV-5
        ({**fit, "stream_arn": fit["stream_arn"][:-1] + "9"}, "InvalidStream: The token is of the stream"),  # B-19
    ):
        found = ways.bring(token)
        assert re.search(words, str(found)), found
    (left,) = ways.bring(token_of(world, [one, two], **{one: after(number), two: after(number)}))
    assert (left["name"], left["result"]) == (one, "left")
    assert "does not belong to this shard" in left["why"]
    (left,) = ways.bring({**fit, "active": [one]})
    assert "no run would read on there" in left["why"]
    assert ways.rows("command") == []


def test_latest_is_warned_of_and_a_start_takes_its_place(world: World, ways: Ways) -> None:  # B-16
    world.put(*"abcdefgh")
    one, two = world.shards()
    token = token_of(world, [one, two], **{one: {"iterator_type": "LATEST"}, two: OLDEST})
    effects = {row["name"]: row["effect"] for row in ways.bring(token, preview=True, start="TRIM_HORIZON")}
    assert effects[one] == "the token has latest, which is not a place: from TRIM_HORIZON on"
    assert "not a fixed place" in ways.bring(token, start="latest")
    assert results(ways.bring(token, start="2026-11-28T00:00:00+00:00")) == {"imported"}


def test_records_that_expired_behind_the_token_are_a_gap(world: World, ways: Ways) -> None:  # B-18
    world.put(*"abcdefgh")
    one, two = world.shards()
    token = token_of(world, [one, two], **{one: after(numbers(world, one)[0]), two: OLDEST})
    world.trim(one, keep=1)
    effects = {row["name"]: row["effect"] for row in ways.bring(token)}
    assert "has expired: what else has, becomes a gap" in effects[one]
    for way in ("command", "task"):
        rig = ways.rig(way, world)
        assert rig.run("r1", policies=Policies(gap=GapPolicy.RECORD)).gaps == 1


def test_what_a_token_cannot_say_stands_beside_it(world: World, ways: Ways) -> None:
    world.put(*"abcdefgh")
    one, two = world.shards()
    ways.bring(token_of(world, [one, two], **{one: OLDEST, two: OLDEST}))
    for way in ("command", "task"):
        rig = ways.rig(way, world)
        rig.land("r1", rig.claim("r1"))
    token, said = ways.export()
    assert {shard["iterator_type"] for shard in token["shards"]} == {"trim_horizon"}
    assert said.count("landed and not committed") == 2
    assert f"lease {one}: read again: " in said


def test_a_token_goes_through_files_and_pipes(
    world: World, ways: Ways, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put("a")
    token = token_of(world, world.shards(), **dict.fromkeys(world.shards(), OLDEST))
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(token)))
    assert call("import", "-", "--yes", "--reason", "moving")[0] == 0
    file = tmp_path / "out.json"
    file.write_text("before")
    assert call("export", "--file", str(file))[:2] == (0, "")
    assert json.loads(file.read_text()) == token
    assert json.loads(call("export")[1]) == token
    code, out, _ = call("export", "--file", str(tmp_path / "none" / "out.json"))
    assert "ConfigurationError" in code
    assert out == ""
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".json") == ["out.json"]
    assert "none.json cannot be read" in call("import", str(tmp_path / "none.json"))[0]


def test_a_stream_that_is_not_of_a_table_has_no_token(world: World, ways: Ways, call: Call) -> None:
    ways.bring(token_of(world, world.shards(), **dict.fromkeys(world.shards(), OLDEST)))
    store = ways.stores["command"]
    (row,) = store.list(APPLICATION, NAMESPACE)
    assert isinstance(row, Application)
    other = replace(row.acted("x"), stream_id="arn:aws:kinesis:eu-west-1:123456789012:stream/orders@1")
    assert store.replace(row, other)
    assert "Bloop reads streams of DynamoDB tables only" in str(call("export")[0])
