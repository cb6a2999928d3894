# SPDX-License-Identifier: Apache-2.0
"""Every command of the page is run, with the parser of its own words, over real rows, staging and output roots."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts import reference
from shardbatch.cli.commands import LEFT
from shardbatch.core.batch import BatchState
from shardbatch.core.rows import TABLES
from shardbatch.stores.sql import SQLStore
from tests.support.metadata import Metadata
from tests.unit.cli.caller import call, commands
from tests.unit.cli.rows import NAMESPACE, filled, frozen_batch

ROOT = Path(__file__).resolve().parents[3]
WHERE = ("-a", "orders-etl", "-s", "orders")
MACHINE = ("-o", "json")
#: Commands that only look, with a word of their answer.
LOOKING: dict[str, tuple[tuple[str, ...], str]] = {
    "list": (MACHINE, "orders-etl"),
    "status": ((*WHERE, *MACHINE), "open_shards"),
    "shards": ((*WHERE, *MACHINE), "s-landed"),
    "batches": ((*WHERE, *MACHINE), "b1"),
    "watch": ((*WHERE, "--once"), "s-landed"),
}
#: Commands that act: their words, and what becomes of a row.
ACTING: dict[str, tuple[tuple[str, ...], str]] = {
    "release": (("--batch", "b2"), "released"),
    "park": (("--batch", "b2"), "parked"),
    "unpark": (("--batch", "parked"), "unparked"),
    "set-aside": (("--batch", "b2", "--force"), "set aside"),
    "drop": (("--batch", "b2", "--force"), "dropped"),
    "accept-gap": (("--shard", "s-landed"), "left"),
    "reset": (("--shard", "s-held", "--to", "TRIM_HORIZON", "--force"), "reset"),
    "forget-root": (("--root", "{folder}/gone"), "already"),
    "adopt-root": (("--root", "{folder}/out", "--staging", "{folder}/staging"), "adopted"),
    "sum-markers": (("--root", "{folder}/out", "--staging", "{folder}/staging"), "already"),
    "gc": (("--staging", "{folder}/staging"), "left"),
    "migrate": ((), "already"),
}
#: Commands that ask more of the world than rows and files, and the test that runs them.
ELSEWHERE = {
    "replay": "tests/system/airflow/test_replays.py",
    "import-kcl": "tests/integration/test_cli_import_kcl.py",
    "remove": "tests/integration/test_cli_remove.py",
    "positions export": "tests/integration/test_cli_positions_json.py",
    "warm-spark": "tests/integration/test_spark_quick.py",
    "positions import": "tests/integration/test_cli_positions_json.py",
}


@pytest.fixture
def folder(tmp_path: Path, connection: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lease store with the rows of the command line's tests, staging, and an Airflow that knows no run."""
    (tmp_path / "staging").mkdir()
    (tmp_path / "out").mkdir()
    connection("leases_command", conn_type="sqlite", host=str(tmp_path / "leases.db"))
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__LEASES", "sql://leases_command")
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__DEPLOYMENT_ID", "prod")
    monkeypatch.setattr("airflow.settings.Session", Metadata(tmp_path).create().session)
    return tmp_path


@pytest.fixture
def store(folder: Path) -> Iterator[SQLStore]:
    made = SQLStore(f"sqlite:///{folder}/leases.db")
    made.prepare()
    memory = filled()
    for table in TABLES:
        for row in memory.list(table, NAMESPACE):
            assert made.create(row)
    assert made.create(frozen_batch("parked", state=BatchState.PARKED))
    yield made
    made.close()


def rows(store: SQLStore) -> list[Any]:
    return [row.columns() for table in TABLES for row in store.list(table, NAMESPACE, None)]


def test_every_command_is_run_by_a_test() -> None:
    assert {name for name, _ in commands()} == {*LOOKING, *ACTING, *ELSEWHERE}


def test_every_command_has_a_section_on_the_page() -> None:
    page = (reference.DOCS / "cli.md").read_text("utf-8")
    headings = re.findall(r"^## (.*)$", page, re.MULTILINE)
    told = {name for heading in headings for name in heading.split(", ")}
    assert {name for name, _ in commands()} <= told


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_asks_more_is_run_where_the_table_says(name: str) -> None:
    text = (ROOT / ELSEWHERE[name]).read_text("utf-8")
    assert all(f'"{word}"' in text for word in name.split())
    assert '"shardbatch"' in text


@pytest.mark.parametrize("name", LOOKING)
def test_a_command_that_looks_answers_and_changes_nothing(store: SQLStore, name: str) -> None:
    words, text = LOOKING[name]
    before = rows(store)
    answer = call(name, *words)
    assert (answer.code, text in answer.out) == (0, True), answer.err
    assert rows(store) == before


@pytest.mark.parametrize("name", ACTING)
def test_a_command_that_acts_is_a_preview_first(store: SQLStore, folder: Path, name: str) -> None:
    words, result = ACTING[name]
    given = (*WHERE, *MACHINE, *(word.format(folder=folder) for word in words))
    before = rows(store)
    preview = call(name, *given)
    assert preview.code in (0, LEFT), preview.err
    assert "This is a preview" in preview.err
    nameless = call(name, *given, "--yes", "--reason", " ")
    assert (nameless.code, "needs a reason" in nameless.err) == (1, True)
    assert rows(store) == before
    done = call(name, *given, "--yes", "--reason", "ticket 7")
    found = {item["result"] for item in json.loads(done.out)}
    assert done.code == (LEFT if "left" in found else 0)
    assert result in found, done.out
    if result not in ("already", "left"):
        assert rows(store) != before
