# SPDX-License-Identifier: Apache-2.0
"""``airflow shardbatch positions --format json`` on streams of Kinesis and of a table: a copy reads what is left."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shardbatch import ExportPositionsOperator, ImportPositionsOperator, KinesisStream, SQLLeases
from shardbatch.core.limits import ReadLimits
from shardbatch.core.ports import SYSTEM_CLOCK, Source
from shardbatch.hooks.addresses import stream_at
from shardbatch.local import StreamServer
from shardbatch.stores.sql import SQLStore
from tests.support.actions import run as run_task
from tests.support.aws import ACCOUNT, REGION, SECRET, AwsServer
from tests.support.rig import Rig

pytestmark = [pytest.mark.airflow]

Call = Callable[..., tuple[Any, str, str]]


@dataclass
class Stream:
    """A stream of some service, with its source and what puts records there."""

    name: str
    source: Source
    put: Callable[[str], Any]
    split: Callable[[], Any]


@pytest.fixture(scope="module")
def server() -> Iterator[StreamServer]:
    with StreamServer(region=REGION) as started:
        yield started


def opened(arn: str) -> Source:
    """Its source, as the command line opens it, of one record a page."""
    stream: Any = stream_at(arn, "stream_aws", None)
    source: Source = replace(stream, page_records=1).open()
    return source


@pytest.fixture(params=["kinesis", "dynamodb"])
def stream(
    request: pytest.FixtureRequest, server: StreamServer, unique_name: str, connections: None
) -> Iterator[Stream]:
    aws = AwsServer("local", server.endpoint_url)
    if request.param == "kinesis":
        with contextlib.closing(aws.client("kinesis")) as client:
            client.create_stream(StreamName=unique_name, ShardCount=2)
            arn = client.describe_stream_summary(StreamName=unique_name)["StreamDescriptionSummary"]["StreamARN"]
            source = opened(arn)
            yield Stream(
                unique_name,
                source,
                lambda key: client.put_record(StreamName=unique_name, PartitionKey=key, Data=key.encode()),
                lambda: client.update_shard_count(
                    StreamName=unique_name, TargetShardCount=4, ScalingType="UNIFORM_SCALING"
                ),
            )
    else:
        arn = server.tables.create(unique_name, {"id": "S"}, view="KEYS_ONLY", shards=2, region=REGION)
        source = opened(arn)
        yield Stream(
            unique_name,
            source,
            lambda key: server.tables.fill(unique_name, [{"id": {"S": key}}], region=REGION),
            lambda: server.tables.split(unique_name, None, region=REGION),
        )
    source.close()


@pytest.fixture
def connections(tmp_path: Path, server: StreamServer, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"endpoint_url": server.endpoint_url, "region_name": REGION}
    aws = {"conn_type": "aws", "login": ACCOUNT, "password": SECRET, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_STREAM_AWS", json.dumps(aws))
    for name in ("first", "second"):
        host = {"conn_type": "sqlite", "host": f"{tmp_path}/{name}.db"}
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(host))
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__DEPLOYMENT_ID", "prod")
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "")


@pytest.fixture
def call(stream: Stream, capsys: pytest.CaptureFixture[str]) -> Call:
    """The program's own parser and commands, in this process: exit code, output, errors."""

    def run(command: str, app: str, store: str, *words: str, name: str = "") -> tuple[Any, str, str]:
        from airflow.cli.cli_parser import get_parser

        where = ("-a", app, "-s", name or stream.name, "-l", f"sql://{store}", "--conn-id", "stream_aws")
        capsys.readouterr()
        code: Any = 0
        try:
            given = ["shardbatch", "positions", command, *where, "--format", "json", *words]
            arguments = get_parser().parse_args(given)
            arguments.func(arguments)
        except SystemExit as left:
            code = left.code
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def rig(stream: Stream, tmp_path: Path) -> Iterator[Callable[[str, str], Rig]]:
    """An application in one of the stores, on the stream as it is."""
    with contextlib.ExitStack() as opened:

        def made(app: str, store: str) -> Rig:
            folder = tmp_path / f"{app}-{store}"
            folder.mkdir(exist_ok=True)
            leases = opened.enter_context(contextlib.closing(SQLStore(f"sqlite:///{tmp_path}/{store}.db")))
            leases.prepare()
            named: Any = SimpleNamespace(name=stream.name, now_ms=1 << 50)
            options = {"source": stream.source, "clock": SYSTEM_CLOCK}
            return Rig(folder / "staging", named, leases, app=app, options=options)

        yield made


def drained(rig: Rig, more: int = 3) -> Counter[str]:
    for number in range(more):
        rig.run(f"last{number}")
    return Counter(rig.committed())


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(("copy", "first"), id="cloned", marks=pytest.mark.long),
        pytest.param(("etl", "second"), id="moved"),
    ],
)
def test_a_copy_reads_what_is_left(
    stream: Stream, call: Call, rig: Callable[[str, str], Rig], tmp_path: Path, target: tuple[str, str]
) -> None:
    for number in range(4):
        stream.put(f"a{number}")
    first = rig("etl", "first")
    first.run("r1", limits=ReadLimits(records=1))
    before = Counter(first.committed())
    assert 0 < before.total() < 4
    stream.split()
    for number in range(4):
        stream.put(f"b{number}")
    file = tmp_path / "orders.json"
    code, out, err = call("export", "etl", "first", "--file", str(file))
    assert (code, out) == (0, ""), err
    text = file.read_text()
    assert json.loads(text)["stream"] == stream.source.identity()

    code, _, err = call("import", *target, str(file), "-o", "json")
    assert (code, "This is a preview" in err) == (0, True)
    second = rig(*target)
    assert second.consumer().application() is None
    act = ("--yes", "--reason", "moving", "-o", "json")
    code, out, _ = call("import", *target, str(file), *act)
    assert (code, {row["result"] for row in json.loads(out)}) == (0, {"imported"})
    code, out, _ = call("import", *target, str(file), *act)
    assert (code, {row["result"] for row in json.loads(out)}) == (0, {"already"})

    its = drained(second)
    assert (before + its).total() == 8
    assert drained(first) == before + its
    code, _, _ = call("import", *target, str(file), *act)
    assert "does not stand where the JSON does" in code


def test_another_stream_is_refused(stream: Stream, call: Call, rig: Callable[[str, str], Rig], tmp_path: Path) -> None:
    rig("etl", "first").run("r1")
    written = json.loads(call("export", "etl", "first")[1])
    file = tmp_path / "orders.json"
    other = written["stream"].replace("@", "@1") if "@" in written["stream"] else written["stream"][:-3] + "999"
    file.write_text(json.dumps({**written, "stream": other}))
    act = ("--yes", "--reason", "moving")
    code, _, _ = call("import", "copy", "first", str(file), *act)
    assert any(error in code for error in ("InvalidStream", "StreamNotFound")), code
    file.write_text(json.dumps(written))
    assert "InvalidStream" in call("import", "copy", "first", str(file), *act, name="payments")[0]
    file.write_text(json.dumps({**written, "stream": "lines:/var/lines"}))
    assert "ImportPositionsOperator" in call("import", "copy", "first", str(file), *act)[0]
    assert rig("copy", "first").consumer().application() is None


@pytest.mark.parametrize("stream", ["kinesis"], indirect=True)
def test_the_operators_write_and_take_the_same(stream: Stream, call: Call, rig: Callable[[str, str], Rig]) -> None:
    stream.put("a")
    rig("etl", "first").run("r1")
    given = {"stream": KinesisStream(stream.name, aws_conn_id="stream_aws"), "format": "json"}
    task = ExportPositionsOperator(task_id="export", app_name="etl", leases=SQLLeases("first"), **given)
    written = run_task(task)["positions"]
    assert written == json.loads(call("export", "etl", "first")[1])
    more = {"positions": written, "reason": "moving", "preview": False, "leases": SQLLeases("second")}
    answer = run_task(ImportPositionsOperator(task_id="import", app_name="etl", **more, **given))
    assert answer["counts"] == {"imported": 3}
    assert json.loads(call("export", "etl", "second")[1]) == written
