# SPDX-License-Identifier: Apache-2.0
"""SparkSubmitBatchOperator with a real spark-submit in local mode; the scenarios run once, in one process."""

from __future__ import annotations

import json
import os
import re
import socket
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
    folder = tmp_path_factory.mktemp("spark-operator")
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
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
    }
    del environment["PYSPARK_PYTHON"], environment["PYSPARK_DRIVER_PYTHON"]  # the operator finds its own Python
    (folder / "dags").mkdir()
    words = [sys.executable, "-m", "tests.system.spark_operator.scenarios", str(folder)]
    done = subprocess.run(
        words, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=800
    )
    assert done.returncode == 0, done.stdout[-6000:]
    parts = re.split(r"^=== (\w+)$", done.stdout, flags=re.MULTILINE)
    logs = dict(zip(parts[1::2], parts[2::2], strict=True))
    return Ran(json.loads((folder / "found.json").read_text()), logs)


def of_this_host(reference: str) -> bool:
    return re.fullmatch(rf"client:{re.escape(socket.gethostname())}:\d+", reference) is not None


def test_an_application_runs_on_its_batch_and_leaves_a_finished_start(ran: Ran) -> None:
    found = ran.found["in_a_dag_run"]
    assert found["state"].endswith("success"), ran.logs["in_a_dag_run"][-4000:]
    assert found["records"] == 12
    (start,) = found["starts"]
    assert (start["attempt"], start["work"]) == (2, "transform")
    told = f"Attempt 2 of batch {found['batch_id']}, 12 records: this task ended well; start {start['start_id']} wrote "
    assert f"{told}{start['outputs'][0]}/batch_id={found['batch_id']}/" in ran.logs["in_a_dag_run"]


def test_the_applications_id_stands_on_the_batch_and_its_attempt_is_closed(ran: Ran) -> None:
    found = ran.found["in_a_dag_run"]
    assert (found["attempt"], found["closed"]) == (2, 2)
    assert of_this_host(found["application"])


def test_the_spark_submit_of_an_older_attempt_is_ended_first(ran: Ran) -> None:
    assert ran.found["in_a_dag_run"]["older_ended"]
    assert "Ended the older application client:" in ran.logs["in_a_dag_run"]


def test_the_batch_stands_in_the_applications_name_and_configuration(ran: Ran) -> None:
    batch_id = ran.found["in_a_dag_run"]["batch_id"]
    assert f"application name: copy orders shardbatch-{batch_id}" in ran.logs["in_a_dag_run"]
    assert f"conf: {batch_id} transform" in ran.logs["in_a_dag_run"]


def test_checkpoints_are_where_they_were_whatever_the_application_did(ran: Ran) -> None:  # R85
    for name, found in ran.found.items():
        assert set(found["checkpoints"]) == {"TRIM_HORIZON"}, name


def test_an_attempt_that_is_committed_runs_nothing_and_succeeds(ran: Ran) -> None:
    found = ran.found["committed_already"]
    assert (found["error"], found["application"]) == ("", None)
    assert "Spark-Submit cmd" not in ran.logs["committed_already"]


def test_a_batch_of_another_owner_is_not_worked_on_and_not_retried(ran: Ran) -> None:
    found = ran.found["of_another_owner"]
    assert found["error"].startswith("final LeaseLost: Batch ")
    assert "another/owner" in found["error"]
    assert "Spark-Submit cmd" not in ran.logs["of_another_owner"]


def test_a_failed_application_fails_the_task_and_closes_the_attempt(ran: Ran) -> None:
    found = ran.found["job_fails"]
    assert found["error"] == (
        f"JobFailed: The Spark application for attempt 1 of batch {found['batch_id']}, 12 records failed: it ended "
        "with exit code 1: RuntimeError: the transform is broken. Nothing is lost: fix the job, then clear this task; "
        "the same batch runs again."
    )
    assert (found["closed"], found["starts"]) == (1, [])


def test_a_batch_that_is_lost_ends_its_application_and_fails_without_a_retry(ran: Ran) -> None:
    found = ran.found["lost_while_it_runs"]
    assert found["error"].startswith("final LeaseLost: Batch ")
    assert found["processes"] >= 2
    assert (found["left"], found["starts"]) == ([], [])


def test_a_killed_task_leaves_no_process_and_closes_its_attempt(ran: Ran) -> None:
    found = ran.found["killed"]
    assert "it was ended, because this task was asked to end." in found["error"]
    assert found["processes"] >= 2
    assert (found["left"], found["closed"], found["starts"]) == ([], 1, [])


def test_nothing_of_the_records_or_of_connections_is_logged(ran: Ran) -> None:
    assert "key-7" not in "".join(ran.logs.values())
    assert os.environ.get("AWS_SECRET_ACCESS_KEY") is None


def test_the_scenarios_ran_where_the_test_said(ran: Ran) -> None:
    assert set(ran.found) == set(ran.logs)
    assert Path(ran.found["in_a_dag_run"]["starts"][0]["outputs"][0].removeprefix("file:")).name == "out"
