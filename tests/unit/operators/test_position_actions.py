# SPDX-License-Identifier: Apache-2.0
"""Positions written down and taken up by tasks; tests/integration/test_cli_positions.py does it with a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowFailException

from shardbatch import ExportPositionsOperator, ImportPositionsOperator, PositionsFormat
from shardbatch.core.application import Application
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import APPLICATION, SHARD_LEASE, Namespace
from shardbatch.errors import ConfigurationError
from shardbatch.stores.sql import SQLStore
from shardbatch.tasks import positions
from shardbatch.tasks.positions import Way
from tests.support.actions import GIVEN, run
from tests.support.plain_positions import PlainPlaces
from tests.support.scripted import ScriptedStream
from tests.unit.cli.rows import NAMESPACE

EXPORT = {name: value for name, value in GIVEN.items() if name != "reason"}


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> ScriptedStream:
    """The stream of the tasks, and a format for it under the name of another."""
    made = ScriptedStream()
    monkeypatch.setattr(positions, "source_of", lambda stream: made)
    monkeypatch.setattr("shardbatch.tasks.actions.source_of", lambda stream: made)
    ways = {PositionsFormat.BLOOP: lambda: Way(PlainPlaces(), lambda *named: made)}  # type: ignore[dict-item,return-value]
    monkeypatch.setattr(positions, "_WAYS", ways)
    return made


def test_the_output_of_one_task_is_taken_up_by_another(store: SQLStore, stream: ScriptedStream) -> None:
    (application,) = store.list(APPLICATION, NAMESPACE)
    assert isinstance(application, Application)
    stream.identity = lambda: application.stream_id  # type: ignore[attr-defined,method-assign]
    written = run(ExportPositionsOperator(**EXPORT, format="{{ 'bloop' }}"))
    assert json.loads(json.dumps(written)) == written
    assert {"format", "positions", "remarks"} == set(written)
    assert {remark["result"] for remark in written["remarks"]} >= {"read again"}
    (shard,) = stream.shards
    assert written["positions"][shard] == str(TRIM_HORIZON)
    given = {**GIVEN, "app_name": "clone"}
    answer = run(ImportPositionsOperator(**given, format=PositionsFormat.BLOOP, positions=str(written["positions"])))
    assert answer["counts"] == {"imported": len(written["positions"]) + 1}
    rows: list[Any] = list(store.list(SHARD_LEASE, Namespace("clone", NAMESPACE.stream_name)))
    assert {row.shard_id: str(row.checkpoint) for row in rows} == written["positions"]


def test_a_preview_makes_nothing(store: SQLStore, stream: ScriptedStream) -> None:
    (shard,) = stream.shards
    given = {**GIVEN, "app_name": "clone", "preview": "{{ params.preview }}"}
    answer = run(ImportPositionsOperator(**given, format="bloop", positions={shard: "TRIM_HORIZON"}))
    assert (answer["preview"], answer["counts"]) == (True, {"would import": 2})
    assert not list(store.list(SHARD_LEASE, Namespace("clone", NAMESPACE.stream_name)))


def test_an_export_says_what_hinders_it(store: SQLStore, stream: ScriptedStream) -> None:
    with pytest.raises(AirflowFailException, match="checkpoints belong to"):
        run(ExportPositionsOperator(**EXPORT, format="bloop"))
    with pytest.raises(AirflowFailException, match="Choose 'bloop'"):
        run(ExportPositionsOperator(**EXPORT, format="{{ 'xml' }}"))


def test_what_a_task_returned_can_be_imported() -> None:
    with DAG("d", schedule=None):

        @task
        def token() -> dict[str, Any]:
            return {}

        made = ImportPositionsOperator(**GIVEN, format="bloop", positions=token())
    assert made.upstream_task_ids == {"token"}


def test_a_lease_store_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__LEASES", "")
    given = {**EXPORT, "leases": None}
    with pytest.raises(ConfigurationError, match="'verb': No leases given"):
        ExportPositionsOperator(**given, format="bloop")
