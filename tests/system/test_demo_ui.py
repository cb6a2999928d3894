# SPDX-License-Identifier: Apache-2.0
"""The demo that stays up, for runs by hand."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from scripts.airflow_client import AirflowClient
from tests.support.demo import running

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1200)]


def test_demo_ui_stays_up_for_runs_by_hand(tmp_path: Path) -> None:
    with running(tmp_path / "demo.log", "--ui", "--flights", "2000") as demo:
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
