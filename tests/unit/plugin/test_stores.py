# SPDX-License-Identifier: Apache-2.0
"""Stores are asked at the same time: a slow one, or one that is away, keeps no other waiting."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shardbatch import DynamoDBLeases, SQLLeases
from shardbatch.errors import StoreError
from shardbatch_plugin.web import listing, stores
from shardbatch_plugin.web.stores import Asker, NoAnswer, Place
from tests.support.page import page_of


class Opened:
    """A store that counts how often it was opened and closed, and may be held."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.opened = self.closed = 0

    @contextmanager
    def open(self) -> Iterator[Opened]:
        self.opened += 1
        try:
            yield self
        finally:
            self.closed += 1

    def read(self, store: Opened) -> int:
        assert self.go.wait(60)
        return self.opened


def test_the_same_question_is_asked_once_while_its_answer_is_fresh() -> None:
    store = Opened()
    asker = Asker("A store", store.open)
    assert [asker.ask("a", store.read, 60.0) for _ in range(3)] == [1, 1, 1]
    assert asker.ask("b", store.read, 0.0) == 2
    assert asker.ask("b", store.read, 0.0) == 3
    assert store.closed == store.opened == 3


def test_who_asks_while_an_answer_is_awaited_waits_for_the_same() -> None:
    store = Opened()
    store.go.clear()
    asker = Asker("A store", store.open)
    first, second = asker.begin("a", store.read), asker.begin("a", store.read)
    assert first is second
    with pytest.raises(NoAnswer, match="A store has not answered"):
        asker.answer(first, 0.0)
    store.go.set()
    assert asker.answer(first, 60.0) == 1


def test_a_failure_is_told_and_asked_again() -> None:
    store, failures = Opened(), [StoreError("It is away.")]
    asker = Asker("A store", store.open)

    def read(opened: Opened) -> int:
        if failures:
            raise failures.pop()
        return 7

    with pytest.raises(StoreError, match="It is away"):
        asker.ask("a", read, 60.0)
    assert asker.ask("a", read, 60.0) == 7
    assert store.closed == 2


def test_a_place_is_the_same_whoever_may_make_its_tables_and_its_label_has_no_secret() -> None:
    assert Place(SQLLeases("a")).key == Place(SQLLeases("a", create=False)).key
    assert Place(SQLLeases("a")).key != Place(SQLLeases("b")).key
    assert Place(SQLLeases("a")).label == "sql://a"
    assert Place(DynamoDBLeases("table", region_name="eu-west-1")).label == "dynamodb://table"


def test_a_store_that_does_not_answer_shows_as_such_and_the_others_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = page_of(tmp_path, monkeypatch)
    page.dag()
    page.rig.run("r1")
    slow = SQLLeases("slow")
    page.dag("other", app_name="waiting", leases=slow)
    go = threading.Event()
    open_store = stores.existing_store

    @contextmanager
    def held(leases: SQLLeases) -> Iterator[object]:
        if leases.conn_id == slow.conn_id:
            assert go.wait(60)
        with open_store(leases) as opened:
            yield opened

    monkeypatch.setattr(stores, "existing_store", held)
    monkeypatch.setattr(listing, "LIMIT_S", 0.5)
    try:
        answer = page.get("applications")
    finally:
        go.set()
    errors = {one["label"]: one["error"] and one["error"]["error"] for one in answer["stores"]}
    assert errors["sql://slow"] == "NoAnswer"
    assert errors["sql://leases"] is None
    rows = {one["app_name"]: one for one in answer["applications"]}
    assert rows["etl"]["error"] is None
    assert rows["waiting"]["error"]["error"] == "NoAnswer"
    assert rows["waiting"]["behind_ms"] is None
