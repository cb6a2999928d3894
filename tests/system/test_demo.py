# SPDX-License-Identifier: Apache-2.0
"""The demo, small: its report tells the truth, and a signal leaves nothing running."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from scripts.airflow_client import AirflowClient, wait_until
from scripts.demo.folder import HOME

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1200)]

ROOT = Path(__file__).resolve().parents[2]
MARK = "SHARDBATCH_TEST_MARK"


class Demo:
    """A running demo; everything that it starts inherits a mark by which it is found."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self.mark = uuid.uuid4().hex
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "scripts.demo", *arguments],
                cwd=ROOT,
                env=os.environ | {MARK: self.mark},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def text(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def wait_for(self, words: str, timeout: float = 400) -> None:
        def seen() -> bool:
            assert self.process.poll() is None, f"the demo ended before {words!r}:\n{self.text()}"
            return words in self.text()

        wait_until(seen, timeout, lambda: f"{words!r} did not come:\n{self.text()}")

    def left(self) -> list[psutil.Process]:
        """Processes that it started and that are still there."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)


@pytest.fixture
def demo_log(tmp_path: Path) -> Path:
    return tmp_path / "demo.log"


@contextlib.contextmanager
def running(log: Path, *arguments: str) -> Iterator[Demo]:
    demo = Demo(log, *arguments)
    try:
        yield demo
    finally:
        demo.end()


def test_output_equals_the_source_and_the_report_says_so(demo_log: Path) -> None:
    with running(demo_log, "--flights", "20000") as demo:
        code = demo.process.wait(1000)
        text = demo.text()
        assert code == 0, text
        assert demo.left() == []
    assert re.search(r"records in +20,000\b", text)
    assert re.search(r"records out +20,000\b", text)
    assert re.search(r"shards completed +3 of 3 closed ones; 7 shards in all", text)
    assert len(re.findall(r"^    \w\w +[\d,]+ +[\d,]+ +[\d,]+ +-?[\d.]+ +equal$", text, re.MULTILINE)) == 16
    assert "DIFFERENT" not in text
    assert text.count("SHARD_END") == 3


@pytest.mark.parametrize(
    ("sign", "moment"),
    [
        pytest.param(signal.SIGTERM, "Airflow is starting", id="sigterm-while-airflow-starts"),
        pytest.param(signal.SIGINT, " is FROZEN", id="sigint-while-spark-runs", marks=pytest.mark.long),
    ],
)
def test_a_signal_leaves_nothing_running(demo_log: Path, sign: signal.Signals, moment: str) -> None:
    with running(demo_log, "--flights", "2000") as demo:
        demo.wait_for(moment)
        assert len(demo.left()) > 1
        demo.process.send_signal(sign)
        assert demo.process.wait(60) == 130
        assert demo.left() == []
        assert "interrupted" in demo.text()


def test_demo_ui_stays_up_for_runs_by_hand(demo_log: Path) -> None:
    with running(demo_log, "--ui", "--flights", "2000") as demo:
        demo.wait_for("Airflow is left up")
        found = re.search(r"left up: +(http://127\.0\.0\.1:\d+)/dags/flights", demo.text())
        assert found is not None
        client = AirflowClient(found.group(1))
        client.wait_for_dag("flights")
        run_id = client.trigger("flights")
        assert client.wait_for_run("flights", run_id, timeout=300) == "success"
        demo.process.send_signal(signal.SIGINT)
        assert demo.process.wait(60) == 0
        assert demo.left() == []


@pytest.mark.long
def test_a_demo_that_is_killed_leaves_nothing_running(demo_log: Path) -> None:
    with running(demo_log, "--flights", "2000") as demo:
        demo.wait_for("run 1 begins")
        demo.process.kill()
        demo.process.wait()
        wait_until(lambda: not demo.left(), 60, lambda: f"left: {[process.cmdline() for process in demo.left()]}")


@pytest.mark.long
def test_the_next_demo_removes_the_folders_of_former_ones(demo_log: Path) -> None:
    with running(demo_log, "--flights", "60") as demo:
        demo.wait_for("everything is kept in")
        mine = {path for path in HOME.glob("demo-*") if str(path) in demo.text()}
        assert len(mine) == 1
    with running(demo_log, "--flights", "60") as demo:
        demo.wait_for("everything is kept in")
        assert not any(path.exists() for path in mine)
