# SPDX-License-Identifier: Apache-2.0
"""Drivers of a standalone cluster, whose submission server is played here: ended and seen to end, or gone on with."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException

from shardbatch.hooks.kinesis import KinesisStream
from shardbatch.hooks.leases import SQLLeases
from shardbatch.hooks.staging import Staging
from shardbatch.operators.spark import SparkSubmitBatchOperator
from shardbatch.submit import applications, processes
from shardbatch.submit.attempt import EarlierApplication


class Master(ThreadingHTTPServer):
    """The submission server of a master; drivers are in the states that stand here."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.states: dict[str, str] = {}
        self.killed: list[str] = []
        self.obeys = True


class _Answers(BaseHTTPRequestHandler):
    server: Master

    def do_GET(self) -> None:
        driver = self.path.rpartition("/")[2]
        answer = {"action": "SubmissionStatusResponse", "submissionId": driver, "success": driver in self.server.states}
        if driver in self.server.states:
            answer["driverState"] = self.server.states[driver]
        self._send(answer)

    def do_POST(self) -> None:
        driver = self.path.rpartition("/")[2]
        self.server.killed.append(driver)
        if self.server.obeys:
            self.server.states[driver] = "KILLED"
        self._send({"action": "KillSubmissionResponse", "submissionId": driver, "success": True})

    def _send(self, answer: dict[str, Any]) -> None:
        body = json.dumps(answer, indent=2, separators=(",", " : ")).encode()  # as the master writes it
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def master(monkeypatch: pytest.MonkeyPatch) -> Iterator[Master]:
    server = Master()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    extra = {"deploy-mode": "cluster", "rest-port": server.server_port}
    connection = {"conn_type": "spark", "host": "spark://127.0.0.1:7077", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def task(folder: Path, **more: Any) -> SparkSubmitBatchOperator:
    return SparkSubmitBatchOperator(
        task_id="transform",
        application="job.jar",
        manifest_uri="file:///m",
        manifest_digest="d",
        batch_id="b1",
        attempt=1,
        app_name="etl",
        stream=KinesisStream("orders", aws_conn_id=None),
        leases=SQLLeases("leases_db"),
        staging=Staging(str(folder)),
        heartbeat=timedelta(seconds=1),
        **more,
    )


def test_a_running_driver_is_ended_and_seen_to_end(master: Master, tmp_path: Path) -> None:  # R88
    master.states["driver-1"] = "RUNNING"
    ending = task(tmp_path).end_recorded("standalone:driver-1", "b1")
    assert (ending.over, master.killed) == (True, ["driver-1"])
    assert "KILLED" in ending.said


@pytest.mark.parametrize("state", sorted(applications.DRIVER_OVER))
def test_a_driver_that_has_ended_is_not_asked_to(master: Master, tmp_path: Path, state: str) -> None:
    master.states["driver-1"] = state
    assert task(tmp_path).end_recorded("standalone:driver-1", "b1").over
    assert master.killed == []


def test_a_driver_that_does_not_end_is_not_over(
    master: Master, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applications, "DRIVER_PATIENCE_S", 0.2)
    master.states["driver-1"], master.obeys = "RUNNING", False
    ending = task(tmp_path).end_recorded("standalone:driver-1", "b1")
    assert not ending.over
    assert "never read" in ending.said


def test_a_driver_that_the_master_does_not_know_is_not_known_to_be_over(
    master: Master, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applications, "DRIVER_PATIENCE_S", 0.2)
    master.obeys = False
    assert not task(tmp_path).end_recorded("standalone:driver-9", "b1").over


def test_a_master_that_does_not_answer_ends_nothing(master: Master, tmp_path: Path) -> None:
    operator = task(tmp_path)
    master.shutdown()
    master.server_close()
    ending = operator.end_recorded("standalone:driver-1", "b1")
    assert not ending.over
    assert "never read" in ending.said


@pytest.mark.parametrize("kind", ["client", "task"])
def test_a_driver_is_not_over_because_what_submitted_it_is_gone(
    master: Master, tmp_path: Path, kind: str
) -> None:  # R90
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    ending = task(tmp_path).end_recorded(f"{kind}:{socket.gethostname()}:{gone.pid}", "b1")
    assert not ending.over
    assert "never read" in ending.said


def test_a_spark_submit_that_has_no_driver_yet_is_ended_and_its_attempt_is_not_over(
    master: Master, tmp_path: Path
) -> None:
    words = ["spark-submit", "--conf", "spark.shardbatch.batch=b1"]
    sleep = [sys.executable, "-c", "print(flush=True); import time; time.sleep(600)"]
    process = subprocess.Popen([*sleep, *words], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()  # until then its command line is this process's
        assert not task(tmp_path).end_recorded(processes.reference(process.pid), "b1").over
        assert process.poll() is not None
    finally:
        process.kill()
        process.communicate()


class Earlier:
    """An attempt whose row names an application of an earlier try."""

    batch_id, attempt, work = "b-of-nobody", 1, "transform"

    def __init__(self, name: str, *, of_this_attempt: bool) -> None:
        self.found = EarlierApplication(name, of_this_attempt=of_this_attempt, ended=False)

    def earlier_application(self) -> EarlierApplication:
        return self.found


class State(dict[str, Any]):
    """A task's state store."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value


def test_a_retry_goes_on_with_a_driver_that_only_the_batch_row_knows(master: Master, tmp_path: Path) -> None:  # R90
    master.states["driver-1"] = "RUNNING"
    operator, state = task(tmp_path), State()
    context: Any = {"task_state_store": state, "ti": SimpleNamespace(map_index=-1)}
    found: Any = Earlier("standalone:driver-1", of_this_attempt=True)
    assert operator._earlier(context, found) == "standalone:driver-1"
    assert state == {operator.external_id_key: "driver-1"}
    assert master.killed == []


@pytest.mark.parametrize(
    ("of_this_attempt", "durable", "remembers"), [(False, True, True), (True, False, True), (True, True, False)]
)
def test_a_driver_that_nobody_goes_on_with_is_ended_before_another_is_submitted(
    master: Master, tmp_path: Path, of_this_attempt: bool, durable: bool, remembers: bool
) -> None:
    master.states["driver-1"] = "RUNNING"
    context: Any = {"task_state_store": State() if remembers else None}
    found: Any = Earlier("standalone:driver-1", of_this_attempt=of_this_attempt)
    assert task(tmp_path, durable=durable)._earlier(context, found) is None
    assert master.killed == ["driver-1"]


class Work:
    """An attempt that notes whether it was closed."""

    batch_id, attempt = "b1", 1

    def __init__(self) -> None:
        self.closed = False

    def beat(self, application: str | None) -> None:
        return

    def monotonic(self) -> float:
        return time.monotonic()

    def records(self) -> int:
        return 12

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(("state", "closed"), [("RUNNING", False), ("UNKNOWN", False), ("FAILED", True)])
def test_a_task_that_fails_closes_its_attempt_only_if_its_driver_is_known_to_be_over(
    master: Master, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, closed: bool
) -> None:
    operator, work = task(tmp_path), Work()

    def fails_while_it_waits(stock: SparkSubmitOperator, context: Any) -> None:
        stock._hook = stock._get_hook()
        stock._hook._driver_id, stock._hook._driver_status = "driver-1", state
        raise AirflowException("the master could not be asked")

    monkeypatch.setattr(SparkSubmitOperator, "execute", fails_while_it_waits)
    with pytest.raises(AirflowException, match="could not be asked"):
        operator._run({}, work)  # type: ignore[arg-type]
    assert work.closed is closed


@pytest.mark.parametrize("obeys", [True, False])
def test_a_task_that_is_killed_leaves_its_attempt_open_until_its_driver_is_seen_to_end(
    master: Master, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, obeys: bool
) -> None:
    monkeypatch.setattr(applications, "DRIVER_PATIENCE_S", 0.2)
    operator, work = task(tmp_path), Work()
    master.states["driver-1"], master.obeys = "RUNNING", obeys
    operator._handover = operator._handover_of({"ti": SimpleNamespace(map_index=-1)})  # type: ignore[arg-type]
    operator._open = work  # type: ignore[assignment]
    operator._hook = operator._get_hook()
    operator._hook._driver_id = "driver-1"
    operator.on_kill()
    assert "driver-1" in master.killed
    assert not work.closed
    assert operator.end_recorded("standalone:driver-1", "b1").over is obeys
