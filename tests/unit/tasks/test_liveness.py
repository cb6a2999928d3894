# SPDX-License-Identifier: Apache-2.0
"""Who is over, as far as Airflow says so: whatever is not known for certain counts as at work."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from shardbatch.core.owner import Owner
from shardbatch.core.ports import Verdict
from shardbatch.errors import OwnerUnknown
from shardbatch.tasks.liveness import liveness


class Answers:
    """What Airflow answers about one run: its state, its tasks' states, or an error instead of the first."""

    def __init__(self) -> None:
        self.run: str = "running"
        self.tasks: dict[str, str | None] = {}
        self.error: dict[str, Any] | None = None
        self.asked = 0

    def run_state(self, dag_id: str, run_id: str) -> str:
        self.asked += 1
        if self.error is not None:
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=self.error))
        return self.run

    def task_states(self, **_: Any) -> dict[str, Any]:
        return {"r1": self.tasks}

    def verdict(self, group: str = "orders", deployment: str = "here") -> Verdict:
        return liveness("here")(str(Owner(deployment, "dag", "r1", group)))


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Answers:
    answers = Answers()
    monkeypatch.setattr(RuntimeTaskInstance, "get_dagrun_state", staticmethod(answers.run_state))
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(answers.task_states))
    return answers


def test_of_another_deployment_and_of_no_owner_nothing_is_asked(airflow: Answers) -> None:
    assert airflow.verdict(deployment="there") is Verdict.FOREIGN
    assert liveness("here")("somebody") is Verdict.FOREIGN
    assert airflow.asked == 0


@pytest.mark.parametrize("state", ["success", "failed"])
def test_a_run_that_has_ended_is_over(airflow: Answers, state: str) -> None:
    airflow.run = state
    assert airflow.verdict() is Verdict.OVER


def test_a_group_whose_tasks_have_all_ended_is_over_whatever_the_rest_of_its_run_does(airflow: Answers) -> None:
    airflow.tasks = {
        "orders.claim": "success",
        "orders.read_0": "failed",
        "orders.freeze": "upstream_failed",
        "orders.commit": "skipped",
        "orders.inner.work": "removed",
        "later": "running",
        "orders_eu.read": "running",
        "orders_eu.commit": None,
    }
    assert airflow.verdict() is Verdict.OVER


@pytest.mark.parametrize("state", ["up_for_retry", "running", "queued", "scheduled", "restarting", "deferred", None])
def test_a_group_with_a_task_that_may_yet_run_is_active(airflow: Answers, state: str | None) -> None:
    airflow.tasks = {"orders.claim": "success", "orders.read_0": state}
    assert airflow.verdict() is Verdict.ACTIVE


def test_a_run_of_which_no_task_of_the_group_is_known_is_active(airflow: Answers) -> None:
    airflow.tasks = {"orders_eu.claim": "success"}
    assert airflow.verdict() is Verdict.ACTIVE
    assert airflow.verdict(group="") is Verdict.ACTIVE  # tasks that stand alone are over with their run


def test_only_airflows_own_not_found_says_that_a_run_is_gone(airflow: Answers) -> None:
    airflow.error = {"status_code": 404, "detail": {"detail": {"reason": "not_found", "message": "no such run"}}}
    assert airflow.verdict() is Verdict.GONE


@pytest.mark.parametrize(
    "detail",
    [
        {"status_code": 404, "detail": "<html>nginx</html>"},
        {"status_code": 404, "detail": {"detail": "Not Found"}},
        {"status_code": 403, "detail": {"detail": {"reason": "not_found"}}},
        {"status_code": 502},
        {"exception_type": "ReadTimeout"},
        None,
    ],
)  # V18
def test_any_other_error_of_the_question_stops_the_claim(airflow: Answers, detail: dict[str, Any] | None) -> None:
    airflow.error = detail or {}
    with pytest.raises(OwnerUnknown, match="r1 of DAG dag"):
        airflow.verdict()
