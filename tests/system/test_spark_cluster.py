# SPDX-License-Identifier: Apache-2.0
"""SparkSubmitBatchOperator in standalone cluster mode: its tries are killed, its drivers live on at a real cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from scripts.environment import process_environment, python_path
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.owner import Owner
from shardbatch.core.policies import ClaimOptions
from shardbatch.core.ports import Verdict
from shardbatch.core.rows import Namespace
from shardbatch.core.start import Work
from shardbatch.landing.area import StagingArea
from shardbatch.run import Consumer, Frozen, claim, commit, freeze, land
from shardbatch.stores.sql import SQLStore
from shardbatch.submit.leftovers import LeftOvers
from tests.support.committed import committed
from tests.support.scripted import ScriptedStream
from tests.support.spark_cluster import SMALL, SparkCluster, python_application, spark_cluster
from tests.support.waiting import wait_until
from tests.system.spark_operator.one_try import State, operator

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]

JOB = Path(__file__).parent / "spark_operator" / "held_job.py"
RECORDS = [f"r{number}" for number in range(12)]
#: Far longer than a test: whoever waits for it fails.
GRACE = timedelta(minutes=20)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("spark-cluster")) as started:
        yield started


@dataclass
class Scene:
    """An application with two landed shards of 12 records, and the tries of its Spark task."""

    folder: Path
    cluster: SparkCluster
    environment: dict[str, str] = field(default_factory=dict)
    tries: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("staging", "gate", "home"):
            (self.folder / name).mkdir()
        self.environment = {
            "AIRFLOW_CONN_LEASES_DB": json.dumps({"conn_type": "sqlite", "host": f"{self.folder}/leases.db"}),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(self.cluster.connection("cluster")),
        }
        self.stream = ScriptedStream(shards=2)
        self.sent = sorted(self.stream.put(*RECORDS))
        self.store = SQLStore(f"sqlite:///{self.folder}/leases.db")
        self.store.prepare()

    # -------------------------------------------------------------- the run

    def consumer(self) -> Consumer:
        return Consumer(
            namespace=Namespace("scene", "orders"),
            source=self.stream,
            store=self.store,
            landing=StagingArea(str(self.folder / "staging")),
            liveness=lambda owner: Verdict.OVER,
            deployment="leases_db",
            options=ClaimOptions(attempt_grace=GRACE),
        )

    def open_attempt(self, run_id: str) -> Frozen:
        """Claim, read and freeze of a run; what an older attempt started is ended as the freeze task does it."""
        consumer, owner = self.consumer(), Owner("local", "scene", run_id, "batch")
        claimed = claim(consumer, owner)
        for group in claimed.groups:
            land(consumer, owner, group.group, self.stream.now_ms + 1)
        self.said: list[str] = []
        any_batch = dict.fromkeys(("manifest_uri", "manifest_digest", "batch_id", "attempt"), "")
        left_overs = LeftOvers({"transform": operator(self.folder, any_batch)}, lambda work: False, self.said.append)
        frozen = freeze(consumer, owner, claimed.batch_id, left_overs)
        self.batch_id = cast("str", frozen.batch_id)
        return frozen

    def commit(self, run_id: str, frozen: Frozen) -> None:
        owner, works = Owner("local", "scene", run_id, "batch"), [Work("transform")]
        commit(self.consumer(), owner, frozen.batch_id, frozen.attempt, works=works)

    def row(self) -> Batch:
        return cast("Batch", self.consumer().batch(self.batch_id))

    # -------------------------------------------------------------- its Spark task

    def start_try(self, run_id: str, frozen: Frozen, **more: Any) -> subprocess.Popen[bytes]:
        given = {
            "run_id": run_id,
            "conf": SMALL,
            **{name: getattr(frozen, name) for name in ("manifest_uri", "manifest_digest", "batch_id", "attempt")},
            **python_application(JOB, str(self.folder / "out"), str(self.folder / "gate")),
            **more,
        }
        environment = {**process_environment(), **self.environment, "PYTHONPATH": python_path()}
        environment |= {"AIRFLOW_HOME": str(self.folder / "home"), "AIRFLOW__OPENLINEAGE__DISABLED": "True"}
        words = [sys.executable, "-m", "tests.system.spark_operator.one_try", str(self.folder), json.dumps(given)]
        with self.log(len(self.tries) + 1).open("wb") as log:
            process = subprocess.Popen(words, env=environment, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT)
        self.tries.append(process)
        return process

    def log(self, number: int) -> Path:
        return self.folder / f"try-{number}.log"

    def kill(self, process: subprocess.Popen[bytes], sign: signal.Signals = signal.SIGKILL) -> None:
        process.send_signal(sign)
        process.wait(60)

    def starts(self) -> list[dict[str, Any]]:
        """The starts that are inside their batch or have been, the first one first."""
        return [json.loads(path.read_text("utf-8")) for path in sorted((self.folder / "gate").glob("started-*"))]

    def wait_for_start(self, number: int) -> dict[str, Any]:
        def started() -> dict[str, Any] | None:
            code = self.tries[-1].poll()
            assert code is None or code < 0, self.log(len(self.tries)).read_text("utf-8")[-4000:]
            found = self.starts()
            return found[number - 1] if len(found) >= number else None

        return cast("dict[str, Any]", wait_until(started, 120, f"start {number} to be in its batch"))

    def let_go(self, start: dict[str, Any]) -> None:
        (self.folder / "gate" / f"go-{start['start_id']}").touch()

    def close(self) -> None:
        for process in self.tries:
            if process.poll() is None:
                process.kill()
                process.wait()
        for driver, state in self.cluster.drivers().items():
            if state in ("RUNNING", "SUBMITTED"):
                self.cluster.kill(driver)
        self.store.close()


@pytest.fixture
def scene(cluster: SparkCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene(tmp_path, cluster)
    for name, value in {**process_environment(), **made.environment}.items():
        monkeypatch.setenv(name, value)
    yield made
    made.close()


def new_driver(cluster: SparkCluster, known: set[str]) -> str:
    return wait_until(lambda: next(iter(cluster.drivers().keys() - known), ""), 90, "a driver to be submitted")


def test_a_driver_outlives_its_tries_until_the_next_run_ends_it_and_a_zombie_changes_nothing(
    scene: Scene, cluster: SparkCluster
) -> None:
    frozen = scene.open_attempt("run1")

    # The try is killed when spark-submit has the driver's id, seconds before the stock operator saves it.  # R90
    first = scene.start_try("run1", frozen)
    one = new_driver(cluster, set())
    wait_until(lambda: scene.row().spark_application == (1, f"standalone:{one}"), 30, "the driver to stand on the row")
    scene.kill(first)
    assert State(scene.folder / "state").get(f"spark_job_id.{frozen.batch_id}.1") is None
    start = scene.wait_for_start(1)
    assert (start["attempt"], start["work"], start["records"]) == (1, "transform", 12)
    assert start["name"].endswith(f"shardbatch-{frozen.batch_id}")

    # The retry goes on with the application of the try before.  # R89
    retry = scene.start_try("run1", frozen)
    wait_until(lambda: "Reconnecting to existing job" in scene.log(2).read_text(), 60, "the retry to reconnect")
    assert scene.row().spark_application == (1, f"standalone:{one}")
    scene.kill(retry)
    assert list(cluster.drivers()) == [one]

    # The run is over: the next one ends what it left behind and goes on at once.  # R88
    before = time.monotonic()
    following = scene.open_attempt("run2")
    assert time.monotonic() - before < 60 < GRACE.total_seconds()
    assert (following.batch_id, following.attempt) == (frozen.batch_id, 2)
    assert cluster.state(one) == "KILLED"
    assert f"Ended the older application {one} (KILLED)." in scene.said

    # A try dies before anybody knows what it submitted; the retry submits anew.  # R90, R100
    blind = scene.start_try("run2", following, blind=True)
    two = new_driver(cluster, {one})
    scene.kill(blind)
    lost = scene.wait_for_start(2)
    assert scene.row().spark_application[1] != f"standalone:{two}"
    scene.start_try("run2", following)
    winner = scene.wait_for_start(3)
    scene.let_go(winner)
    assert scene.tries[-1].wait(120) == 0, scene.log(4).read_text()[-3000:]
    assert scene.row().attempt_closed == 2
    scene.commit("run2", following)
    assert scene.row().state is BatchState.COMMITTED
    assert [recorded.start_id for recorded in scene.row().starts] == [winner["start_id"]]

    # The one that nobody could find writes after the commit.
    scene.let_go(lost)
    assert cluster.wait_for(two) == "FINISHED"
    written = {path.name for path in (scene.folder / "out").glob("batch_id=*/start=*")}
    assert written == {f"start={start['start_id']}" for start in (winner, lost)}
    scene.commit("run2", following)
    assert committed([scene.folder / "out"]) == {"out": scene.sent}
    assert all(lease.checkpoint.sequence_number for lease in scene.consumer().leases())


def test_a_task_that_is_ended_ends_its_driver_and_closes_the_attempt(scene: Scene, cluster: SparkCluster) -> None:
    frozen = scene.open_attempt("run1")
    known = set(cluster.drivers())
    task = scene.start_try("run1", frozen)
    driver = new_driver(cluster, known)
    scene.wait_for_start(1)
    os.kill(task.pid, signal.SIGTERM)
    assert task.wait(90) != 0
    assert cluster.wait_for(driver) == "KILLED"
    assert scene.row().attempt_closed == 1
    assert State(scene.folder / "state").get(f"spark_job_id.{frozen.batch_id}.1") == driver
