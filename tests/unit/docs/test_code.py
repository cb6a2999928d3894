# SPDX-License-Identifier: Apache-2.0
"""The code in the pages: DAGs are parsed as Airflow parses them, jobs are held against our functions, and what needs
neither Spark nor a server is run. ``tests/system`` runs the rest: ``test_quick_start.py``, ``spark/test_pages.py``."""

from __future__ import annotations

import ast
import inspect
import json
import re
import shlex
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

import shardbatch
import shardbatch.spark
from shardbatch.control.status import Status
from shardbatch.landing.batch import LandedBatch
from shardbatch.local import StreamServer
from shardbatch.run.batch_status import BatchStatus, IntervalsStatus
from shardbatch.spark import SparkBatch
from tests.support.pages import DOCS, ROOT, Block, blocks, parsed
from tests.support.pages import PAGES as ALL
from tests.unit.cli.caller import commands

#: The changelog tells of commands as they were.
PAGES = [page for page in ALL if page.name != "CHANGELOG.md"]
PYTHON = [block for page in PAGES for block in blocks(page, "python")]
SHELL = [block for page in PAGES for block in blocks(page, "sh", "bash")]
#: A heredoc that writes or runs Python.
HEREDOC = re.compile(r"^(?:cat > \S*\.py|python3? -) <<'EOF'\n(.*?)^EOF$", re.DOTALL | re.MULTILINE)
HEREDOCS = [
    Block(block.page, block.line, "python", match[1]) for block in SHELL for match in HEREDOC.finditer(block.text)
]
DAGS = [block for block in [*PYTHON, *HEREDOCS] if "with DAG(" in block.text]


def named(block: Block) -> str:
    return block.name


# ---------------------------------------------------------------------- DAGs


@pytest.mark.parametrize("block", DAGS, ids=named)
def test_a_dag_of_a_page_is_one_that_airflow_takes(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    monkeypatch.setenv("ORDERS", "/data/orders")
    made = parsed(block)
    assert made, "no DAG"
    for dag in made:
        dag.validate()
        stored = DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(dag))))
        for commit in (task for task in dag.tasks if task.task_type == "CommitOperator"):
            # The batch has to stand in a templated field, or the job would never hear of it.
            assert commit.given == commit.work, f"of {commit.work}, only {commit.given} are given the batch"
            stands = [(asset.name, asset.uri) for asset in stored.get_task(commit.task_id).outlets]
            assert stands == [(asset.name, asset.uri) for asset in commit.outlets]


def test_the_asset_of_a_page_is_that_of_its_group() -> None:
    from airflow.sdk import DAG, Asset

    with (
        DAG("d", schedule=None),
        shardbatch.StreamBatch(
            "batch",
            app_name="orders-by-item",
            stream=shardbatch.KinesisStream("orders"),
            policies=shardbatch.Policies(sink="own"),
        ) as batch,
    ):
        pass
    (made,) = batch._ours["commit"].outlets
    text = (DOCS / "assets.md").read_text("utf-8")
    assert (f"`{made.name}`" in text, f"`{made.uri}`" in text, f"`{made.group}`" in text) == (True, True, True)
    written = re.search(r"`(Asset\(.*?\))`", text)
    assert written is not None
    there = eval(written[1], {"Asset": Asset})
    assert (there.name, there.uri) == (made.name, made.uri)
    assert asset_of(dag_of("assets.md", "orders_report")) == made


def test_a_dag_of_a_page_that_its_stream_wakes_reads_what_it_watches() -> None:
    dag = dag_of("assets.md", "orders_on_arrival")
    (committed,) = dag.get_task("orders.commit").outlets
    watched = asset_of(dag)
    assert watched.name == f"{committed.name}/unread"
    assert watched.watchers[0].trigger.leases == dag.get_task("orders.claim").leases.to_json()
    beside = dag_of("assets.md", "orders_by_hour")
    assert asset_of(beside).watchers
    assert beside.timetable.timetable is not None


def dag_of(page: str, dag_id: str) -> Any:
    """One of the DAGs of a page."""
    found = [dag for block in blocks(DOCS / page, "python") for dag in parsed(block)]
    (dag,) = [dag for dag in found if dag.dag_id == dag_id]
    return dag


def asset_of(dag: Any) -> Any:
    """The one asset that a DAG waits for."""
    (asset,) = dag.timetable.asset_condition.objects
    return asset


def test_a_downstream_dag_reads_the_batches_of_its_events(tmp_path: Any, capsys: Any) -> None:
    from types import SimpleNamespace

    from tests.support.outputs import commit

    commit(str(tmp_path), "b1", {"": {"a": [1]}})
    commit(str(tmp_path), "b2", {"": {"a": [2]}})
    dag = dag_of("assets.md", "orders_report")
    (report,) = dag.tasks
    asset = asset_of(dag)
    report.python_callable(str(tmp_path), {asset: [SimpleNamespace(extra={"batch_id": "b2"})]})
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["b2"]


def test_a_complaint_about_gaps_is_one_about_gaps() -> None:
    from types import SimpleNamespace

    (block,) = [block for block in blocks(DOCS / "alerts.md", "python") if "orders_gaps" in block.text]
    (dag,) = parsed(block)
    (complain,) = dag.tasks
    asset = asset_of(dag)
    whole = SimpleNamespace(extra={"batch_id": "b1", "gaps": 0, "dropped": 0})
    complain.python_callable({asset: [whole]})
    with pytest.raises(RuntimeError, match="b2"):
        complain.python_callable({asset: [whole, SimpleNamespace(extra={"batch_id": "b2", "gaps": 1, "dropped": 0})]})


# ---------------------------------------------------------------------- our functions, wherever they are called

#: What a name means in a block that does not import it.
OURS: dict[str, Any] = {name: getattr(shardbatch, name) for name in shardbatch.__all__}
ON_SPARK: dict[str, Any] = {name: getattr(shardbatch.spark, name) for name in shardbatch.spark.__all__}


def meanings(tree: ast.AST) -> dict[str, Any]:
    """Our names in a block: those that it imports, else what they are on Spark or off it."""
    found = {**OURS, **ON_SPARK}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("shardbatch", "shardbatch.spark", "shardbatch.local"):
            home = __import__(node.module, fromlist=["*"])
            found |= {item.asname or item.name: getattr(home, item.name) for item in node.names}
    return found


def calls(tree: ast.AST, known: dict[str, Any]) -> Iterator[tuple[Any, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            of_ours = isinstance(node.func, ast.Name) or getattr(node.func.value, "id", "") == "shardbatch"
            if of_ours and name in known:
                yield known[name], node


@pytest.mark.parametrize("block", [*PYTHON, *HEREDOCS], ids=named)
def test_a_block_compiles_and_calls_our_functions_as_they_are(block: Block) -> None:
    tree = ast.parse(block.text, block.name)
    for kind, call in calls(tree, meanings(tree)):
        words = {word.arg: None for word in call.keywords if word.arg}
        inspect.signature(kind).bind(*call.args, **words)
    if "open_batch(" in block.text or "with StreamBatch(" in block.text:
        kinds = (SparkBatch, LandedBatch, shardbatch.StreamBatch)
        used = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "batch"
        }
        known = {*dir(SparkBatch), *dir(LandedBatch), *dir(shardbatch.StreamBatch), "attempt", "manifest", "start_id"}
        assert used <= known, f"{kinds} have no {used - known}"


# ---------------------------------------------------------------------- what runs at once


def status(**changes: Any) -> str:
    """What ``airflow shardbatch status --output json`` writes."""
    from shardbatch.cli.answer import with_loss

    fields = filled(Status, deployments=(), unfinished=(), owners=(), expires_unknown=0, millis_behind_latest=0)
    found = Status(**{**fields, **changes})
    return json.dumps(with_loss(found, now()))


def now() -> int:
    return int(time.time() * 1000)


def batch(**changes: Any) -> BatchStatus:
    fields = filled(BatchStatus, batch_id="b7", state="FROZEN", attempt=3, created_at_ms=now())
    return BatchStatus(**{**fields, **changes})


def filled(kind: type, **known: Any) -> dict[str, Any]:
    """What a class wants; nothing in what is not told."""
    wanted = {name for name, each in inspect.signature(kind).parameters.items() if each.default is each.empty}
    return {**dict.fromkeys(wanted), **known}


HOUR = 3_600_000


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, ""),
        ({"millis_behind_latest": None, "unfinished": (batch(),)}, ""),
        ({"millis_behind_latest": 2 * HOUR}, "lag"),
        ({"expires_from_ms": now() + HOUR}, "time until data loss"),
        ({"expires_from_ms": now() + 20 * HOUR}, ""),
        ({"unfinished": (batch(created_at_ms=now() - 3 * HOUR),)}, "unfinished"),
        ({"unfinished": (batch(state="PARKED"),)}, "parked"),
        ({"intervals": IntervalsStatus(unfinished=(batch(state="PARKED"),))}, "parked"),
        ({"set_aside": (batch(),)}, "set aside"),
        ({"millis_behind_latest": 1000, "last_commit_ms": now() - 5 * HOUR}, "standing still"),
        ({"last_commit_ms": now() - 5 * HOUR}, ""),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_the_look_from_outside_tells_what_is_wrong(changes: dict[str, Any], told: str) -> None:
    (look,) = [block for block in blocks(DOCS / "alerts.md", "python") if "LOSS_S" in block.text]
    done = subprocess.run(
        [sys.executable, "-c", look.text], input=status(**changes), capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.returncode) == ("", 1 if told else 0)
    assert done.stdout.startswith(told)
    assert len(done.stdout.split("\n")) == 2


def run(page: str, word: str, **space: Any) -> dict[str, Any]:
    """Run the block of a page that has a word."""
    (block,) = [block for block in blocks(DOCS / page, "python") if word in block.text]
    space.setdefault("__name__", "a_page")
    exec(compile(block.text, block.name, "exec"), space)
    return space


def test_the_examples_of_the_stream_server_run() -> None:
    run("local-server.md", "def test_my_consumer")["test_my_consumer"]()
    with StreamServer() as server:
        run("local-server.md", "server.faults.add", server=server)
        assert len(server.faults.waiting()) == 3


def test_the_small_examples_run() -> None:
    from datetime import timedelta

    assert run("aggregates.md", "KinesisStream", **OURS)["stream"].deaggregate == "on"
    assert run("reading.md", "ReadLimits", timedelta=timedelta, **OURS)["limits"].concurrency == 8
    run("operations.md", "SetAsideBatchOperator", **OURS)


# ---------------------------------------------------------------------- shells and others


@pytest.mark.parametrize("block", SHELL, ids=named)
def test_a_shell_block_is_one_that_a_shell_can_read(block: Block) -> None:
    done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def parsers(prog: str) -> ArgumentParser:
    from airflow.cli.cli_parser import get_parser

    return get_parser()


#: A call of ours or of Airflow's, in a block or between backticks.
CALL = re.compile(r"(?<![\w/.-])airflow ((?:shardbatch|connections|dags|db) [^`|>&;\n)]*?)(?= *(?:\d?>|[`|&;\n)]|$))")


def airflow_calls() -> list[Any]:
    found = {}
    for page in PAGES:
        text = page.read_text("utf-8").replace("\\\n", " ")
        whole = "\n".join(block.text.replace("\\\n", " ") for block in blocks(page))
        for match in CALL.finditer(whole):
            found[f"{page.name}: {match[1].strip()}"] = (match[1], True)
        for code in re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
            for match in CALL.finditer(" ".join(code.split())):
                found.setdefault(f"{page.name}: {match[1].strip()}", (match[1], False))
    return [pytest.param(*value, id=name) for name, value in sorted(found.items())]


@pytest.fixture(scope="module")
def parser() -> ArgumentParser:
    from airflow.cli.cli_config import core_commands
    from airflow.cli.cli_parser import AirflowHelpFormatter, DefaultHelpParser, _add_command

    from shardbatch.cli import get_cli_commands

    made = DefaultHelpParser(prog="airflow", formatter_class=AirflowHelpFormatter)
    under = made.add_subparsers(dest="subcommand")
    for command in [*core_commands, *get_cli_commands()]:
        if command.name in ("shardbatch", "connections", "dags", "db"):
            _add_command(under, command)
    return made


@pytest.mark.parametrize(("call", "whole"), airflow_calls())
def test_a_command_of_a_page_has_a_verb_and_options_that_exist(
    call: str, whole: bool, parser: ArgumentParser, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that stands in a block is whole; in prose some arguments may be left out, or be `…`."""
    words = [word for word in shlex.split(call, comments=True) if word not in ("…", "...")]
    try:
        parser.parse_args(words)
    except SystemExit:
        said = capsys.readouterr().err
        left_out = re.search(r"required: |expected (one|at least one) argument", said)
        assert not whole, said
        assert left_out, said
        sub = sub_parser(parser, words)
        known = {option for action in sub._actions for option in action.option_strings}
        assert {word for word in words if word.startswith("-")} <= known, said


def sub_parser(parser: ArgumentParser, words: list[str]) -> ArgumentParser:
    for word in words:
        choices = [action.choices for action in parser._actions if isinstance(action.choices, dict)]
        if not choices or word not in choices[0]:
            break
        parser = choices[0][word]
    assert parser.prog.count(" ") >= 1, f"no verb in {words}"
    return parser


def test_every_verb_of_ours_has_its_section() -> None:
    headings = re.findall(r"^## (.+)$", (DOCS / "cli.md").read_text("utf-8"), re.MULTILINE)
    told = {verb for heading in headings for verb in heading.split(", ")}
    assert {name for name, _ in commands()} - told == set()


@pytest.mark.parametrize("block", [block for page in PAGES for block in blocks(page, "json", "yaml")], ids=named)
def test_a_document_is_one(block: Block) -> None:
    {"json": json.loads, "yaml": yaml.safe_load}[block.kind](block.text)


def test_make_targets_that_pages_name_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text("utf-8"), re.MULTILINE))
        assert named <= targets, f"{page.name}: {named - targets}"
