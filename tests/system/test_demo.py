# SPDX-License-Identifier: Apache-2.0
"""The demo, small: its report tells the truth, and a signal leaves nothing running."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from scripts.airflow_client import wait_until
from scripts.demo.folder import HOME
from tests.support.demo import running

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1200)]


@pytest.fixture
def demo_log(tmp_path: Path) -> Path:
    return tmp_path / "demo.log"


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
