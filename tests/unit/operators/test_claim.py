# SPDX-License-Identifier: Apache-2.0
"""ClaimOperator: what it hands to the tasks after it, and which of them it skips."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from shardbatch import KinesisStream, SQLLeases, Staging
from shardbatch.operators.claim import ClaimOperator
from tests.support.scripted import ScriptedStream


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> ScriptedStream:
    made = ScriptedStream(shards=2)
    monkeypatch.setattr(KinesisStream, "open", lambda *_: made)
    return made


@pytest.fixture
def make(connection: Callable[..., None], stream: ScriptedStream, tmp_path: Path) -> Callable[..., ClaimOperator]:
    connection("leases_db", conn_type="sqlite", host=str(tmp_path / "leases.db"))
    (tmp_path / "staging").mkdir()

    def made(**more: Any) -> ClaimOperator:
        return ClaimOperator(
            task_id="claim",
            app_name="etl",
            stream=KinesisStream("orders"),
            leases=SQLLeases("leases_db"),
            staging=Staging(str(tmp_path / "staging")),
            **more,
        )

    return made


def executed(claim: ClaimOperator, pushed: dict[str, Any], pulled: Any = None) -> Any:
    """What a run's claim answers; what it pushes is noted."""
    run = SimpleNamespace(dag_id="d", run_id="r", run_type="manual", conf={}, clear_number=0, start_date=None)
    ti = SimpleNamespace(
        dag_id="d", run_id="r", try_number=1, xcom_pull=lambda **_: pulled, xcom_push=lambda **x: pushed.update(x_of(x))
    )
    context: Any = {"ti": ti, "dag_run": run, "params": {}}
    return claim.execute(context)


def x_of(pushed: dict[str, Any]) -> dict[str, Any]:
    return {pushed["key"]: pushed["value"]}


def test_each_read_task_gets_a_small_entry_and_each_claim_a_name_of_its_own(make: Callable[..., ClaimOperator]) -> None:
    first: dict[str, Any] = {}
    again: dict[str, Any] = {}
    entries = executed(make(), first)
    assert [set(entry) for entry in entries] == [{"group", "label"}] * len(entries)
    assert (first["outcome"], first["batch_id"]) == ("leases", "")
    assert "summary" not in first  # commit will have it
    executed(make(), again)
    assert again["claim_id"] != first["claim_id"]


def test_with_nothing_to_do_the_named_tasks_are_skipped_and_the_answer_is_empty(
    make: Callable[..., ClaimOperator], stream: ScriptedStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.shards.clear()
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(lambda **_: {"r": {}}))
    pushed: dict[str, Any] = {}
    with pytest.raises(DownstreamTasksSkipped) as caught:
        executed(make(skips=["read", "freeze"]), pushed)
    assert list(caught.value.tasks) == ["read", "freeze"]
    assert (pushed["outcome"], pushed["return_value"]) == ("nothing", [])
    assert pushed["summary"].startswith("Nothing new: every known shard is completed")
    assert executed(make(), {}) == []


@pytest.mark.parametrize(("state", "refused"), [("success", True), ("failed", True), (None, False)])
def test_a_claim_that_is_cleared_alone_takes_nothing_if_its_runs_batch_is_gone(
    make: Callable[..., ClaimOperator], monkeypatch: pytest.MonkeyPatch, state: str | None, refused: bool
) -> None:
    states = {"r": {"freeze": state}}
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(lambda **_: states))
    executed(make(), {})  # the tables are there
    claim = make(freeze_task="freeze")
    if refused:
        with pytest.raises(AirflowFailException, match="b1"):
            executed(claim, {}, pulled="b1")
    else:
        assert executed(claim, {}, pulled="b1")
