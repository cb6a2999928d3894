# SPDX-License-Identifier: Apache-2.0
"""Verbs as tasks of a real Airflow: a batch whose work failed is set aside, and shards go back with a preview first."""

from __future__ import annotations

import pytest

from tests.support.airflow_instance import Deployment

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.airflow, pytest.mark.timeout(900)]


def test_a_poison_batch_is_set_aside_by_the_dag_itself_and_all_is_read_again_after_a_reset(airflow: Deployment) -> None:
    airflow.create_stream("verbs")
    poison = airflow.put("verbs", 0, 30)
    told = airflow.tell("fail-verbs")
    first, _ = airflow.run("verbs")
    states = airflow.states("verbs", first)
    assert (states["work"], states["commit"], states["set_aside"]) == ("failed", "upstream_failed", "success")
    batch_id = airflow.xcom("verbs", first, "freeze", "batch_id")
    answer = airflow.client.xcom("verbs", first, "set_aside", "return_value", -1)
    assert [(row["name"], row["result"]) for row in answer["rows"]] == [(batch_id, "set aside")]
    assert "its owner is over" in answer["rows"][0]["effect"]  # as Airflow itself was asked
    told.unlink()

    sent = airflow.put("verbs", 30, 50)
    later, state = airflow.run("verbs")
    assert (state, airflow.states("verbs", later)["set_aside"]) == ("success", "skipped")
    assert airflow.output("verbs") == sent

    before = airflow.leases("verbs")
    preview, state = airflow.run("verbs_repair")
    answer = airflow.client.xcom("verbs_repair", preview, "reset", "return_value", -1)
    assert (state, answer["preview"], answer["counts"]) == ("success", True, {"would reset": 2})
    assert airflow.leases("verbs") == before
    done, state = airflow.run("verbs_repair", conf={"preview": False})
    assert (state, airflow.client.xcom("verbs_repair", done, "reset", "return_value", -1)["counts"]) == (
        "success",
        {"reset": 2},
    )
    assert all(f"{done} asked for it" in (lease.note or "") for lease in airflow.leases("verbs"))
    _, state = airflow.run("verbs")
    assert state == "success"
    assert sorted(airflow.output("verbs")) == sorted(sent + sent + poison)
