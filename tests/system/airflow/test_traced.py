# SPDX-License-Identifier: Apache-2.0
"""What a run leaves beside its output, in a real Airflow: metrics, lineage and links."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shardbatch import SQLLeases
from shardbatch.hooks.leases import store_digest
from shardbatch.tasks.lineage import FACET
from tests.support.airflow_instance import PATIENCE, Deployment
from tests.support.statsd import Sent
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]

RUN = "manual__2026-11-01T00:00:00+01:00"


@pytest.fixture(scope="module")
def run(airflow: Deployment) -> str:
    """A run with a Spark application that is a success."""
    airflow.create_stream("traced", shards=2)
    airflow.put("traced", 0, 40)
    run_id = airflow.start("traced", run_id=RUN)
    assert airflow.client.wait_for_run("traced", run_id, PATIENCE) == "success", airflow.states("traced", run_id)
    return run_id


def names(datasets: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(one["namespace"], one["name"]) for one in datasets}


def test_the_metrics_of_a_run_reach_a_statsd_server(airflow: Deployment, run: str) -> None:
    def heard() -> dict[str, list[Sent]]:
        found: dict[str, list[Sent]] = {}
        for sent in airflow.statsd.sent(app="test", stream="traced", mode="incremental"):
            found.setdefault(sent.name, []).append(sent)
        return found

    steps = ["claim", "commit", "freeze", "read", "read", "work"]
    took = "shardbatch.step.duration"
    wait_until(lambda: sorted(sent.tags["step"] for sent in heard().get(took, [])) == steps, 30, "all steps' times")
    found = heard()
    outcome = airflow.xcom("traced", run, "commit", "committed")
    total = {name: sum(sent.value for sent in found.get(name, [])) for name in found}
    assert total["shardbatch.read.records"] == total["shardbatch.committed.records"] == 40
    assert total["shardbatch.read.bytes"] == total["shardbatch.committed.bytes"] == outcome["bytes"]
    assert total["shardbatch.committed.batches"] == 1
    assert 0 < total["shardbatch.committed.age"] < PATIENCE * 1000
    assert found["shardbatch.behind"][-1].value < 600_000
    assert 0 < found["shardbatch.until_data_loss"][-1].value <= 24 * 3_600_000
    assert found["shardbatch.oldest_batch"][-1].value == 0
    [work] = [sent for sent in found[took] if sent.tags["step"] == "work"]
    assert work.value > 1000  # a JVM was started
    assert {"shardbatch.step.failures", "shardbatch.committed.gaps", "shardbatch.lost_races"}.isdisjoint(found)


def test_openlineage_is_told_of_the_ranges_on_their_way_from_the_stream_to_its_readers(
    airflow: Deployment, run: str
) -> None:
    def complete() -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        for event in airflow.lineage("traced"):
            if event["eventType"] == "COMPLETE":
                found.setdefault(event["job"]["name"].rpartition(".")[2], []).append(event)
        return found

    wait_until(lambda: len(complete().get("read", [])) == 2 and "commit" in complete(), 30, "the events of all tasks")
    events = complete()
    batch_id = airflow.xcom("traced", run, "freeze", "batch_id")
    stream = ("arn:aws:kinesis:us-east-1:123456789012", "traced")
    staging = ("file", f"{airflow.folder}/staging/test/traced")
    out = ("file", str(Path(airflow.folder) / "out" / "traced"))
    ranges: dict[str, dict[str, Any]] = {}
    for read in events["read"]:
        assert (names(read["inputs"]), names(read["outputs"])) == ({stream}, {staging})
        ranges.update((one["shardId"], one) for one in read["inputs"][0]["facets"][FACET]["ranges"])
    [work], [commit] = events["work"], events["commit"]
    assert (names(work["inputs"]), names(work["outputs"])) == ({staging}, {out})
    assert (names(commit["inputs"]), names(commit["outputs"])) == ({staging}, {out, ("x-shardbatch://test", "traced")})
    for dataset in [*work["inputs"], *work["outputs"], *commit["inputs"], *commit["outputs"]]:
        facet = dataset["facets"][FACET]
        assert (facet["batchId"], facet["records"], facet["shards"]) == (batch_id, 40, 2)
        assert {one["shardId"]: one for one in facet["ranges"]} == ranges
    leases = {lease.shard_id: str(lease.checkpoint) for lease in airflow.leases("traced")}
    assert {shard_id: one["until"] for shard_id, one in ranges.items()} == leases


@pytest.mark.parametrize(
    ("task", "map_index"), [("claim", -1), ("read", 0), ("read", 1), ("freeze", -1), ("work", -1), ("commit", -1)]
)
def test_every_task_links_to_its_batch_and_those_before_it_to_the_application(
    airflow: Deployment, run: str, task: str, map_index: int
) -> None:
    address = f"/plugin/streams#/app/{store_digest(SQLLeases('leases_local'))}/test/traced"
    if task not in ("claim", "read"):
        address += f"/batch/{airflow.xcom('traced', run, 'freeze', 'batch_id')}"
    assert airflow.links("traced", run, task, map_index)["Batch"] == address
