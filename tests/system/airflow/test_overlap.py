# SPDX-License-Identifier: Apache-2.0
"""Runs and DAGs that meet on one application, in a real Airflow: who works, who waits, who is told what."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from shardbatch.core.owner import Owner
from tests.support.airflow_instance import GROUP, Deployment
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.timeout(900)]

STREAMS = {"overlap_runs": 2, "overlap_shared": 2, "overlap_sibling": 1, "overlap_killed": 1}
RECORDS = 40
PATIENCE = 180
DAG_TEST_LOG = "dags-test.log"


@dataclass
class Started:
    """The runs that all tests of this file begin with, started at once."""

    airflow: Deployment
    sent: dict[str, list[str]]
    runs: dict[str, list[str]]
    dag_test: subprocess.Popen[bytes] | None

    def wait_for(self, dag_id: str, run_id: str, task: str, *states: str) -> None:
        self.airflow.client.wait_for_task(dag_id, run_id, f"{GROUP}.{task}", states, PATIENCE)

    def untell(self, word: str) -> None:
        (self.airflow.folder / word).unlink()

    def end(self, dag_id: str, run_id: str) -> str:
        return self.airflow.client.wait_for_run(dag_id, run_id, PATIENCE)

    def kill_dag_test(self, dag_id: str) -> str:
        """Kills it while the author's task runs; the id of the run that it leaves behind."""

        def working() -> str | None:
            assert self.dag_test is not None
            assert self.dag_test.poll() is None, (self.airflow.folder / DAG_TEST_LOG).read_text("utf-8")[-3000:]
            for run in self.airflow.client.runs(dag_id):
                if self.airflow.states(dag_id, run["dag_run_id"]).get("work") == "running":
                    return str(run["dag_run_id"])
            return None

        run_id = wait_until(working, PATIENCE, "the work of `airflow dags test`")
        assert run_id is not None
        assert self.dag_test is not None
        kill(self.dag_test)
        return run_id

    def paused(self, dag_id: str, paused: bool) -> None:
        self.airflow.client.call("PATCH", f"dags/{dag_id}", {"is_paused": paused})


@pytest.fixture(scope="module")
def started(airflow: Deployment, request: pytest.FixtureRequest) -> Iterator[Started]:
    sent = {}
    for stream, shards in STREAMS.items():
        airflow.create_stream(stream, shards)
        sent[stream] = airflow.put(stream, 0, RECORDS)
    held = [f"hold-{name}" for name in ("overlap_runs", "overlap_first", "overlap_killed")]
    for word in (*held, "hold-elsewhere-overlap_sibling", "fail-overlap_sibling"):
        airflow.tell(word)
    try:
        starts = ("overlap_runs", "overlap_runs", "overlap_first", "overlap_second", "overlap_sibling")
        runs: dict[str, list[str]] = {}
        for dag_id in starts:
            runs.setdefault(dag_id, []).append(airflow.start(dag_id))
        if any("killed_dag_test" in item.name for item in request.session.items):
            with dag_test(airflow, "overlap_killed") as process:
                yield Started(airflow, sent, runs, process)
        else:
            yield Started(airflow, sent, runs, None)
    finally:
        for word in held:
            (airflow.folder / word).unlink(missing_ok=True)


@contextlib.contextmanager
def dag_test(airflow: Deployment, dag_id: str) -> Iterator[subprocess.Popen[bytes]]:
    """`airflow dags test` in a session of its own, killed at the end."""
    with (airflow.folder / DAG_TEST_LOG).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "airflow", "dags", "test", dag_id],
            env=airflow.instance.environment,
            cwd=airflow.instance.home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_two_runs_at_once_divide_the_shards_and_a_third_is_told_who_has_them(started: Started) -> None:
    airflow, runs = started.airflow, started.runs["overlap_runs"]
    for run_id in runs:
        started.wait_for("overlap_runs", run_id, "work", "running")
    third, state = airflow.run("overlap_runs")
    assert (state, airflow.states("overlap_runs", third)["commit"]) == ("success", "skipped")
    assert airflow.xcom("overlap_runs", third, "claim", "outcome") == "held"
    log = airflow.log("overlap_runs", third, "claim")
    assert all(f"of {Owner('local', 'overlap_runs', run_id, GROUP)}" in log for run_id in runs)
    started.untell("hold-overlap_runs")
    assert [started.end("overlap_runs", run_id) for run_id in runs] == ["success", "success"]
    assert airflow.output("overlap_runs") == started.sent["overlap_runs"]
    assert len(airflow.events("overlap_runs")) == 2


def test_two_dags_share_an_application_and_a_third_that_does_not_say_so_is_refused(started: Started) -> None:
    airflow = started.airflow
    first, second = started.runs["overlap_first"][0], started.runs["overlap_second"][0]
    started.wait_for("overlap_first", first, "work", "running")
    assert started.end("overlap_second", second) == "success"
    rows = airflow.leases("overlap_shared")
    run_id, state = airflow.run("overlap_mistake")
    assert (state, airflow.states("overlap_mistake", run_id)["claim"]) == ("failed", "failed")
    log = airflow.log("overlap_mistake", run_id, "claim")
    assert all(name in log for name in ("'overlap_mistake'", "'overlap_first'", "shared=True"))
    assert airflow.client.wait_for_task("overlap_mistake", run_id, "batch.claim", ["failed"])["try_number"] == 1
    assert airflow.leases("overlap_shared") == rows


@pytest.mark.long
def test_a_paused_dag_keeps_its_shards_and_goes_on_when_it_is_unpaused(started: Started) -> None:
    airflow, run_id = started.airflow, started.runs["overlap_first"][0]
    started.wait_for("overlap_first", run_id, "work", "running")
    started.end("overlap_second", started.runs["overlap_second"][0])
    started.paused("overlap_first", True)
    started.untell("hold-overlap_first")
    started.wait_for("overlap_first", run_id, "work", "success")
    sent = sorted(started.sent["overlap_shared"] + airflow.put("overlap_shared", RECORDS, 2 * RECORDS))

    beside, state = airflow.run("overlap_second")  # the other shard goes on
    assert state == "success"
    assert airflow.xcom("overlap_second", beside, "claim", "outcome") == "leases"
    assert airflow.client.run("overlap_first", run_id)["state"] == "running"
    assert airflow.states("overlap_first", run_id)["commit"] is None
    held = {lease.lease_owner for lease in airflow.leases("overlap_shared")} - {None}
    assert held == {str(Owner("local", "overlap_first", run_id, GROUP))}

    started.paused("overlap_first", False)
    assert started.end("overlap_first", run_id) == "success"
    last = [airflow.start("overlap_second") for _ in range(2)]  # a shard each
    assert [started.end("overlap_second", each) for each in last] == ["success", "success"]
    assert sorted(airflow.output("overlap_first") + airflow.output("overlap_second")) == sent


def test_a_group_that_has_failed_is_over_although_a_sibling_keeps_its_run_running(started: Started) -> None:
    airflow, run_id = started.airflow, started.runs["overlap_sibling"][0]
    started.wait_for("overlap_sibling", run_id, "commit", "upstream_failed")
    started.wait_for("overlap_sibling", run_id, "report", "upstream_failed")
    started.untell("fail-overlap_sibling")
    second = airflow.start("overlap_sibling")
    started.wait_for("overlap_sibling", second, "commit", "success", "failed", "upstream_failed")
    assert airflow.xcom("overlap_sibling", second, "claim", "outcome") == "adopted"
    assert airflow.client.run("overlap_sibling", run_id)["state"] == "running"
    assert airflow.output("overlap_sibling") == started.sent["overlap_sibling"]
    started.untell("hold-elsewhere-overlap_sibling")
    assert started.end("overlap_sibling", run_id) == "failed"
    assert started.end("overlap_sibling", second) == "success"


@pytest.mark.long
def test_a_killed_dag_test_is_named_turns_a_starving_run_red_and_is_released(started: Started) -> None:
    airflow, killed = started.airflow, started.kill_dag_test("overlap_killed")
    owner = str(Owner("local", "overlap_killed", killed, GROUP))
    started.untell("hold-overlap_killed")
    waiting, starving = airflow.start("overlap_killed"), airflow.start("overlap_starving")
    assert started.end("overlap_killed", waiting) == "success"
    assert airflow.xcom("overlap_killed", waiting, "claim", "outcome") == "held"
    assert f"(FROZEN) of {owner}" in airflow.log("overlap_killed", waiting, "claim")
    assert started.end("overlap_starving", starving) == "failed"
    log = airflow.log("overlap_starving", starving, "claim")
    assert owner in log
    assert "records have waited for" in log
    assert airflow.client.run("overlap_killed", killed)["state"] == "running"
    assert airflow.output("overlap_killed") == []

    where = ("--app-name", "test", "--stream-name", "overlap_killed", "--leases", "sql://leases_local")
    airflow.instance.airflow(
        "shardbatch", "release", *where, "--owner", owner, "--reason", "its dags test was killed", "--yes"
    )
    run_id, state = airflow.run("overlap_killed")
    assert (state, airflow.xcom("overlap_killed", run_id, "claim", "outcome")) == ("success", "adopted")
    assert airflow.output("overlap_killed") == started.sent["overlap_killed"]
