# SPDX-License-Identifier: Apache-2.0
"""Runs that are over while their Spark application is alive, in a real Airflow: who goes on goes on at once.

Each story has a DAG and a stream of its own. Its application is held inside its batch until the story lets it go.
`attempt_grace` is longer than any test may take, so a run or a retry that waited for it would fail its story.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.airflow_instance import GROUP, Deployment
from tests.support.spark_cluster import SparkCluster, spark_cluster
from tests.system.airflow.alive_names import IN_CLUSTER
from tests.system.airflow.alive_scene import Held, Scene

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1500)]


# ---------------------------------------------------------------------- the next run


def next_run(scene: Scene, first: Held) -> Held:
    """The run `p` is over. The next one opens the next attempt without waiting; its application in the batch."""
    scene.require_unmoved()
    scene.start("q")
    second = scene.wait_for_start(2, "q")
    assert scene.airflow.xcom(scene.name, "q", "claim", "outcome") == "adopted"
    assert (second.batch_id, second.attempt, first.attempt) == (first.batch_id, 2, 1)
    log = scene.log("q", "freeze")
    assert f"Opened attempt 2 of batch {first.batch_id}" in log
    assert "shows no life" not in log
    return second


def finish(scene: Scene, run_id: str, winner: Held) -> None:
    scene.let_go(winner)
    assert scene.wait(run_id) == "success"
    scene.require_committed(winner)


def goes_on_after(scene: Scene, gesture: Callable[[Scene], None]) -> None:
    """The run `p` ends by a gesture while its application lives; that is ended, and the next run finishes the batch."""
    scene.start("p")
    first = scene.wait_for_start(1, "p")
    gesture(scene)
    assert scene.wait("p") == "failed", scene.airflow.states(scene.name, "p")
    second = next_run(scene, first)
    scene.until(lambda: not first.alive, "the end of the older application")
    finish(scene, "q", second)
    assert scene.written() == {second.start_id}


def alive_run_timed_out(scene: Scene) -> None:  # R88
    goes_on_after(scene, lambda scene: scene.time_out("p"))


def alive_run_marked(scene: Scene) -> None:
    goes_on_after(scene, lambda scene: scene.airflow.client.mark_run(scene.name, "p", "failed"))


def alive_task_marked(scene: Scene) -> None:
    goes_on_after(scene, lambda scene: scene.airflow.client.mark_task(scene.name, "p", f"{GROUP}.work", "failed"))


def alive_worker_lost(scene: Scene) -> None:
    goes_on_after(scene, Scene.lose_worker)
    assert "Ended a spark-submit of batch" in scene.log("q", "freeze")


def alive_cluster_run_marked(scene: Scene) -> None:
    goes_on_after(scene, lambda scene: scene.airflow.client.mark_run(scene.name, "p", "failed"))
    assert scene.cluster.state(scene.held()[0].driver) == "KILLED"


def alive_cluster_worker_lost(scene: Scene) -> None:  # R88
    goes_on_after(scene, Scene.lose_worker)
    driver = scene.held()[0].driver
    assert f"Ended the older application {driver} (KILLED)." in scene.log("q", "freeze")


# ---------------------------------------------------------------------- a retry


def alive_unsaved_retried(scene: Scene) -> None:  # R90
    """The worker is lost when spark-submit was started and nobody knows of it: found by its batch, it is ended."""
    scene.orders.arm("before-named-client", supervisor=True)
    scene.start("p")
    scene.wait_for_retry("Ended a spark-submit that an earlier try")
    assert scene.orders.obeyed("before-named-client")
    assert [start for start in scene.held() if start.alive] == []
    winner = scene.wait_for_start(len(scene.held()) + 1, "p")
    assert winner.attempt == 1
    finish(scene, "p", winner)
    assert scene.written() == {winner.start_id}


def alive_cluster_retried(scene: Scene) -> None:  # R89
    """The worker is lost while it waits for a driver: the retry goes on with that one."""
    scene.start("p")
    only = scene.wait_for_start(1, "p")
    scene.lose_worker()
    scene.wait_for_retry("Reconnecting to existing job")
    assert only.alive
    finish(scene, "p", only)
    assert scene.held() == [only]
    assert scene.batch().spark_application == (1, f"standalone:{only.driver}")


# ---------------------------------------------------------------------- a driver that nobody knows


def alive_cluster_unsaved_retried(scene: Scene) -> None:  # R90, R100
    """The retry submits anew. Of two applications of one attempt that both end well, the one is committed."""
    scene.orders.arm("before-named-standalone", supervisor=True)
    scene.start("p")
    scene.wait_for_retry("Spark driver submitted")
    assert scene.orders.obeyed("before-named-standalone")
    scene.wait_for_start(2, "p")
    winner = scene.wait_for_own_start()
    [lost] = [start for start in scene.held() if start != winner]
    assert (lost.alive, lost.attempt, winner.attempt) == (True, 1, 1)
    finish(scene, "p", winner)
    scene.end(lost)
    assert (scene.gate / f"done-{lost.start_id}").exists()
    assert scene.written() == {winner.start_id, lost.start_id}
    scene.require_committed(winner)


def alive_cluster_unsaved(scene: Scene) -> None:  # R90
    """The next run gives up what it cannot find once its grace is over. A newer attempt stops the one that lives on."""
    (scene.gate / "check").touch()
    scene.orders.arm("before-named-standalone", supervisor=True)
    scene.start("p")
    lost = scene.wait_for_start(1)
    assert scene.wait("p") == "failed"
    assert scene.orders.obeyed("before-named-standalone")
    scene.require_unmoved()
    scene.start("q")
    winner = scene.wait_for_own_start()
    assert "shows no life; going on" in scene.log("q", "freeze")
    assert (lost.alive, lost.attempt, winner.attempt) == (True, 1, 2)
    finish(scene, "q", winner)
    scene.end(lost)
    assert not (scene.gate / f"done-{lost.start_id}").exists()  # its batch.check() refused
    assert scene.written() == {winner.start_id, lost.start_id}
    scene.require_committed(winner)


STORIES: tuple[Callable[[Scene], None], ...] = (alive_run_marked,)
#: Each is the name of its DAG too.
REPEATED: tuple[Callable[[Scene], None], ...] = (
    alive_worker_lost,
    alive_unsaved_retried,
    alive_run_timed_out,
    alive_task_marked,
    alive_cluster_run_marked,
    alive_cluster_worker_lost,
    alive_cluster_retried,
    alive_cluster_unsaved,
    alive_cluster_unsaved_retried,
)
ALL = [
    *(pytest.param(story, id=story.__name__) for story in STORIES),
    *(pytest.param(story, id=story.__name__, marks=pytest.mark.long) for story in REPEATED),
]


@pytest.fixture(scope="module")
def told(
    airflow: Deployment, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[None]]]:
    chosen = [item.callspec for item in request.session.items if item.module is request.module]
    with contextlib.ExitStack() as stack:
        cluster: SparkCluster | None = None
        if any(found.id in IN_CLUSTER for found in chosen):
            cluster = stack.enter_context(connected_cluster(airflow, tmp_path_factory.mktemp("spark-cluster")))
        scenes = {
            found.id: stack.enter_context(contextlib.closing(Scene(airflow, found.id, cluster))) for found in chosen
        }
        pool = stack.enter_context(ThreadPoolExecutor(2))
        yield {found.id: pool.submit(found.params["story"], scenes[found.id]) for found in chosen}


@contextlib.contextmanager
def connected_cluster(airflow: Deployment, folder: Path) -> Iterator[SparkCluster]:
    """A standalone cluster and Airflow's connection to it."""
    with spark_cluster(folder) as cluster:
        connection: dict[str, Any] = cluster.connection("cluster")
        connection["extra"] = json.dumps(connection["extra"])
        airflow.client.call("POST", "connections", {"connection_id": "spark_cluster", **connection})
        yield cluster


@pytest.mark.parametrize("story", ALL)
def test_who_goes_on_while_an_application_lives(told: dict[str, Future[None]], story: Callable[[Scene], None]) -> None:
    told[story.__name__].result()
