# SPDX-License-Identifier: Apache-2.0
"""What authors put into the block: whatever its shape, work that failed holds the checkpoint and the next run resumes.

All DAGs run at once: a first run whose work fails, then a second one after more records have come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from tests.support.airflow_instance import PATIENCE, Deployment

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(900)]

#: States of the author's tasks, and of commit if it is not the usual one, in the run that fails and in the next one.
SHAPES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "block_around": (
        {"cluster": "success", "work": "failed", "drop_cluster": "success"},
        {"cluster": "success", "work": "success", "drop_cluster": "success"},
    ),
    "block_notifier": ({"work": "failed", "tell": "success"}, {"work": "success", "tell": "success"}),
    "block_alert": ({"work": "failed", "alarm": "success"}, {"work": "success", "alarm": "skipped"}),
    "block_branch": (
        {"choose": "success", "work": "failed", "other": "skipped", "join": "upstream_failed"},
        {"choose": "success", "work": "success", "other": "skipped", "join": "success"},
    ),
    "block_mapped": ({"work[0]": "success", "work[1]": "failed"}, {"work[0]": "success", "work[1]": "success"}),
    "block_mapped_later": (
        {"parts": "success", "work[0]": "success", "work[1]": "failed"},
        {"parts": "success", "work[0]": "success", "work[1]": "success"},
    ),
    "block_nested": (
        {"outer.first": "success", "outer.inner.work": "failed", "outer.inner.last": "upstream_failed"},
        {"outer.first": "success", "outer.inner.work": "success", "outer.inner.last": "success"},
    ),
    "block_leaves": ({"aside": "skipped", "work": "failed"}, {"aside": "skipped", "work": "success"}),
    "block_soft": ({"work": "skipped", "commit": "failed"}, {"work": "success"}),
    "block_after": (
        {"work": "failed", "after": "upstream_failed", "always": "success"},
        {"work": "success", "after": "success", "always": "success"},
    ),
}
FIRST, LATER = (0, 20), (20, 30)


@dataclass(frozen=True)
class Ran:
    """A run of every DAG: its id, its state, what its tasks came to, the checkpoints and the output then."""

    runs: Mapping[str, str]
    ended: Mapping[str, str]
    tasks: Mapping[str, Mapping[str, str | None]]
    checkpoints: Mapping[str, set[str]]
    output: Mapping[str, list[str]]


def run_all(airflow: Deployment) -> Ran:
    runs = {name: airflow.start(name) for name in SHAPES}
    ended = {name: airflow.client.wait_for_run(name, run_id, PATIENCE) for name, run_id in runs.items()}
    return Ran(
        runs=runs,
        ended=ended,
        tasks={name: airflow.states(name, run_id) for name, run_id in runs.items()},
        checkpoints={name: {str(lease.checkpoint) for lease in airflow.leases(name)} for name in SHAPES},
        output={name: airflow.output(name) for name in SHAPES},
    )


@pytest.fixture(scope="module")
def sent(airflow: Deployment) -> dict[str, list[str]]:
    for name in SHAPES:
        airflow.create_stream(name, shards=1)
    airflow.client.wait_for_dag("block_consumer")  # which unpauses it: a paused DAG is told of no event
    return {name: airflow.put(name, *FIRST) for name in SHAPES}


@pytest.fixture(scope="module")
def failed(airflow: Deployment, sent: dict[str, list[str]]) -> Ran:
    words = [airflow.tell(f"{'skip' if name == 'block_soft' else 'fail'}-{name}") for name in SHAPES]
    ran = run_all(airflow)
    for word in words:
        word.unlink()
    return ran


@pytest.fixture(scope="module")
def resumed(airflow: Deployment, failed: Ran) -> Ran:
    for name in SHAPES:
        airflow.put(name, *LATER)
    return run_all(airflow)


@pytest.mark.parametrize("name", SHAPES)
def test_work_that_failed_holds_the_checkpoint_whatever_runs_after_it(
    airflow: Deployment, failed: Ran, name: str
) -> None:
    expected, _ = SHAPES[name]
    ours = {"claim": "success", "read[0]": "success", "freeze": "success", "commit": "upstream_failed"}
    assert failed.tasks[name] == {**ours, "report": "upstream_failed", **expected}
    assert failed.ended[name] == "failed"
    assert failed.checkpoints[name] == {"TRIM_HORIZON"}


@pytest.mark.parametrize("name", SHAPES)
def test_the_next_run_finishes_the_same_batch(
    airflow: Deployment, failed: Ran, resumed: Ran, sent: dict[str, list[str]], name: str
) -> None:
    _, expected = SHAPES[name]
    ours = {"claim": "success", "read": "skipped", "freeze": "success", "commit": "success", "report": "skipped"}
    assert resumed.tasks[name] == {**ours, **expected}
    assert resumed.ended[name] == "success"
    batch_ids = {airflow.xcom(name, ran.runs[name], "freeze", "batch_id") for ran in (failed, resumed)}
    assert batch_ids == {airflow.xcom(name, resumed.runs[name], "commit", "committed")["batch_id"]}
    assert resumed.output[name] == sent[name]  # each once, and none of those that came later
    assert "TRIM_HORIZON" not in resumed.checkpoints[name]


def test_commit_names_work_that_was_all_skipped(airflow: Deployment, failed: Ran) -> None:
    log = airflow.log("block_soft", failed.runs["block_soft"], "commit")
    assert "has 20 records, but no work succeeded: skipped batch.work" in log
