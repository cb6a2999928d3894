# SPDX-License-Identifier: Apache-2.0
"""Hundreds of shards: what stands in Airflow's metadata database stays small."""

from __future__ import annotations

import pytest

from tests.support.airflow_instance import Deployment

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(1200)]

SHARDS = 700
MOST_BYTES = 8 * 1024
MOST_LABEL = 200


def test_xcoms_and_labels_stay_small(airflow: Deployment) -> None:
    # R94
    airflow.create_stream("many", shards=SHARDS)
    sent = airflow.put("many", 0, 1000)
    run_id = airflow.start("many")
    assert airflow.client.wait_for_run("many", run_id, 900) == "success"
    assert airflow.output("many") == sent
    assert len(airflow.leases("many")) == SHARDS
    claimed = airflow.xcom("many", run_id, "claim")
    landed = [airflow.xcom("many", run_id, "read", map_index=index) for index in range(len(claimed))]
    assert sum(task["shards"] for task in landed) == SHARDS

    sizes = airflow.metadata_rows(
        "SELECT task_id, map_index, sum(octet_length(value::text)) FROM xcom WHERE dag_id = 'many' AND run_id = %s"
        " GROUP BY task_id, map_index",
        run_id,
    )
    assert {task_id for task_id, _, _ in sizes} >= {"batch.claim", "batch.read", "batch.freeze", "batch.commit"}
    assert [row for row in sizes if row[2] >= MOST_BYTES] == []

    # Airflow keeps the label in 250 characters on PostgreSQL and fails the task beyond.
    labels = airflow.metadata_rows(
        "SELECT rendered_map_index FROM task_instance WHERE dag_id = 'many' AND task_id = 'batch.read' AND run_id = %s",
        run_id,
    )
    assert len(labels) == 16
    for (label,) in labels:
        assert "shardId-" in label
        assert len(label) <= MOST_LABEL
