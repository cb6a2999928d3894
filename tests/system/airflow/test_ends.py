# SPDX-License-Identifier: Apache-2.0
"""Which starts readers see, in a real Airflow: those of the tasks that ended as a success in the newest pass, all of
them, and nothing else.

Each story has a DAG and a stream of its own and all are told at once; a test then looks at how its story ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import shardbatch
from scripts.airflow_client import wait_until
from tests.support.airflow_instance import PATIENCE, Deployment
from tests.support.starts import shown
from tests.system.airflow.scene import Scene

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(900)]


def seen(scene: Scene, root: str = "out") -> list[str]:
    return shown(scene.airflow.folder / "out" / scene.name / root)


def of(works: str, sent: list[str]) -> list[str]:
    """What the works leave together, each record with the name of its work."""
    return sorted(f"{work}:{text}" for work in works.split() for text in sent)


# ---------------------------------------------------------------------- what a block may hold


def ends_kinds(scene: Scene) -> None:
    """A Python task, a mapped shell command and a task that was deferred: each leaves its end record."""
    assert scene.run("p") == "success", scene.states("p")
    assert f"the code is {shardbatch.__file__}" in scene.log("p", "plain")
    assert seen(scene, "plain") == of("plain", scene.sent)
    assert seen(scene, "waiting") == of("waiting", scene.sent)
    assert seen(scene, "shell0") == seen(scene, "shell1") == scene.sent
    batch_id = scene.batch_id("p")
    found = scene.airflow.folder.glob(f"staging/test/{scene.name}/batches/{batch_id}/works/*/ended/1-*.json")
    works = {path.parent.parent.name for path in found}
    assert works == {"batch.plain", "batch.shell~5b0~5d", "batch.shell~5b1~5d", "batch.waiting"}
    assert sorted(start.work for start in scene.batch().starts) == [
        *("batch.plain", "batch.shell[0]", "batch.shell[1]", "batch.waiting")
    ]


def ends_roots(scene: Scene) -> None:
    """Two blocks of one job, two tasks that are told by words, and a job that Airflow remembers; then one of the roots
    is not asked for, and that job is begun anew."""
    assert scene.run("p") == "success", scene.states("p")
    for root in ("one", "two", "three", "four"):
        assert seen(scene, root) == scene.sent, root
    scene.airflow.tell(f"changed-{scene.name}")
    assert scene.clear("p", "job", "five", include_downstream=True) == "success"
    assert seen(scene, "two") == []
    for root in ("one", "three", "four"):
        assert seen(scene, root) == scene.sent, root
    assert seen(scene, "five") == of("five", scene.sent)
    assert scene.batch().decided == 2


# ---------------------------------------------------------------------- a block that is another one when it is replayed


def ends_changing(scene: Scene) -> None:
    client = scene.airflow.client
    assert scene.run("p") == "success", scene.states("p")
    assert seen(scene) == of("left named each[0] each[1]", scene.sent)
    assert scene.batch().note is None  # the branch that skipped a task has left its record as well
    scene.airflow.tell(f"changed-{scene.name}")
    token = client.call("GET", f"dags/{scene.name}")["file_token"]
    client.call("PUT", f"parseDagFile/{token}")

    def renamed() -> bool:
        tasks = client.call("GET", f"dags/{scene.name}/tasks")["tasks"]
        return "batch.renamed" in {task["task_id"] for task in tasks}

    wait_until(renamed, PATIENCE, lambda: "the DAG file was not parsed again")
    scene.airflow.start(scene.name, run_id="q", conf={"batch.replay": scene.batch_id("p")})
    assert scene.wait("q") == "success", scene.states("q")
    assert seen(scene) == of("right renamed each[0]", scene.sent)


# ---------------------------------------------------------------------- gestures


def ends_alone(scene: Scene) -> None:
    scene.fail("p")
    assert scene.mark("p", "work", "success") == "failed"
    log = scene.log("p", "commit")
    assert "batch.work is a success, but it did not end by itself in this attempt" in log
    assert "Clear the task with its downstream tasks" in log
    assert scene.unmoved()
    assert scene.clear("p", "work", include_downstream=True) == "success"
    assert seen(scene) == of("work", scene.sent)

    # The work alone, which is what REST does by default: no attempt is opened, no work starts. What Airflow says of the
    # run comes from its last tasks, which were not cleared.
    rows = scene.rows()
    scene.clear("p", "work")
    states = scene.states("p")
    assert (states["freeze"], states["work"], states["commit"]) == ("failed", "upstream_failed", "success")
    tries = {task["task_id"]: task["try_number"] for task in scene.airflow.client.tasks(scene.name, "p")}
    log = scene.log("p", "freeze", tries["batch.freeze"])
    assert "the task batch.commit is success and was not cleared" in log
    assert "include_downstream" in log
    assert scene.rows() == rows

    assert scene.clear("p", "work", include_downstream=True) == "success"
    assert scene.xcom("p", "commit", "committed")["replayed"] is True
    assert seen(scene) == of("work", scene.sent)
    assert [start.attempt for start in scene.batch().starts] == [3]


def ends_own(scene: Scene) -> None:
    """A sink of the author's own beside an output root; its end record cannot be written at first: it is retried."""
    scene.airflow.tell(f"blocked-{scene.name}")
    assert scene.run("p") == "success", scene.states("p")
    tries = {task["task_id"]: task["try_number"] for task in scene.airflow.client.tasks(scene.name, "p")}
    assert (tries["batch.work"], tries["batch.freeze"]) == (2, 1)
    assert "StagingError" in scene.log("p", "work")
    assert seen(scene) == of("work", scene.sent)
    assert scene.batch().note is None

    # Marked by hand it commits, since the sink is atomic by itself; readers of the root see nothing of it.
    sent = list(scene.sent)
    scene.put_more()
    scene.fail("q")
    assert scene.mark("q", "work", "success") == "success"
    assert [(row.state.value, row.note) for row in scene.rows()[1]] == [
        ("COMMITTED", None),
        ("COMMITTED", "committed_by_hand"),
    ]
    assert seen(scene) == of("work", sent)


STORIES: tuple[Callable[[Scene], None], ...] = (ends_kinds, ends_roots, ends_changing, ends_alone, ends_own)


@pytest.fixture(scope="module")
def told(airflow: Deployment, request: pytest.FixtureRequest) -> Iterator[dict[str, Future[None]]]:
    chosen: list[Any] = [item.callspec for item in request.session.items if item.module is request.module]
    with ThreadPoolExecutor(len(STORIES)) as pool:
        yield {
            found.id: pool.submit(found.params["story"], Scene(airflow, found.params["story"].__name__))
            for found in chosen
        }


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_readers_see_one_whole_output_and_nothing_else(
    told: dict[str, Future[None]], story: Callable[[Scene], None]
) -> None:
    told[story.__name__].result()
