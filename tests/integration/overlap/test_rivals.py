# SPDX-License-Identifier: Apache-2.0
"""Workers of several deployments on one lease store and one stream, each a process that may be killed or stopped."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.release import release
from shardbatch.core.rows import SHARD_LEASE, Namespace
from shardbatch.local import Options, StreamServer
from shardbatch.stores.sql import SQLStore
from tests.integration.overlap.worker import Given, client
from tests.support.rig import Rig
from tests.support.verbs import act
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(180)

ROOT = Path(__file__).parents[3]
PATIENCE = 60.0
#: Seconds that the owners say they may be silent for; the rivals believe a tenth of it.
SILENCE = 3.0


class Process:
    """One worker, and its answers."""

    def __init__(self, given: Given) -> None:
        self.given = given
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.overlap.worker", json.dumps(asdict(given))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            self._answers.put(line)
        self._answers.put("")

    def tell(self, *words: str) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(" ".join(words) + "\n")
        self.popen.stdin.flush()

    def answer(self) -> dict[str, Any]:
        line = self._answers.get(timeout=PATIENCE)
        assert line, f"worker {self.given.deployment} {self.given.run} ended"
        return dict(json.loads(line))

    def ask(self, *words: str) -> dict[str, Any]:
        self.tell(*words)
        return self.answer()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.popen.pid, number)

    def end(self) -> None:
        self.popen.kill()
        self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout):
            assert pipe is not None
            pipe.close()


@dataclass
class Scene:
    """A stream, a lease store, a staging area, and the workers of a test."""

    folder: Path
    server: StreamServer
    store_url: str
    stream: str = field(default_factory=lambda: f"t-{uuid.uuid4().hex[:8]}")
    processes: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kinesis = client(self.server.endpoint_url)
        self.store = SQLStore(self.store_url)
        self.namespace = Namespace("etl", self.stream)
        self.slow = self.folder / "slow"
        (self.folder / "staging").mkdir()

    def worker(self, deployment: str, run: str, *, airflow: str = "", **more: Any) -> Process:
        given = Given(
            folder=str(self.folder),
            endpoint=self.server.endpoint_url,
            stream=self.stream,
            store=self.store_url,
            deployment=deployment,
            run=run,
            airflow=str(self.folder / f"airflow-{airflow or deployment}.json"),
            **{"lease_duration": SILENCE, **more},
        )
        self.processes.append(Process(given))
        return self.processes[-1]

    def put(self, count: int) -> list[str]:
        records = [{"Data": b"x", "PartitionKey": str(number)} for number in range(count)]
        answer = self.kinesis.put_records(StreamName=self.stream, Records=records)
        return [record["SequenceNumber"] for record in answer["Records"]]

    def leases(self) -> list[Any]:
        return list(self.store.list(SHARD_LEASE, self.namespace))

    def owners(self) -> set[str]:
        return {lease.lease_owner.split("/")[0] for lease in self.leases() if lease.lease_owner}

    def sink(self) -> list[str]:
        rig = Rig(self.folder / "staging", store=self.store)
        rig.stream.name = self.stream
        return rig.sink()

    def close(self) -> None:
        for process in self.processes:
            process.end()
        self.store.close()
        self.kinesis.close()


@pytest.fixture(scope="module")
def server() -> Iterator[StreamServer]:
    with StreamServer(options=Options()) as started:
        yield started


@pytest.fixture
def scenes(tmp_path: Path, server: StreamServer) -> Iterator[Callable[..., Scene]]:
    made: list[Scene] = []

    def make(store_url: str = "", shards: int = 2) -> Scene:
        scene = Scene(tmp_path, server, store_url or f"sqlite:///{tmp_path / 'leases.db'}")
        scene.kinesis.create_stream(StreamName=scene.stream, ShardCount=shards)
        scene.store.prepare()
        made.append(scene)
        return scene

    yield make
    for scene in made:
        scene.close()


def reading(scene: Scene, owner: Process) -> None:
    """The owner claims all shards and reads, and its read does not come to an end."""
    scene.slow.touch()
    assert owner.ask("claim")["shards"] == 2
    owner.tell("land")
    wait_until(lambda: Path(f"{scene.slow}.reading").exists(), PATIENCE, "a read")


def renewed(scene: Scene, before: list[Any]) -> bool:
    seen = {lease.shard_id: lease.lease_count for lease in before}
    return all(lease.lease_count > seen[lease.shard_id] for lease in scene.leases())


def tries_in_vain(scene: Scene, rival: Process, times: int = 3) -> None:
    """A rival that tries all the while the owner renews."""
    for _ in range(times):
        before = scene.leases()
        found = rival.ask("claim")
        assert found["outcome"] == "held", found
        wait_until(lambda before=before: renewed(scene, before), PATIENCE, "all leases to be renewed")
    assert scene.owners() == {"here"}


def finishes(worker: Process) -> None:
    for step in ("land", "freeze", "work", "commit"):
        assert "error" not in worker.ask(step)


@pytest.mark.parametrize(
    "ahead_ms",
    [pytest.param(0, marks=pytest.mark.long), 120_000, pytest.param(-120_000, marks=pytest.mark.long)],
    ids=["clocks agree", "ahead", "behind"],
)
def test_a_rival_gets_nothing_of_an_owner_that_renews_and_all_when_it_is_killed(
    scenes: Callable[..., Scene], ahead_ms: int
) -> None:
    scene = scenes()  # R56
    sent = scene.put(30)
    owner = scene.worker("here", "r1", slow=str(scene.slow))
    rival = scene.worker("elsewhere", "r1", lease_duration=SILENCE / 10, ahead_ms=ahead_ms)
    reading(scene, owner)
    tries_in_vain(scene, rival)
    owner.signal(signal.SIGKILL)
    assert rival.ask("claim")["shards"] == 2
    finishes(rival)
    assert scene.sink() == sorted(sent, key=int)


@pytest.mark.parametrize("how", [pytest.param("the thread ends", marks=pytest.mark.long), "the process is stopped"])
def test_an_owner_that_renews_no_more_loses_its_leases_and_what_it_lands_later(
    scenes: Callable[..., Scene], how: str, tmp_path: Path
) -> None:
    scene = scenes()  # R57
    sent = scene.put(30)
    mute = tmp_path / "mute"
    owner = scene.worker("here", "r1", mute=str(mute), slow=str(scene.slow))
    rival = scene.worker("elsewhere", "r1", lease_duration=SILENCE / 10)
    reading(scene, owner)
    tries_in_vain(scene, rival, times=1)
    if how == "the thread ends":
        mute.touch()
    else:
        owner.signal(signal.SIGSTOP)
    assert rival.ask("claim")["shards"] == 2
    finishes(rival)
    scene.slow.unlink()
    owner.signal(signal.SIGCONT)
    assert owner.answer().get("error") == "LeaseLost"
    assert owner.ask("freeze")["batch_id"] is None
    assert scene.sink() == sorted(sent, key=int)


def test_a_frozen_batch_of_another_deployment_waits_for_a_release(
    scenes: Callable[..., Scene], postgres_url: str
) -> None:
    scene = scenes(postgres_url)
    sent = scene.put(30)
    owner = scene.worker("here", "r1")
    rival = scene.worker("elsewhere", "r1", lease_duration=0.2)
    for step in ("claim", "land", "freeze"):
        assert "error" not in owner.ask(step)
    found = rival.ask("claim")
    assert found["outcome"] == "held"
    assert all("(FROZEN) of here/dag/r1" in line for line in found["held"])
    owner.ask("work")
    owner.signal(signal.SIGSTOP)  # a machine that is gone, as far as anybody can tell
    text = "here/dag/r1/orders/incremental"
    act(release, scene.store, scene.namespace, actor="a person", reason="gone", owner=text, dry_run=False)
    assert rival.ask("whole") == {"outcome": "adopted", "shards": 0, "held": [], "newly": True, "records": 30}
    owner.signal(signal.SIGCONT)
    assert owner.ask("commit")["newly"] is False
    assert scene.sink() == sorted(sent, key=int)


def test_deployments_of_one_id_lose_nothing(scenes: Callable[..., Scene]) -> None:
    scene = scenes()  # each asks its own Airflow about the other's run, and hears "not found"
    sent = scene.put(30)
    one = scene.worker("same", "of-one", airflow="one", slow=str(scene.slow))
    two = scene.worker("same", "of-two", airflow="two")
    reading(scene, one)
    for _ in range(2):
        assert two.ask("claim")["outcome"] == "held"
    scene.slow.unlink()
    assert one.answer() == {"records": 30, "lost": 0}
    for step in ("freeze", "work", "commit"):
        assert "error" not in one.ask(step)
    sent += scene.put(30)
    assert two.ask("whole")["records"] == 30
    assert scene.sink() == sorted(sent, key=int)


def test_tries_of_one_run_on_two_machines_lose_nothing(scenes: Callable[..., Scene]) -> None:
    scene = scenes()  # one id, one DAG, one run id: two Airflows that believe to be one
    sent = scene.put(30)
    both = [scene.worker("same", "r1", airflow=name) for name in ("one", "two")]
    for step in ("claim", "land", "freeze", "work", "commit"):
        for each in both:
            each.tell(step)
        for each in both:
            each.answer()
    last = scene.worker("same", "r2", airflow="three", lease_duration=0.2)
    (scene.folder / "airflow-three.json").write_text('{"r1": "success"}')
    assert "error" not in last.ask("whole")
    assert scene.sink() == sorted(sent, key=int)


def test_deployments_that_run_all_the_time_on_one_stream_drain_it(scenes: Callable[..., Scene]) -> None:
    scene = scenes(shards=3)
    sent = scene.put(60)
    workers = [scene.worker(name, "r0", lease_duration=0.5) for name in ("here", "there", "elsewhere")]
    for number in range(1, 5):
        for each in workers:
            each.tell("whole")
        sent += scene.put(20)
        for each in workers:
            answer = each.answer()
            assert answer.get("error") in (None, "LeaseLost"), answer
            each.ask("again", f"r{number}")
    for each in workers:
        each.ask("whole")
        each.ask("again", "last")
    assert workers[0].ask("whole")["outcome"] in ("leases", "nothing")
    assert not scene.owners()
    assert scene.sink() == sorted(sent, key=int)
