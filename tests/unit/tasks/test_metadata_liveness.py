# SPDX-License-Identifier: Apache-2.0
"""Who is over, as Airflow's metadata database says: the same as the API server says to a task, or not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow import settings
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from shardbatch.core.owner import Owner
from shardbatch.core.ports import Verdict
from shardbatch.errors import OwnerUnknown
from shardbatch.tasks.liveness import liveness
from shardbatch.tasks.metadata_liveness import metadata_liveness
from tests.support.metadata import Metadata


@pytest.fixture
def metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Metadata:
    found = Metadata(tmp_path)
    monkeypatch.setattr(settings, "Session", found.session)
    return found


def verdict(group: str = "orders", run: str = "r1", deployment: str = "here") -> Verdict:
    return metadata_liveness("here")(str(Owner(deployment, "dag", run, group)))


NESTED = {"orders.claim": "success", "orders.inner.work": "removed", "later": "running", "orders_eu.read": "running"}
CASES: dict[str, tuple[str | None, dict[str, str | None], Verdict]] = {
    "no such run": (None, {}, Verdict.GONE),
    "a success": ("success", {"orders.work": "running"}, Verdict.OVER),
    "failed": ("failed", {}, Verdict.OVER),
    "queued": ("queued", {}, Verdict.ACTIVE),
    "its group has ended": ("running", NESTED, Verdict.OVER),
    "no task of the group": ("running", {"orders_eu.claim": "success"}, Verdict.ACTIVE),
    "a task without a state": ("running", {"orders.claim": "success", "orders.read": None}, Verdict.ACTIVE),
    "a retry to come": ("running", {"orders.claim": "success", "orders.read": "up_for_retry"}, Verdict.ACTIVE),
}


@pytest.mark.parametrize("case", CASES)
def test_the_database_answers_as_the_api_server_does(
    metadata: Metadata, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    state, tasks, expected = CASES[case]
    metadata.create()
    if state is not None:
        metadata.run("dag", "r1", state)
    for task_id, of_task in tasks.items():
        metadata.task("dag", "r1", task_id, of_task)
    assert verdict() is expected

    def run_state(dag_id: str, run_id: str) -> str:
        if state is None:
            detail: dict[str, Any] = {"status_code": 404, "detail": {"detail": {"reason": "not_found"}}}
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail))
        return state

    monkeypatch.setattr(RuntimeTaskInstance, "get_dagrun_state", staticmethod(run_state))
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(lambda **_: {"r1": tasks}))
    assert liveness("here")(str(Owner("here", "dag", "r1", "orders"))) is expected


def test_every_instance_of_a_mapped_task_counts(metadata: Metadata) -> None:
    metadata.create()
    metadata.run("dag", "r1", "running")
    metadata.task("dag", "r1", "orders.read", "success", 0)
    metadata.task("dag", "r1", "orders.read", "running", 1)
    assert verdict() is Verdict.ACTIVE


def test_runs_of_another_dag_or_of_another_id_are_not_meant(metadata: Metadata) -> None:
    metadata.create()
    metadata.run("dag", "r2", "running")
    metadata.run("other", "r1", "running")
    assert verdict() is Verdict.GONE


def test_tasks_that_stand_alone_are_over_with_their_run(metadata: Metadata) -> None:
    metadata.create()
    metadata.run("dag", "r1", "running")
    metadata.task("dag", "r1", "claim", "success")
    assert verdict(group="") is Verdict.ACTIVE


def test_of_another_deployment_and_of_no_owner_nothing_is_asked(metadata: Metadata) -> None:
    assert verdict(deployment="there") is Verdict.FOREIGN  # there are no tables that could be asked
    assert metadata_liveness("here")("somebody") is Verdict.FOREIGN


def test_a_database_without_airflows_tables_says_nothing(metadata: Metadata) -> None:
    with pytest.raises(OwnerUnknown, match=r"run r1 of DAG dag is over \(OperationalError: .*no such table"):
        verdict()


def test_where_airflow_opens_no_database_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "Session", None)
    with pytest.raises(OwnerUnknown, match="Session must be set"):
        verdict()
