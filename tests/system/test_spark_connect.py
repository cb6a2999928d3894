# SPDX-License-Identifier: Apache-2.0
"""SparkConnectBatchOperator with a real Spark Connect server; the scenarios run once, in one process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from scripts.environment import process_environment, python_path

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1600)]


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
        words, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1500
    )
    assert done.returncode == 0, done.stdout[-6000:]
    parts = re.split(r"^=== (\w+)$", done.stdout, flags=re.MULTILINE)
    logs = dict(zip(parts[1::2], parts[2::2], strict=True))
    return Ran(json.loads((folder / "found.json").read_text()), logs)


def test_a_script_runs_on_its_batch_and_leaves_a_finished_start(ran: Ran) -> None:
    found, log = ran.found["in_a_dag_run"], ran.logs["in_a_dag_run"]
    assert found["state"].endswith("success"), log[-4000:]
    assert found["records"] == 12
    (start,) = found["starts"]
    assert (start["attempt"], start["work"]) == (2, "transform")
    told = f"Attempt 2 of batch {found['batch_id']}, 12 records: this task ended well; start {start['start_id']} wrote "
    assert f"{told}{start['outputs'][0]}/batch_id={found['batch_id']}/" in log


def test_its_session_stands_on_the_batch_and_is_the_one_that_the_script_works_in(ran: Ran) -> None:
    found = ran.found["in_a_dag_run"]
    assert (found["attempt"], found["closed"]) == (2, 2)
    assert found["application"].startswith("connect:127.0.0.1:")
    session_id = found["application"].rpartition(":")[2]
    assert f"session: {session_id} 3 transform" in ran.logs["in_a_dag_run"]  # 3: what conf= says


def test_the_example_of_the_page_runs_the_job_of_the_page(ran: Ran) -> None:
    found = ran.found["example_of_the_page"]
    assert found["rows"] == 12
    assert [(start["attempt"], start["work"]) for start in found["starts"]] == [(1, "batch.write")]


@pytest.mark.parametrize("scene", ["in_a_dag_run", "late_client"], ids=["connected before", "connects only then"])
def test_a_script_of_an_ended_session_writes_nothing_though_it_lives_on_elsewhere(ran: Ran, scene: str) -> None:
    found = ran.found[scene]
    assert "SESSION_CLOSED" in found["refused"]
    assert not found["late"]
    assert "is ended: its server refuses it from now on." in found.get("said", ran.logs[scene])


def test_checkpoints_are_where_they_were_whatever_the_script_did(ran: Ran) -> None:  # R85
    for name, found in ran.found.items():
        assert set(found["checkpoints"]) == {"TRIM_HORIZON"}, name


def test_an_attempt_that_is_committed_opens_no_session_and_succeeds(ran: Ran) -> None:
    found = ran.found["committed_already"]
    assert (found["error"], found["application"]) == ("", None)
    assert "Session " not in ran.logs["committed_already"]


def test_a_batch_of_another_owner_is_not_worked_on_and_not_retried(ran: Ran) -> None:
    found = ran.found["of_another_owner"]
    assert found["error"].startswith("final LeaseLost: Batch ")
    assert "another/owner" in found["error"]
    assert "Session " not in ran.logs["of_another_owner"]


def test_a_failed_script_fails_the_task_and_closes_the_attempt(ran: Ran) -> None:
    found = ran.found["job_fails"]
    assert found["error"] == (
        f"JobFailed: The Spark application for attempt 1 of batch {found['batch_id']}, 12 records failed: it ended "
        "with exit code 1: RuntimeError: the transform is broken. Nothing is lost: fix the job, then clear this task; "
        "the same batch runs again."
    )
    assert (found["closed"], found["starts"]) == (1, [])


def test_what_connect_has_not_is_told_with_the_way_back(ran: Ran) -> None:
    error = ran.found["job_wants_a_context"]["error"]
    assert "PySparkAttributeError: [JVM_ATTRIBUTE_NOT_SUPPORTED] Attribute `sparkContext`" in error
    assert "run it with SparkSubmitBatchOperator" in error


def test_configuration_that_belongs_to_the_server_is_refused_before_the_script_starts(ran: Ran) -> None:
    found = ran.found["conf_is_refused"]
    assert found["error"].startswith("final ConfigurationError: The Spark Connect server refuses conf: ")
    assert "spark.driver.memory" in found["error"]
    assert (found["closed"], found["starts"]) == (1, [])


def test_a_batch_that_is_lost_ends_script_and_query_and_fails_without_a_retry(ran: Ran) -> None:
    found = ran.found["lost_while_it_runs"]
    assert found["error"].startswith("final LeaseLost: Batch ")
    assert (found["left"], found["free"], found["starts"]) == (0, True, [])


def test_a_killed_task_leaves_neither_script_nor_query_and_closes_its_attempt(ran: Ran) -> None:
    found = ran.found["killed"]
    assert "it was ended, because this task was asked to end." in found["error"]
    seen = found["left"], found["free"], found["closed"], found["starts"]
    assert seen == (0, True, closes(ran, "killed"), []), ran.logs["killed"][-3000:]


def closes(ran: Ran, scene: str) -> int:
    """The number of the attempt that is closed: none if the server, which the query keeps busy, was too late to say
    that the session is ended."""
    return int("could not be ended (" not in ran.logs[scene])


def test_the_query_of_a_script_that_is_gone_is_ended(ran: Ran) -> None:
    found = ran.found["script_killed"]
    assert "it was killed by SIGKILL" in found["error"]
    seen = found["free"], found["closed"], found["starts"]
    assert seen == (True, closes(ran, "script_killed"), []), ran.logs["script_killed"][-3000:]


def test_a_retry_ends_what_a_lost_worker_left_and_works_in_a_session_of_its_own(ran: Ran) -> None:
    found = ran.found["task_lost_and_retried"]
    assert (found["lives"] > 0, found["error"], found["left"], found["same"]) == (True, "", 0, False)
    assert "Ended a script that an earlier try" in ran.logs["task_lost_and_retried"]
    assert len(found["starts"]) == 1


def test_of_two_tries_at_once_the_later_ends_the_earlier_and_only_one_start_is_finished(ran: Ran) -> None:
    found = ran.found["two_tries_at_once"]
    assert (found["error"], found["code"], len(found["starts"])) == ("", 1, 1)
    assert "JobFailed: The Spark application for attempt 1" in found["first"]


def test_a_server_that_is_lost_fails_the_try_and_the_next_one_succeeds(ran: Ran) -> None:
    found = ran.found["server_lost"]
    assert found["error"].startswith("JobFailed: ")  # and not final: it is tried again
    assert "the task is tried again in a session of its own" in found["error"].lower()
    assert (found["retried"], len(found["starts"])) == ("", 1)


def test_nothing_of_the_records_is_logged(ran: Ran) -> None:
    assert "key-7" not in "".join(ran.logs.values())
    assert set(ran.found) == set(ran.logs)
