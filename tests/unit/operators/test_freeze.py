# SPDX-License-Identifier: Apache-2.0
"""FreezeOperator: what it pushes for the work, what it hands to an application, and what an empty batch skips."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import DownstreamTasksSkipped
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from shardbatch import KinesisStream, SQLLeases, Staging
from shardbatch.operators.claim import ClaimOperator
from shardbatch.operators.freeze import NAMED_SHARDS, FreezeOperator, outputs_of
from shardbatch.operators.read import ReadOperator
from shardbatch.run import Frozen
from tests.support.scripted import ScriptedStream


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> ScriptedStream:
    made = ScriptedStream()
    monkeypatch.setattr(KinesisStream, "open", lambda *_: made)
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(lambda **_: {"r": {}}))
    return made


@pytest.fixture
def step(connection: Callable[..., None], stream: ScriptedStream, tmp_path: Path) -> Callable[..., Any]:
    """Executes the step of a run that an operator class is; what it pushed."""
    connection("leases_db", conn_type="sqlite", host=str(tmp_path / "leases.db"))
    (tmp_path / "staging").mkdir()

    def execute(kind: Any, name: str, **more: Any) -> dict[str, Any]:
        pushed: dict[str, Any] = {}
        task = kind(
            task_id=name,
            app_name="etl",
            stream=KinesisStream("orders"),
            leases=SQLLeases("leases_db"),
            staging=Staging(str(tmp_path / "staging")),
            **more,
        )

        def push(key: str, value: Any) -> None:
            pushed[key] = value

        run = SimpleNamespace(dag_id="d", run_id="r", run_type="manual", conf={}, clear_number=0, start_date=None)
        ti = SimpleNamespace(dag_id="d", run_id="r", try_number=1, xcom_push=push, xcom_pull=lambda **_: None)
        try:
            pushed["return_value"] = task.execute({"ti": ti, "dag_run": run, "params": {}})
        except DownstreamTasksSkipped as skipped:
            pushed["skipped"] = list(skipped.tasks)
        return pushed

    return execute


def test_the_work_is_told_which_batch_it_works_on_and_how_much_that_is(
    step: Callable[..., Any], stream: ScriptedStream
) -> None:
    stream.put("a", "b")
    (entry,) = step(ClaimOperator, "claim")["return_value"]
    step(ReadOperator, "read", entry=entry)
    first = step(FreezeOperator, "freeze", claim_id="c1")
    assert (first["attempt"], first["record_count"], first["shards"], first["replay"]) == (1, 2, 1, False)
    assert first["manifest_uri"].endswith(f"{first['batch_id']}/manifest.json")
    assert first["return_value"] == {"batch_id": first["batch_id"], "attempt": 1, "record_count": 2}
    again = step(FreezeOperator, "freeze", claim_id="c1")
    assert (again["batch_id"], again["attempt"]) == (first["batch_id"], 2)


def test_an_empty_batch_skips_the_tasks_that_were_named(step: Callable[..., Any]) -> None:
    (entry,) = step(ClaimOperator, "claim")["return_value"]
    step(ReadOperator, "read", entry=entry)
    pushed = step(FreezeOperator, "freeze", skips=["transform", "check"])
    assert sorted(pushed["skipped"]) == ["check", "transform"]
    assert (pushed["batch_id"], pushed["record_count"]) == (None, 0)


def test_of_many_shards_that_wait_some_are_named_and_all_are_counted() -> None:
    shards = tuple(f"shardId-{number:03d}" for number in range(NAMED_SHARDS + 5))
    waiting = outputs_of(Frozen(waiting=shards))["waiting"]
    assert waiting == {"count": NAMED_SHARDS + 5, "shards": list(shards[:NAMED_SHARDS])}


def test_an_application_is_told_its_batch_by_templates_of_the_freeze_task() -> None:
    task = FreezeOperator(
        task_id="hold", app_name="etl", stream=KinesisStream("orders"), leases=SQLLeases("db"), staging=Staging("/s")
    )
    arguments = dict(argument.removeprefix("--").split("=", 1) for argument in task.args)
    assert arguments["shardbatch-manifest"] == "{{ ti.xcom_pull(task_ids='hold', key='manifest_uri') }}"
    assert arguments["shardbatch-attempt"] == "{{ ti.xcom_pull(task_ids='hold', key='attempt') }}"
    assert {name.upper().replace("-", "_") for name in arguments} == set(task.environment)
