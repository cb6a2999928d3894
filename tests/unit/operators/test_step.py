# SPDX-License-Identifier: Apache-2.0
"""What claim, read, freeze and commit have in common: what they refuse as they are made, and what they work on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from shardbatch import KinesisStream, SQLLeases, Staging, errors
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.owner import Owner
from shardbatch.core.rows import Namespace
from shardbatch.hooks.leases import store_digest
from shardbatch.operators.claim import ClaimOperator
from shardbatch.operators.commit import CommitOperator
from shardbatch.operators.freeze import FreezeOperator
from shardbatch.operators.links import BatchLink
from shardbatch.operators.read import ReadOperator
from shardbatch.operators.step import Step
from shardbatch.run.attempt import lost
from tests.support.scripted import ScriptedStream
from tests.support.statsd import StatsD
from tests.support.waiting import wait_until


def made(**more: Any) -> Step:
    arguments: dict[str, Any] = {
        "task_id": "step",
        "app_name": "etl",
        "stream": KinesisStream("orders"),
        "leases": SQLLeases("leases_db"),
        "staging": Staging("/staging"),
    }
    return Step(**{**arguments, **more})


@pytest.fixture
def context() -> Any:
    run = SimpleNamespace(dag_id="d", run_id="r", run_type="manual", conf={}, clear_number=0, start_date=None)
    return {"ti": SimpleNamespace(dag_id="d", run_id="r"), "dag_run": run, "params": {}}


def test_what_cannot_work_is_refused_with_dag_and_task_as_the_file_is_parsed() -> None:
    with DAG("nightly", schedule=None), pytest.raises(errors.ConfigurationError, match=r"'nightly'.*'step'.*leases"):
        made(leases=None)
    with pytest.raises(errors.ConfigurationError, match="staging"):
        made(staging=None)


def test_a_step_hands_on_its_outputs_whatever_default_args_say_for_other_tasks() -> None:
    with DAG("d", schedule=None, default_args={"do_xcom_push": False, "multiple_outputs": True}):
        step = made()
    assert (step.do_xcom_push, step.multiple_outputs) == (True, False)


def test_its_steps_are_those_of_the_run_at_hand_and_connections_are_given_back(
    connection: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, context: Any
) -> None:
    connection("leases_db", conn_type="sqlite", host=str(tmp_path / "leases.db"))
    (tmp_path / "staging").mkdir()
    stream = ScriptedStream()
    monkeypatch.setattr(KinesisStream, "open", lambda *_: stream)
    closed: list[str] = []
    monkeypatch.setattr(stream, "close", lambda: closed.append(stream.name))
    with made(staging=Staging(str(tmp_path / "staging")), group_id="outer.orders").open(context) as steps:
        assert (steps.owner.dag_id, steps.owner.run_id, steps.owner.group_id) == ("d", "r", "outer.orders")
        assert steps.claim(None).shards == 1
        assert closed == []
    assert closed == ["orders"]


def test_a_name_that_cannot_stand_in_a_row_ends_the_task_for_good(context: Any) -> None:
    step = made()
    step.app_name = "a/b"  # as a template may have rendered it
    with pytest.raises(AirflowFailException, match="a/b"), step.open(context):
        pytest.fail("nothing may be opened")


def test_what_a_retry_may_mend_is_left_to_the_retry(
    connection: Callable[..., None], tmp_path: Path, context: Any
) -> None:
    connection("leases_db", conn_type="sqlite", host=str(tmp_path / "leases.db"))
    step = made(staging=Staging(str(tmp_path)))
    with pytest.raises(errors.StoreError, match="silent"), step.open(context):
        raise errors.StoreError("The store is silent.")
    with pytest.raises(AirflowFailException, match="went to another"), step.open(context):
        raise errors.LeaseLost("It went to another.")


def test_a_step_measures_itself_and_what_it_does_for_its_application(
    connection: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    context: Any,
    statsd: StatsD,
) -> None:
    connection("leases_db", conn_type="sqlite", host=str(tmp_path / "leases.db"))
    (tmp_path / "staging").mkdir()
    stream = ScriptedStream()
    stream.put("a", "b")
    monkeypatch.setattr(KinesisStream, "open", lambda *_: stream)
    claim = ClaimOperator(
        task_id="claim",
        app_name="etl",
        stream=KinesisStream("orders"),
        leases=SQLLeases("leases_db"),
        staging=Staging(str(tmp_path / "staging")),
    )
    with claim.open(context) as steps:
        [group] = steps.claim(None).groups
        steps.land(group.group, stream.now_ms + 1, threading.Event())
    with pytest.raises(AirflowFailException), claim.open(context):
        raise errors.LeaseLost("It went to another.")
    wait_until(lambda: len(statsd.sent(step="claim")) == 2, 10, "the step's metrics to arrive")
    took, failed = statsd.sent(step="claim")
    assert (took.name, failed.name, failed.tags["error"]) == (
        *("shardbatch.step.duration", "shardbatch.step.failures"),
        "LeaseLost",
    )
    [read] = [sent for sent in statsd.sent(app="etl", stream="orders") if sent.name == "shardbatch.read.records"]
    assert read.value == 2


def test_each_step_has_its_own_name_in_metrics() -> None:
    named = {kind.__name__: kind.step_name for kind in (ClaimOperator, ReadOperator, FreezeOperator, CommitOperator)}
    assert named == {
        "ClaimOperator": "claim",
        "ReadOperator": "read",
        "FreezeOperator": "freeze",
        "CommitOperator": "commit",
    }


def test_the_link_of_a_step_leads_to_its_application_and_to_a_batch_that_it_lost(
    connection: Callable[..., None], tmp_path: Path, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__DEPLOYMENT_ID", "prod")
    connection("leases_db", conn_type="sqlite", host=str(tmp_path / "leases.db"))
    batch = Batch(
        namespace=Namespace("etl", "orders"),
        scope="",
        batch_id="b1",
        owner=str(Owner("prod", "nightly", "run+2", "batch")),
        row_count=1,
        state=BatchState.FROZEN,
    )
    step = made(staging=Staging(str(tmp_path)))
    with pytest.raises(AirflowFailException, match="belongs to"), step.open(context):
        raise lost(batch)
    store = store_digest(SQLLeases("leases_db"))
    assert BatchLink().get_link(step, ti_key=context["ti"]) == f"/plugin/streams#/app/{store}/etl/orders/batch/b1"
    other = made(staging=Staging(str(tmp_path)))
    with other.open(context):
        pass
    assert BatchLink().get_link(other, ti_key=context["ti"]) == f"/plugin/streams#/app/{store}/etl/orders"
