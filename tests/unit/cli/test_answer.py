# SPDX-License-Identifier: Apache-2.0
"""Tables show what persons and services wrote as it was written, whatever brackets and colons are in it."""

from __future__ import annotations

import time
from argparse import Namespace as Arguments
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from shardbatch.cli import answer, watch
from shardbatch.core.rows import TABLES, Namespace
from shardbatch.errors import StoreError
from shardbatch.stores.memory import MemoryStore
from tests.unit.cli.rows import NAMESPACE, filled

#: A closing tag that nothing opened is an error of the terminal's library; the others it would leave out or replace.
ODD = ("see [/wiki] first", "[red]late[bold]", "[parameters: ('a',)]", "prod:fire:7", "a\\[b]\\")


@pytest.mark.parametrize("output", ["table", "plain"])
@pytest.mark.parametrize("text", ODD)
def test_a_text_stands_in_a_table_as_it_was_written(text: str, output: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer.show(output, [{"what": text, "note": "x"}])
    assert text in capsys.readouterr().out


@pytest.mark.parametrize("text", ODD)
def test_the_watched_table_shows_names_and_errors_as_they_are(
    text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    app_name = text.replace("/", "")
    shown = looks(_named(app_name), app_name, text, capsys, monkeypatch)
    assert f"{app_name}/orders at" in shown[0]
    assert text in shown[1]


def test_where_no_shard_is_as_asked_the_watched_table_says_so_beside_the_rest(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = looks(_named("etl"), "etl", "It is away.", capsys, monkeypatch, owner="nobody")
    assert "│ none " in shown[0]
    assert "etl/orders at" in shown[0]
    assert "batches unfinished: 1" in " ".join(shown[0].split())
    assert "It is away." in shown[1]


def test_a_store_that_is_slow_is_looked_at_less_often(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(range(0, 1000, 30))
    told = SimpleNamespace(monotonic=lambda: next(now), strftime=time.strftime, localtime=time.localtime)
    monkeypatch.setattr(watch, "time", told)
    waited: list[float] = []
    looks(_named("etl"), "etl", "It is away.", capsys, monkeypatch, waited=waited)
    assert waited == [120, 120]


def looks(
    store: MemoryStore,
    app_name: str,
    away: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    owner: str | None = None,
    waited: list[float] | None = None,
) -> list[str]:
    """What is shown of a store, and then while it gives no answer."""

    @contextmanager
    def opened(_: Arguments) -> Iterator[tuple[MemoryStore, Namespace]]:
        yield store, Namespace(app_name, NAMESPACE.stream_name)

    shown: list[str] = []

    def wait(seconds: float) -> None:
        if waited is not None:
            waited.append(seconds)
        shown.append(capsys.readouterr().out)
        if len(shown) == 2:
            raise KeyboardInterrupt
        monkeypatch.setattr(store, "list", _away(away))

    monkeypatch.setattr(watch, "opened", opened)
    args = {"every": 1.0, "once": False, "state": None, "owner": owner, "sort": "shard", "limit": None}
    watch.watch(Arguments(**args), wait)
    return shown


def _named(app_name: str) -> MemoryStore:
    """The application of the other tests, under another name."""
    made = MemoryStore()
    made.prepare()
    known, namespace = filled(), Namespace(app_name, NAMESPACE.stream_name)
    for table in TABLES:
        for row in known.list(table, NAMESPACE):
            assert made.create(replace(row, namespace=namespace))  # type: ignore[type-var]  # each is a dataclass
    return made


def _away(text: str) -> Any:
    def refuse(*_: Any, **__: Any) -> Any:
        raise StoreError(text)

    return refuse
