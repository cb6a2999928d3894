# SPDX-License-Identifier: Apache-2.0
"""SparkConnectBatchOperator with a real Spark Connect server; the scenarios run once, in one process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scripts.environment import process_environment, python_path

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Ran:
    """What the scenarios found, and the log of each."""

    found: dict[str, Any]
    logs: dict[str, str]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("spark-connect")
    environment = {
        **process_environment(),
        "PYTHONPATH": python_path(),
        "AIRFLOW_HOME": str(folder / "home"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "True",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder}/airflow.db",
        "AIRFLOW__OPENLINEAGE__DISABLED": "True",
        "AIRFLOW_CONN_LEASES_DB": json.dumps({"conn_type": "sqlite", "host": f"{folder}/leases.db"}),
    }
    (folder / "dags").mkdir()
    words = [sys.executable, "-m", "tests.system.spark_connect.scenarios", str(folder)]
    done = subprocess.run(
        words, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=800
    )
    (folder / "log").write_text(done.stdout)
    assert done.returncode == 0, done.stdout[-6000:]
    parts = re.split(r"^=== (\w+)$", done.stdout, flags=re.MULTILINE)
    logs = dict(zip(parts[1::2], parts[2::2], strict=True))
    return Ran(json.loads((folder / "found.json").read_text()), logs)


def test_x(ran: Ran) -> None:
    for n, f in ran.found.items(): print("#", n, json.dumps(f, indent=1))
    for n, f in ran.logs.items(): print("#", n, f[-2500:])
    assert 0
