# SPDX-License-Identifier: Apache-2.0
"""A stream wakes the DAG that reads it: what came while the DAG was paused is read by one run, and an idle stream makes
no event."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.airflow_instance import Deployment
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(900)]


def wake_ups(airflow: Deployment) -> list[dict[str, Any]]:
    found = airflow.client.call("GET", "assets/events", limit=1000)["asset_events"]
    return [event for event in found if event["name"] == "test/wakes/unread"]


def unpause(airflow: Deployment) -> None:
    """Airflow starts a watcher when it parses the file of a DAG that is not paused, so it is asked to do that now."""
    airflow.client.wait_for_dag("wakes")
    token = airflow.client.call("GET", "dags/wakes")["file_token"]
    airflow.client.call("PUT", f"parseDagFile/{token}")


def polls(airflow: Deployment, more: int) -> None:
    """Wait until the watcher has asked the stream so many times."""
    calls = airflow.streams.calls
    wanted = calls.count("GetRecords", "wakes") + more
    wait_until(lambda: calls.count("GetRecords", "wakes") >= wanted, 120, f"{more} polls")


def state_store(airflow: Deployment, asset: str) -> dict[str, Any]:
    assets = airflow.client.call("GET", "assets", name_pattern=asset, limit=100)["assets"]
    (found,) = [one["id"] for one in assets if one["name"] == asset]
    kept = airflow.client.call("GET", f"assets/{found}/state-store")["asset_state_store"]
    return {entry["key"]: entry["value"] for entry in kept}


def test_records_wake_a_run_that_reads_all_and_an_idle_stream_wakes_none(airflow: Deployment) -> None:  # R97
    airflow.create_stream("wakes", shards=1)
    data = airflow.put("wakes", 0, 3)
    data = sorted(data + airflow.put("wakes", 3, 5))
    unpause(airflow)
    wait_until(lambda: airflow.output("wakes") == data, 120, "the records that came during the pause")
    (run,) = airflow.client.runs("wakes")
    assert (run["run_type"], airflow.client.wait_for_run("wakes", run["dag_run_id"])) == ("asset_triggered", "success")
    (event,) = wake_ups(airflow)
    assert event["extra"]["payload"].keys() == {"application", "why", "at"}
    polls(airflow, 5)
    assert len(wake_ups(airflow)) == len(airflow.client.runs("wakes")) == 1
    kept = state_store(airflow, "test/wakes")
    assert kept["committed_up_to"][0] == 0
    assert kept["watermark"]["records"] == len(data)
    assert state_store(airflow, "test/wakes/unread")["watcher"]["found"] == "Nothing to read."
    airflow.client.call("PATCH", "dags/wakes", {"is_paused": True})  # no watcher polls on
