# SPDX-License-Identifier: Apache-2.0
"""Claims that wait for something to claim, in a running triggerer: no worker is held, and the deadline stays."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.airflow_instance import PATIENCE, Deployment
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(900)]


def state(airflow: Deployment, dag_id: str, run_id: str) -> str | None:
    return airflow.states(dag_id, run_id)["claim"]


def defers(airflow: Deployment, dag_id: str, run_id: str) -> None:
    airflow.client.wait_for_task(dag_id, run_id, "batch.claim", ["deferred"], PATIENCE)


def deadlines(airflow: Deployment, dag_id: str, run_id: str, attempt: int = 1) -> list[str]:
    """Until when the task said that it waits, each time that it was deferred."""
    return re.findall(r"waits until (\S+) at the latest", airflow.log(dag_id, run_id, "claim", attempt))


def enrolled(airflow: Deployment, dag_id: str) -> None:
    """The first run: it has something to claim, since it writes down where the application begins."""
    airflow.create_stream(dag_id, shards=2)
    assert airflow.run(dag_id)[1] == "success"


@pytest.fixture(scope="module", autouse=True)
def patient(airflow: Deployment) -> None:
    enrolled(airflow, "patient")


def test_of_the_runs_that_wait_one_claims_what_comes_and_the_others_wait_on(airflow: Deployment) -> None:
    runs = [airflow.start("patient") for _ in range(2)]
    for run_id in runs:
        defers(airflow, "patient", run_id)
    before, sent = airflow.output("patient"), airflow.put("patient", 0, 5)
    wait_until(
        lambda: airflow.output("patient") == sorted(before + sent), PATIENCE, "one of the runs to claim the records"
    )
    winner = next(run for run in runs if state(airflow, "patient", run) == "success")
    (loser,) = set(runs) - {winner}
    more = airflow.put("patient", 5, 8)
    assert airflow.client.wait_for_run("patient", loser, PATIENCE) == "success"
    assert airflow.client.wait_for_run("patient", winner, PATIENCE) == "success"
    assert airflow.output("patient") == sorted(before + sent + more)
    assert len(set(deadlines(airflow, "patient", loser))) == 1


@pytest.mark.long
def test_a_wait_outlives_its_triggerer_with_the_deadline_that_it_had(airflow: Deployment) -> None:
    run_id = airflow.start("patient")
    defers(airflow, "patient", run_id)
    airflow.instance.restart("triggerer")
    before = airflow.output("patient")
    sent = airflow.put("patient", 100, 103)
    assert airflow.client.wait_for_run("patient", run_id, PATIENCE) == "success"
    assert airflow.output("patient") == sorted(before + sent)
    assert len(set(deadlines(airflow, "patient", run_id))) == 1


@pytest.mark.long
def test_a_run_that_waits_takes_over_what_a_failed_run_left(airflow: Deployment) -> None:
    """The triggerer asks Airflow whether the run is over that holds all shards, until it is."""
    told, before = airflow.tell("fail-patient"), airflow.output("patient")
    sent = airflow.put("patient", 200, 203)
    fails = airflow.start("patient")
    airflow.client.wait_for_task("patient", fails, "batch.claim", ["success"], PATIENCE)
    waits = airflow.start("patient")
    assert airflow.client.wait_for_run("patient", fails, PATIENCE) == "failed"
    assert airflow.client.wait_for_run("patient", waits, PATIENCE) == "success"
    told.unlink()
    assert airflow.xcom("patient", waits, "claim", "outcome") == "adopted"
    assert airflow.output("patient") == sorted(before + sent)
    assert "No triggerer" not in airflow.log("patient", waits, "claim")


@pytest.mark.long
def test_at_its_deadline_a_run_claims_and_reads_once_and_waits_anew_when_it_is_cleared(airflow: Deployment) -> None:
    enrolled(airflow, "hasty")
    run_id = airflow.start("hasty")
    assert airflow.client.wait_for_run("hasty", run_id, PATIENCE) == "success"
    assert airflow.states("hasty", run_id)["work"] == "skipped"
    assert airflow.xcom("hasty", run_id, "read", map_index=0)["stops"] == {"tip": 2}
    before = deadlines(airflow, "hasty", run_id)
    assert before
    assert airflow.again("hasty", run_id) == "success"
    (after,) = set(deadlines(airflow, "hasty", run_id, attempt=2))
    assert after > max(before)


@pytest.mark.long
def test_a_run_over_an_interval_that_has_just_ended_is_away_until_nothing_can_be_missing(airflow: Deployment) -> None:
    before = airflow.output("patient")
    begin = datetime.now(UTC) - timedelta(milliseconds=50)
    sent = airflow.put("patient", 300, 303)
    end = datetime.now(UTC) + timedelta(milliseconds=50)
    conf = {"batch.from": begin.isoformat(), "batch.to": end.isoformat()}
    run_id = airflow.start("patient", conf=conf)
    defers(airflow, "patient", run_id)
    assert not [row for row in airflow.leases("patient") if row.lease_owner]
    assert airflow.client.wait_for_run("patient", run_id, PATIENCE) == "success"
    assert datetime.now(UTC) - end > timedelta(minutes=1)
    assert airflow.output("patient") == sorted(before + sent)
