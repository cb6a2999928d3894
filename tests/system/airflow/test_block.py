# SPDX-License-Identifier: Apache-2.0
"""What authors put into the block: whatever its shape, work that failed holds the checkpoint and the next run resumes.

All DAGs run at once: a first run whose work fails, then a second one after more records have come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.airflow_instance import PATIENCE, Deployment
from tests.support.waiting import wait_until

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
#: Shapes that differ little from another one.
REPEATED = (
    *("block_notifier", "block_alert", "block_branch", "block_mapped", "block_mapped_later", "block_nested"),
    "block_leaves",
)
each_shape = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in REPEATED else ()) for name in SHAPES]
)


@dataclass(frozen=True)
class Ran:
    """A run of every DAG: its id, its state, what its tasks came to, the checkpoints and the output then."""

    runs: Mapping[str, str]
    ended: Mapping[str, str]
    tasks: Mapping[str, Mapping[str, str | None]]
    checkpoints: Mapping[str, set[str]]
    output: Mapping[str, list[str]]


def run_all(airflow: Deployment, names: Iterable[str]) -> Ran:
    runs = {name: airflow.start(name) for name in names}
    ended = {name: airflow.client.wait_for_run(name, run_id, PATIENCE) for name, run_id in runs.items()}
    return Ran(
        runs=runs,
        ended=ended,
        tasks={name: airflow.states(name, run_id) for name, run_id in runs.items()},
        checkpoints={name: {str(lease.checkpoint) for lease in airflow.leases(name)} for name in runs},
        output={name: airflow.output(name) for name in runs},
    )


@pytest.fixture(scope="module")
def sent(airflow: Deployment, request: pytest.FixtureRequest) -> dict[str, list[str]]:
    items = [item for item in request.session.items if item.module is request.module]
    chosen = {item.callspec.params["name"] for item in items if hasattr(item, "callspec")}
    if len(chosen) < len(items):  # tests without a shape of their own look at several
        chosen |= SHAPES.keys() - set(REPEATED)
    for name in chosen:
        airflow.create_stream(name, shards=1)
    airflow.client.wait_for_dag("block_consumer")  # which unpauses it: a paused DAG is told of no event
    return {name: airflow.put(name, *FIRST) for name in chosen}


@pytest.fixture(scope="module")
def failed(airflow: Deployment, sent: dict[str, list[str]]) -> Ran:
    words = [airflow.tell(f"{'skip' if name == 'block_soft' else 'fail'}-{name}") for name in sent]
    ran = run_all(airflow, sent)
    for word in words:
        word.unlink()
    return ran


@pytest.fixture(scope="module")
def resumed(airflow: Deployment, failed: Ran) -> Ran:
    for name in failed.runs:
        airflow.put(name, *LATER)
    return run_all(airflow, failed.runs)


@each_shape
def test_work_that_failed_holds_the_checkpoint_whatever_runs_after_it(
    airflow: Deployment, failed: Ran, name: str
) -> None:
    expected, _ = SHAPES[name]
    ours = {"claim": "success", "read[0]": "success", "freeze": "success", "commit": "upstream_failed"}
    assert failed.tasks[name] == {**ours, "report": "upstream_failed", **expected}
    assert failed.ended[name] == "failed"
    assert failed.checkpoints[name] == {"TRIM_HORIZON"}


@each_shape
def test_the_next_run_finishes_the_same_batch(
    airflow: Deployment, failed: Ran, resumed: Ran, sent: dict[str, list[str]], name: str
) -> None:
    _, expected = SHAPES[name]
    ours = {"claim": "success", "read": "skipped", "freeze": "success", "commit": "success", "report": "success"}
    assert resumed.tasks[name] == {**ours, **expected}
    assert resumed.ended[name] == "success"
    batch_ids = {airflow.xcom(name, ran.runs[name], "freeze", "batch_id") for ran in (failed, resumed)}
    assert batch_ids == {airflow.xcom(name, resumed.runs[name], "commit", "committed")["batch_id"]}
    assert resumed.output[name] == sent[name]  # each once, and none of those that came later
    assert "TRIM_HORIZON" not in resumed.checkpoints[name]


def test_commit_names_work_that_was_all_skipped(airflow: Deployment, failed: Ran) -> None:
    log = airflow.log("block_soft", failed.runs["block_soft"], "commit")
    assert "has 20 records, but no work succeeded: skipped batch.work" in log


@pytest.mark.long
def test_an_empty_batch_skips_the_work_of_any_shape(airflow: Deployment, resumed: Ran) -> None:
    names = ("block_around", "block_branch", "block_mapped_later")
    assert set(run_states(airflow, names)) == {"success"}  # these take what came later
    runs = {name: airflow.start(name) for name in names}
    ended = {name: airflow.client.wait_for_run(name, run_id, PATIENCE) for name, run_id in runs.items()}
    assert set(ended.values()) == {"success"}
    for name, run_id in runs.items():
        states = airflow.states(name, run_id)
        ours = {task: states.pop(task) for task in ("claim", "read[0]", "freeze", "commit", "report")}
        assert set(ours.values()) == {"success"}, name
        assert set(states.values()) == {"skipped"}, name


def run_states(airflow: Deployment, names: tuple[str, ...]) -> list[str]:
    runs = {name: airflow.start(name) for name in names}
    return [airflow.client.wait_for_run(name, run_id, PATIENCE) for name, run_id in runs.items()]


@pytest.mark.long
def test_an_empty_block_lands_only(airflow: Deployment) -> None:
    airflow.create_stream("block_landing", shards=2)
    sent = airflow.put("block_landing", *FIRST)
    first, state = airflow.run("block_landing")
    assert state == "success"
    outcome = airflow.xcom("block_landing", first, "commit", "committed")
    assert (outcome["newly"], outcome["records"]) == (True, 20)
    assert outcome["manifest_uri"] == airflow.xcom("block_landing", first, "freeze", "manifest_uri")
    assert airflow.output("block_landing") == sent
    [event] = airflow.events("block_landing")
    assert event["extra"]["manifest_uri"] == outcome["manifest_uri"]

    _, state = airflow.run("block_landing")  # nothing new
    assert state == "success"
    checkpoints = {str(lease.checkpoint) for lease in airflow.leases("block_landing")}

    # Cleared, it is the same batch again, and nothing else.
    assert airflow.again("block_landing", first) == "success"
    replayed = airflow.xcom("block_landing", first, "commit", "committed")
    assert {key: replayed[key] for key in ("batch_id", "manifest_uri", "newly", "replayed")} == {
        "batch_id": outcome["batch_id"],
        "manifest_uri": outcome["manifest_uri"],
        "newly": False,
        "replayed": True,
    }
    assert {str(lease.checkpoint) for lease in airflow.leases("block_landing")} == checkpoints
    assert len(airflow.events("block_landing")) == 1

    sent += airflow.put("block_landing", *LATER)
    _, state = airflow.run("block_landing")
    assert state == "success"
    assert airflow.output("block_landing") == sorted(sent)


def test_a_dag_on_the_asset_runs_once_for_each_batch_with_records(airflow: Deployment, resumed: Ran) -> None:
    # By now: a run that failed, and one that committed.
    name, committed = "block_after", resumed.runs["block_after"]
    batches = [airflow.xcom(name, committed, "freeze", "batch_id")]
    assert consumed(airflow, 1) == batches

    later, state = airflow.run(name)
    assert state == "success"
    batches.append(airflow.xcom(name, later, "freeze", "batch_id"))
    assert consumed(airflow, 2) == batches

    _, state = airflow.run(name)  # an empty one
    assert state == "success"
    assert airflow.again(name, committed, ["work"], include_downstream=True) == "success"  # a replay
    assert airflow.xcom(name, committed, "commit", "committed")["replayed"] is True

    airflow.put(name, 30, 40)
    last, state = airflow.run(name)
    assert state == "success"
    batches.append(airflow.xcom(name, last, "freeze", "batch_id"))
    assert consumed(airflow, 3) == batches
    assert airflow.output(name) == sorted(f"r{number}" for number in range(40))


def consumed(airflow: Deployment, expected: int) -> list[str]:
    """The batches that the runs of the DAG on the asset have seen, one event a run, once there are so many."""

    def runs() -> list[dict[str, Any]]:
        found = airflow.client.runs("block_consumer")
        return found if len(found) >= expected and all(run["state"] == "success" for run in found) else []

    seen = wait_until(runs, PATIENCE, f"{expected} runs of the consumer")
    paths = [f"dags/block_consumer/dagRuns/{quote(run['dag_run_id'], safe='')}/upstreamAssetEvents" for run in seen]
    events = [airflow.client.call("GET", path)["asset_events"] for path in paths]
    assert [len(found) for found in events] == [1] * len(seen)
    return [found["extra"]["batch_id"] for [found] in events]
