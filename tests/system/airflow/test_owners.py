# SPDX-License-Identifier: Apache-2.0
"""Whether an owner is over, asked by a real worker of a real API server."""

from __future__ import annotations

import pytest

from shardbatch.core.owner import Owner
from tests.support.airflow_instance import Deployment

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(900)]


def owner(run_id: str, deployment: str = "here") -> str:
    return str(Owner(deployment, "owner", run_id, "batch"))


def ask(airflow: Deployment, *owners: str) -> list[str]:
    run_id, state = airflow.run("ask", conf={"owners": list(owners)})
    assert state == "success"
    found = airflow.client.xcom("ask", run_id, "verdicts")
    return [found[text] for text in owners]


def test_finished_active_deleted_and_foreign_owners(airflow: Deployment) -> None:
    active, partly, finished, failed, deleted, cleared = (
        airflow.start("owner", run_id=f"run-{name}")
        for name in ("active", "partly", "finished", "failed", "deleted", "cleared")
    )
    airflow.tell(f"end-group-{partly}")
    for run_id in (finished, deleted, cleared):
        airflow.tell(f"end-group-{run_id}")
        airflow.tell(f"end-elsewhere-{run_id}")
        airflow.client.wait_for_run("owner", run_id)
    airflow.client.mark_run("owner", failed, "failed")
    airflow.client.delete_run("owner", deleted)
    airflow.client.wait_for_task("owner", partly, "batch.until_told", ["success"])
    # A run that has finished once and was cleared to run again is active, whatever its tasks did before.
    (airflow.folder / f"end-group-{cleared}").unlink()
    airflow.client.clear("owner", cleared)

    texts = [owner(run_id) for run_id in (active, partly, finished, failed, deleted, cleared)]
    assert ask(airflow, *texts, owner(finished, "elsewhere"), "a person") == [
        "active",
        "over",  # the group's own tasks are in a final state, whatever the rest of the run does
        "over",
        "over",
        "gone",
        "active",
        "foreign",
        "foreign",
    ]
    for run_id in (active, partly, cleared):
        airflow.client.mark_run("owner", run_id, "failed")


def test_no_answer_is_no_verdict(airflow: Deployment) -> None:
    airflow.proxy.refused = {"run-403": 403, "run-500": 500, "run-404": 404, "run-silent": None}
    try:
        answers = ask(airflow, *(owner(run_id) for run_id in airflow.proxy.refused))
    finally:
        airflow.proxy.refused = {}
    assert {"run-403", "run-500", "run-404", "run-silent"} <= set(airflow.proxy.asked)
    for answer, reason in zip(answers, ("403", "500", "404", "Timeout"), strict=True):
        assert answer.startswith("unknown:")
        assert reason in answer
