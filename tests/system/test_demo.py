# SPDX-License-Identifier: Apache-2.0
"""The demo, small: its report tells the truth, it stays up for runs by hand, and a signal leaves nothing running."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.airflow_client import AirflowClient, wait_until
from scripts.demo.folder import HOME
from scripts.demo.watcher import DAG_ID
from tests.support.demo import Demo, running

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1200)]


@pytest.fixture
def demo_log(tmp_path: Path) -> Path:
    return tmp_path / "demo.log"


@pytest.fixture(scope="module")
def demo_ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """The demo that stays up, once it has shown its report; the tests share it, and the last one ends it."""
    with running(tmp_path_factory.mktemp("demo-ui") / "demo.log", "--ui", "--flights", "20000") as demo:
        demo.wait_for("Airflow is left up", 1000)
        yield demo


def test_output_equals_the_source_and_the_report_says_so(demo_ui: Demo) -> None:
    require_true_report(demo_ui.text())


def left_up(demo: Demo) -> AirflowClient:
    found = re.search(rf"left up: +(http://127\.0\.0\.1:\d+)/dags/{DAG_ID}", demo.text())
    assert found is not None
    client = AirflowClient(found.group(1))
    client.wait_for_dag(DAG_ID)
    return client


def test_demo_ui_names_the_streams_page_of_its_application(demo_ui: Demo) -> None:
    client = left_up(demo_ui)
    found = re.search(r"Streams page: +(\S+)/plugin/streams#/app/(\w+)/([\w-]+)/(\w+)$", demo_ui.text(), re.MULTILINE)
    assert found is not None
    address, store, app_name, stream_name = found.groups()
    assert address == client.address
    asked = {"store": store, "app_name": app_name, "stream_name": stream_name}
    answer = client.get("/shardbatch/api/application", **asked)
    assert answer["application"]["last_commit_ms"] is not None


@pytest.mark.long
def test_demo_ui_takes_runs_by_hand(demo_ui: Demo) -> None:
    client = left_up(demo_ui)
    run_id = client.trigger(DAG_ID)
    assert client.wait_for_run(DAG_ID, run_id, timeout=300) == "success"


def test_demo_ui_stays_up_and_leaves_nothing_when_it_is_ended(demo_ui: Demo) -> None:
    left_up(demo_ui)
    demo_ui.process.send_signal(signal.SIGINT)
    assert demo_ui.process.wait(60) == 0
    assert demo_ui.left() == []


@pytest.mark.long
def test_the_demo_ends_by_itself_and_leaves_nothing_running(demo_log: Path) -> None:
    with running(demo_log, "--flights", "20000") as demo:
        code = demo.process.wait(1000)
        assert code == 0, demo.text()
        assert demo.left() == []
        require_true_report(demo.text())


def require_true_report(text: str) -> None:
    """What the report of 20,000 flights must say."""
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
