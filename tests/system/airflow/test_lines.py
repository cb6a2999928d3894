# SPDX-License-Identifier: Apache-2.0
"""A stream of a service that shardbatch does not know, in a DAG of a real Airflow: its class is defined in `tests`."""

from __future__ import annotations

import pytest

from tests.support.airflow_instance import Deployment
from tests.support.lines.files import LineFiles

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(900)]


def test_runs_of_a_stream_of_lines(airflow: Deployment) -> None:
    files = LineFiles(airflow.folder / "streams", "lines")
    files.create(2)
    first, second = (shelf.name for shelf in files.shards())
    files.put(first, "a", "b")
    files.put(second, "c")
    run, state = airflow.run("lines")
    assert state == "success"
    assert airflow.output("lines") == ["a", "b", "c"]
    outcome = airflow.xcom("lines", run, "commit", "committed")
    assert outcome["records"] == 3
    assert airflow.client.xcom("lines", run, "look") == {
        "application": "test/lines",
        "committed_batches": 1,
        "shards": {first: "free", second: "free"},
        "batches": [[outcome["batch_id"], "COMMITTED", 3]],
        "latest": outcome["batch_id"],
    }

    empty, state = airflow.run("lines")
    assert state == "success"
    assert airflow.states("lines", empty)["work"] == "skipped"

    files.put(first, "d")
    (child,) = files.reshard(first, second, children=1)
    files.put(child, "e")
    _, state = airflow.run("lines")
    assert state == "success"
    assert airflow.output("lines") == ["a", "b", "c", "d", "e"]
    assert {lease.shard_id for lease in airflow.leases("lines") if lease.completed} == {first, second}
