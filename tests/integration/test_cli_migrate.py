# SPDX-License-Identifier: Apache-2.0
"""``airflow shardbatch`` on tables of the version before, and replays that cannot be started."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.status import status
from shardbatch.core.application import Application
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.owner import Owner
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import Namespace
from shardbatch.stores.sql import SQLStore
from tests.support.older import LATER_TABLES, OlderStore, names_of_later

pytestmark = [pytest.mark.airflow]

SPACE = Namespace("orders-etl", "orders")
WHERE = ("-a", "orders-etl", "-s", "orders", "-o", "json")
Run = Callable[..., tuple[Any, str, str]]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A file with the tables of the version before and an application in them."""
    found = f"sqlite:///{tmp_path}/leases.db"
    owner = str(Owner("local", "orders", "manual__1", "orders"))
    with contextlib.closing(OlderStore(SQLStore(found))) as older:
        older.prepare()
        older.create(Application(SPACE, "arn:1", TRIM_HORIZON, 1))
        older.create(Batch(SPACE, "", "b1", owner, 1, BatchState.COMMITTED, attempt=1, decided=1, records=3))
    return found


@pytest.fixture
def run(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The program's own parser and commands, in this process: exit code, output, errors."""

    def call(*words: str) -> tuple[Any, str, str]:
        from airflow.cli.cli_parser import get_parser

        monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "")
        monkeypatch.setenv("AIRFLOW__SHARDBATCH__LEASES", "sql://leases_db")
        monkeypatch.setenv("AIRFLOW_CONN_LEASES_DB", json.dumps({"conn_type": "sqlite", "host": url[10:]}))
        capsys.readouterr()
        code: Any = 0
        try:
            arguments = get_parser().parse_args(["shardbatch", *words])
            arguments.func(arguments)
        except SystemExit as left:
            code = left.code
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def test_older_tables_are_named_shown_and_then_brought_up(run: Run, url: str) -> None:
    code, _, _ = run("status", *WHERE)
    assert "ALTER TABLE application ADD COLUMN claimed_by TEXT" in str(code)
    assert "airflow shardbatch migrate" in str(code)

    code, out, err = run("migrate", *WHERE)
    shown = json.loads(out)
    assert (code, {item["result"] for item in shown}) == (0, {"would run"})
    assert len(shown) == len(names_of_later()) + len(LATER_TABLES)
    assert "This is a preview" in err
    assert "needs a reason" in str(run("migrate", *WHERE, "--yes")[0])

    code, out, _ = run("migrate", *WHERE, "--yes", "--reason", "upgrade")
    assert (code, [item["what"] for item in json.loads(out)][:-1]) == (0, [item["what"] for item in shown])
    code, out, _ = run("status", *WHERE)
    assert (code, json.loads(out)["schema_version"]) == (0, 2)
    with contextlib.closing(SQLStore(url, create=False)) as store:
        assert status(store, SPACE).stream_id == "arn:1"


def test_a_replay_that_cannot_be_started_says_why_and_notes_nothing(run: Run) -> None:
    run("migrate", *WHERE, "--yes", "--reason", "upgrade")
    code, out, _ = run("replay", *WHERE, "--batch", "b1")
    (preview,) = json.loads(out)
    assert (code, preview["dag_id"], preview["output"]) == (0, "orders", "none")
    assert preview["files"].startswith("not known from here")
    assert "no batch 'b2'" in str(run("replay", *WHERE, "--batch", "b2")[0])
    assert "needs a reason" in str(run("replay", *WHERE, "--batch", "b1", "--yes")[0])
    assert "migrated to version 2: upgrade" in json.loads(run("status", *WHERE)[1])["last_action"]
