# SPDX-License-Identifier: Apache-2.0
"""The removal of an application as a task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from shardbatch import RemoveApplicationOperator, Staging
from shardbatch.core.application import Application
from shardbatch.core.rows import APPLICATION, BATCH, SHARD_LEASE, Key
from shardbatch.hooks.kinesis import KinesisStream
from shardbatch.stores.sql import SQLStore
from tests.support.actions import GIVEN, over, run
from tests.unit.cli.rows import NAMESPACE


class Consumers:
    """What a stream has registered for an application."""

    def __init__(self, app_name: str) -> None:
        self.name = f"consumer-of-{app_name}"
        self.there = True

    def stands(self) -> bool:
        return self.there

    def take_away(self) -> bool:
        found, self.there = self.there, False
        return found


@pytest.fixture
def consumers(monkeypatch: pytest.MonkeyPatch) -> list[Consumers]:
    made: list[Consumers] = []

    def registered(stream: KinesisStream, app_name: str) -> Consumers:
        made.append(Consumers(app_name))
        return made[-1]

    monkeypatch.setattr(KinesisStream, "registered", registered)
    return made


@pytest.fixture
def staging(tmp_path: Path) -> Staging:
    (tmp_path / "staging").mkdir()
    return Staging(str(tmp_path / "staging"))


def results(answer: dict[str, Any]) -> dict[str, tuple[str, int]]:
    return {row["kind"]: (row["result"], row.get("number", 0)) for row in answer["rows"]}


def rows(store: SQLStore) -> int:
    return sum(1 for table in (SHARD_LEASE, BATCH) for _ in store.list(table, NAMESPACE, None))


def test_it_previews_and_removes_with_numbers(
    store: SQLStore, staging: Staging, consumers: list[Consumers], monkeypatch: pytest.MonkeyPatch
) -> None:
    over(monkeypatch)
    given: dict[str, Any] = {**GIVEN, "staging": staging, "discard": "{{ params.preview }}"}
    before = rows(store)
    preview = results(run(RemoveApplicationOperator(**given, preview=True)))
    assert preview == {
        "leases": ("would remove", 5),
        "batches": ("would remove", 2),
        "consumer": ("would remove", 1),
        "application": ("would remove", 1),
    }
    assert (rows(store), consumers[0].there) == (before, True)
    done = results(run(RemoveApplicationOperator(**given)))
    assert done == {kind: ("removed", number) for kind, (_, number) in preview.items()}
    assert (rows(store), consumers[1].there, consumers[1].name) == (0, False, "consumer-of-orders-etl")
    row = store.get(Key(APPLICATION, NAMESPACE, ()))
    assert isinstance(row, Application)
    assert "run manual__1 of DAG repairs" in (row.removed or "")
    run(RemoveApplicationOperator(**given, free_name="true"))
    assert store.get(Key(APPLICATION, NAMESPACE, ())) is None


def test_it_fails_where_a_run_is_at_work_or_something_is_unfinished(
    store: SQLStore, staging: Staging, consumers: list[Consumers], monkeypatch: pytest.MonkeyPatch
) -> None:
    over(monkeypatch)
    pushed: dict[str, Any] = {}
    before = rows(store)
    with pytest.raises(AirflowFailException, match="left something as it was"):
        run(RemoveApplicationOperator(**GIVEN, staging=staging), pushed)
    assert "--discard (discard=True of the operator)" in str(pushed["return_value"]["left"])
    assert rows(store) == before
