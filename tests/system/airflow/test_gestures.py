# SPDX-License-Identifier: Apache-2.0
"""What a person does to a run in Airflow's pages, by REST as they do it: the table of gestures, cell by cell.

Each story has a DAG and a stream of its own and all are told at once; a test then looks at how its story ended.
Clearing the work, or the whole run, of a run that committed, and clearing the work of a run whose batch another has
committed, are in test_runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow.parquet as pq
import pytest

from tests.support.airflow_instance import PATIENCE, Deployment
from tests.system.airflow.scene import Scene

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(900)]


# ---------------------------------------------------------------------- this owner still has its batch


def gesture_retry(scene: Scene) -> None:
    scene.airflow.tell(f"once-{scene.name}")
    assert scene.run("p") == "success"
    tries = {task["task_id"]: task["try_number"] for task in scene.airflow.client.tasks(scene.name, "p")}
    assert (tries["batch.freeze"], tries["batch.work"]) == (1, 2)
    assert scene.written() == {scene.batch_id("p"): 1}
    assert scene.output() == scene.sent


def gesture_clear_work(scene: Scene) -> None:
    scene.fail("p")
    sent, batch_id = list(scene.sent), scene.batch_id("p")
    scene.put_more()
    assert scene.clear("p", "work", include_downstream=True) == "success"
    assert scene.written() == {batch_id: 2}
    assert scene.output() == sent
    assert (scene.batch().decided, scene.batch().note) == (2, None)


def gesture_clear_run(scene: Scene) -> None:
    scene.fail("p")
    sent, batch_id, manifest = list(scene.sent), scene.batch_id("p"), scene.xcom("p", "freeze", "manifest_digest")
    scene.put_more()
    assert scene.clear("p") == "success"
    assert scene.xcom("p", "claim", "outcome") == "own_batch"
    assert scene.xcom("p", "freeze", "manifest_digest") == manifest
    assert scene.written() == {batch_id: 2}
    assert scene.output() == sent


def gesture_clear_alone(scene: Scene) -> None:
    scene.fail("p")
    sent, batch_id, rows = list(scene.sent), scene.batch_id("p"), scene.rows()
    scene.put_more()
    assert scene.clear("p", "read") == "failed"
    assert f"its slices are in batch {batch_id}; nothing is read" in scene.log("p", "read", 2, map_index=0)
    assert scene.rows() == rows
    assert scene.clear("p", "claim") == "failed"
    assert (scene.xcom("p", "claim", "outcome"), scene.xcom("p", "claim", "batch_id")) == ("own_batch", batch_id)
    assert scene.rows() == rows

    # And the run can still be mended as ever.
    assert scene.clear("p", "work", include_downstream=True) == "success"
    assert scene.written() == {batch_id: 2}
    assert scene.output() == sent


def gesture_mark_work(scene: Scene) -> None:
    scene.fail("p")
    assert scene.mark("p", "work", "success") == "success"
    assert scene.states("p")["commit"] == "success"
    assert (scene.batch().state.value, scene.batch().decided) == ("COMMITTED", 1)
    assert scene.batch().note == "committed_by_hand"
    assert not scene.unmoved()
    assert scene.run("q") == "success"  # with nothing to do: the records are gone by, as that person wanted
    assert scene.output() == []


def gesture_mark_failed(scene: Scene) -> None:
    held = scene.airflow.tell(f"hold-{scene.name}")
    scene.start("p")
    scene.airflow.client.wait_for_task(scene.name, "p", "batch.work", ["running"], PATIENCE)
    assert scene.mark("p", "work", "failed") in ("running", "failed")
    assert scene.wait("p") == "failed"
    assert scene.unmoved()
    held.unlink()
    assert scene.run("q") == "success"
    assert scene.xcom("q", "claim", "outcome") == "adopted"
    assert scene.written() == {scene.batch_id("p"): 2}
    assert scene.output() == scene.sent


def gesture_mark_commit(scene: Scene) -> None:
    scene.fail("p")
    assert scene.mark("p", "commit", "success") == "failed"
    assert "marked success by hand, and has decided nothing" in scene.log("p", "report")
    assert scene.unmoved()
    assert scene.batch().state.value == "FROZEN"
    assert scene.airflow.events(scene.name) == []
    assert scene.run("q") == "success"
    assert f"Adopted batch {scene.batch_id('p')} of " in scene.log("q", "claim")
    assert "/p/" in scene.log("q", "claim")
    assert scene.written() == {scene.batch_id("p"): 2}
    assert scene.output() == scene.sent


def gesture_delete(scene: Scene) -> None:
    scene.fail("p")
    batch_id = scene.batch_id("p")
    scene.airflow.client.delete_run(scene.name, "p")
    # Airflow knows nothing of its owner any more: it is adopted once its row has stood still for the lease_duration,
    # in which the claim holds no worker.
    scene.start("q")
    scene.airflow.client.wait_for_task(scene.name, "q", "batch.claim", ["deferred"], PATIENCE)
    assert scene.wait("q") == "success"
    assert scene.xcom("q", "claim", "outcome") == "adopted"
    log = scene.log("q", "claim")
    assert "Looking again at 1 batches of runs that are gone after 10 s" in log
    assert "No triggerer" not in log
    assert scene.written() == {batch_id: 2}
    assert scene.output() == scene.sent


# ---------------------------------------------------------------------- committed by this run


def gesture_committed(scene: Scene) -> None:
    assert scene.run("p") == "success"
    sent, batch_id, rows = list(scene.sent), scene.batch_id("p"), scene.rows()
    scene.put_more()
    assert scene.clear("p", "read") == "success"
    assert f"its slices are in batch {batch_id}; nothing is read" in scene.log("p", "read", 2, map_index=0)
    assert scene.clear("p", "claim") == "success"
    assert scene.xcom("p", "claim", "outcome") == "replay"
    assert "a replay, no new records" in scene.log("p", "claim", 2)
    for task in ("work", "commit"):
        scene.mark("p", task, "failed")
        scene.mark("p", task, "success")
    assert scene.rows() == rows
    scene.airflow.client.delete_run(scene.name, "p")
    assert scene.rows() == rows
    assert scene.output() == sent
    assert scene.run("q") == "success"
    assert scene.output() == scene.sent
    assert len(scene.airflow.events(scene.name)) == 2


# ---------------------------------------------------------------------- another run has it


def refused(scene: Scene, task: str, attempt: int, map_index: int = -1) -> bool:
    """Whether that try was final and named the run that has the batch, or said that nothing is held any more."""
    name = f"batch.{task}" if map_index < 0 else f"batch.{task}[{map_index}]"
    found = scene.airflow.client.wait_for_task(scene.name, "p", name, ["failed"])
    log = scene.log("p", task, attempt, map_index)
    return bool(found["try_number"] == attempt and ("/q/" in log or "holds no lease any more" in log))


def gesture_taken(scene: Scene) -> None:
    scene.fail("p")
    scene.fail("q")
    sent, rows = list(scene.sent), scene.rows()
    assert "/q/" in rows[1][0].owner
    scene.put_more()
    assert scene.mark("p", "work", "success") == "failed"
    assert refused(scene, "commit", 1)
    assert scene.clear("p", "read") == "failed"
    assert refused(scene, "read", 2, map_index=0)
    assert scene.clear("p", "claim") == "failed"
    assert refused(scene, "claim", 2)
    scene.mark("p", "commit", "success")
    scene.airflow.client.delete_run(scene.name, "p")
    assert scene.rows() == rows
    assert scene.clear("q", "work", include_downstream=True) == "success"
    assert scene.written() == {scene.batch_id("q"): 3}
    assert scene.output() == sent


def gesture_taken_and_committed(scene: Scene) -> None:
    scene.fail("p")
    assert scene.run("q") == "success"
    rows = scene.rows()
    assert scene.mark("p", "work", "success") == "failed"
    assert refused(scene, "commit", 1)
    assert scene.clear("p", "read") == "failed"
    assert refused(scene, "read", 2, map_index=0)
    assert scene.clear("p", "claim") == "failed"
    assert refused(scene, "claim", 2)
    scene.mark("p", "commit", "success")
    assert scene.rows() == rows
    assert len(scene.airflow.events(scene.name)) == 1

    # Cleared as a whole it is a run like a new one.
    scene.put_more()
    assert scene.clear("p") == "success"
    assert scene.xcom("p", "claim", "outcome") == "leases"
    assert scene.batch_id("p") != scene.batch_id("q")
    assert scene.output() == scene.sent


# ---------------------------------------------------------------------- an application of Spark


def seen(scene: Scene) -> list[str]:
    """What a reader sees who knows the starts on the batch rows only."""
    found = []
    for batch in scene.rows()[1]:
        for start in batch.starts:
            for output in start.outputs:
                folder = f"{output.removeprefix('file://')}/batch_id={batch.batch_id}/start={start.start_id}"
                found += [one.decode() for one in pq.read_table(folder, partitioning=None)["data"].to_pylist()]
    return sorted(found)


def gesture_spark_unfinished(scene: Scene) -> None:
    told = scene.airflow.tell(f"job-{scene.name}")
    told.write_text("fail inside", "utf-8")
    assert scene.run("p") == "failed"
    assert scene.states("p")["commit"] == "upstream_failed"
    # It left no end record, so nothing is committed, whatever a person says of the task.
    assert scene.mark("p", "work", "success") == "failed"
    log = scene.log("p", "commit")
    assert "batch.work is a success, but it did not end by itself in this attempt" in log
    assert "Clear the task with its downstream tasks" in log
    assert scene.unmoved()
    assert scene.batch().state.value == "FROZEN"

    told.unlink()
    assert scene.clear("p", "work", include_downstream=True) == "success"
    first = scene.batch()
    assert (first.state.value, first.decided, [start.attempt for start in first.starts]) == ("COMMITTED", 2, [2])
    assert seen(scene) == scene.sent

    # A replay: the new start in place of the old one, and nothing else.
    sent, leases = list(scene.sent), scene.rows()[0]
    scene.put_more()
    assert scene.clear("p", "work", include_downstream=True) == "success"
    second = scene.batch()
    assert (second.decided, [start.attempt for start in second.starts]) == (3, [3])
    assert second.starts[0].start_id != first.starts[0].start_id
    assert seen(scene) == sent
    assert scene.rows()[0] == leases
    assert len(scene.airflow.events(scene.name)) == 1


def gesture_spark_finished(scene: Scene) -> None:
    scene.airflow.tell(f"job-{scene.name}").write_text("fail afterwards", "utf-8")
    assert scene.run("p") == "failed"
    # The block was left well, but the application was not: what it did afterwards is not known, so it does not count.
    assert scene.mark("p", "work", "success") == "failed"
    assert "did not end by itself" in scene.log("p", "commit")
    assert scene.unmoved()
    (scene.airflow.folder / f"job-{scene.name}").unlink()
    assert scene.clear("p", "work", include_downstream=True) == "success"
    assert (scene.batch().state.value, scene.batch().decided) == ("COMMITTED", 2)
    assert seen(scene) == scene.sent
    assert not scene.unmoved()


#: Each is the name of its DAG too.
STORIES: tuple[Callable[[Scene], None], ...] = (
    gesture_delete,
    gesture_taken,
)
REPEATED: tuple[Callable[[Scene], None], ...] = (
    gesture_clear_alone,
    gesture_committed,
    gesture_spark_finished,
    gesture_retry,
    gesture_mark_work,
    gesture_clear_work,
    gesture_clear_run,
    gesture_mark_failed,
    gesture_mark_commit,
    gesture_taken_and_committed,
    gesture_spark_unfinished,
)
ALL = [
    *(pytest.param(story, id=story.__name__) for story in STORIES),
    *(pytest.param(story, id=story.__name__, marks=pytest.mark.long) for story in REPEATED),
]


@pytest.fixture(scope="module")
def told(airflow: Deployment, request: pytest.FixtureRequest) -> Iterator[dict[str, Future[None]]]:
    chosen = [item.callspec for item in request.session.items if item.module is request.module]
    with ThreadPoolExecutor(6) as pool:
        yield {
            found.id: pool.submit(found.params["story"], Scene(airflow, found.params["story"].__name__))
            for found in chosen
        }


@pytest.mark.parametrize("story", ALL)
def test_a_gesture_does_what_the_table_says(told: dict[str, Future[None]], story: Callable[[Scene], None]) -> None:
    told[story.__name__].result()
