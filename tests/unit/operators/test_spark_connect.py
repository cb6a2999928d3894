# SPDX-License-Identifier: Apache-2.0
"""SparkConnectBatchOperator at parse time, and the parts of a run that need no Spark."""

from __future__ import annotations

import json
import re
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from shardbatch.core import batch as batches
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.rows import Namespace
from shardbatch.errors import ConfigurationError, ConnectionUnknown, JobFailed
from shardbatch.hooks.kinesis import KinesisStream
from shardbatch.hooks.leases import SQLLeases
from shardbatch.hooks.staging import Staging
from shardbatch.operators.spark_connect import SparkConnectBatchOperator
from shardbatch.submit import connect
from shardbatch.submit.applications import Ending
from shardbatch.submit.attempt import EarlierApplication
from shardbatch.submit.connect import Server
from shardbatch.task_group import StreamBatch
from tests.unit.submit.connect_server import Sessions, running

TOKEN = "a-token-of-the-server"


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    """What stands for a group, and a script."""
    (tmp_path / "job.py").write_text("import os\nprint(os.environ['SPARK_REMOTE'])\nraise SystemExit(CODE)\n")
    return {
        "application": str(tmp_path / "job.py"),
        "conn_id": "connect",
        "manifest_uri": "file:///staging/manifest.json",
        "manifest_digest": "sha256:00",
        "batch_id": "b1",
        "attempt": 2,
        "app_name": "etl",
        "stream": KinesisStream("orders", aws_conn_id=None),
        "leases": SQLLeases("leases_db"),
        "staging": Staging(str(tmp_path)),
    }


class Work:
    """An attempt whose row is not looked at."""

    batch_id, attempt, work = "b1", 2, "transform"

    def __init__(self) -> None:
        self.noted: list[str | None] = []
        self.closed = 0

    def records(self) -> int:
        return 12

    def monotonic(self) -> float:
        return 0.0

    def beat(self, application: str | None) -> None:
        self.noted.append(application)

    def close(self) -> None:
        self.closed += 1

    def earlier_application(self) -> None:
        return None


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sessions]:
    """A server, and the connection to it."""
    made = Sessions()
    with running(made) as server:
        fields = {"conn_type": "spark_connect", "host": server.host, "port": server.port, "login": server.user}
        monkeypatch.setenv("AIRFLOW_CONN_CONNECT", json.dumps(fields))
        made.port = server.port
        yield made


def operator(**arguments: Any) -> SparkConnectBatchOperator:
    return SparkConnectBatchOperator(**{"task_id": "transform", **arguments})


def context() -> Any:
    run = SimpleNamespace(dag_id="dag", run_id="run1", run_type="manual", conf={})
    return {"ti": SimpleNamespace(map_index=-1, id="try-1"), "dag_run": run, "params": {}}


def run(task: SparkConnectBatchOperator, work: Work) -> None:
    task._prepare(context(), task._order_of(context()))
    task._work(context(), cast("Any", work))


def script(given: dict[str, Any], text: str) -> None:
    Path(given["application"]).write_text(text)


def test_in_a_group_it_comes_after_freeze_and_before_commit(given: dict[str, Any]) -> None:
    with (
        DAG("dag", schedule=None),
        StreamBatch("orders", **{name: given[name] for name in ("app_name", "stream", "leases", "staging")}) as batch,
    ):
        task = operator(application="job.py", batch=batch)
    assert "orders.freeze" in task.upstream_task_ids
    assert "orders.commit" in task.downstream_task_ids


def test_what_only_spark_submit_runs_or_takes_is_refused_at_parse_time(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"Task 'transform'.*job\.jar is not a Python script"):
        operator(**{**given, "application": "job.jar"})
    with pytest.raises(ConfigurationError, match=r"has no py_files\. .*addArtifacts"):
        operator(**given, py_files="lib.zip")
    with pytest.raises(ConfigurationError, match=r"has no java_class\. .*SparkSubmitBatchOperator"):
        operator(**given, java_class="com.example.Job")


def test_what_is_missing_fails_the_try_before_anything_is_started(given: dict[str, Any], sessions: Sessions) -> None:
    with pytest.raises(ConnectionUnknown, match="no Spark Connect connection 'nowhere'"):  # it may be back for a retry
        operator(**{**given, "conn_id": "nowhere"}).execute(context())
    with pytest.raises(AirflowFailException, match=r"script /nowhere\.py is not there on this worker"):
        operator(**{**given, "application": "/nowhere.py"}).execute(context())
    assert sessions.seen == []


def test_its_session_is_noted_before_the_server_knows_it_and_ended_at_the_end(
    given: dict[str, Any], sessions: Sessions
) -> None:
    work, task = Work(), operator(**given, conf={"spark.sql.shuffle.partitions": 3})
    known_then: list[int] = []
    work.beat = lambda application: (work.noted.append(application), known_then.append(len(sessions.seen)))  # type: ignore[assignment,func-returns-value]
    script(given, "import os\nassert os.environ['SHARDBATCH_TOKEN'] == 'try-1'\n")
    run(task, work)
    assert known_then[0] == 0
    assert work.noted[0] is not None
    session_id = work.noted[0].rpartition(":")[2]
    assert sessions.closed == {("ann", session_id)}
    assert sessions.conf == {"spark.sql.shuffle.partitions": "3"}
    assert work.closed == 1
    assert cast("Any", task.bound()).token == "try-1"


def test_each_try_has_another_session(given: dict[str, Any], sessions: Sessions) -> None:
    script(given, "")
    task, works = operator(**given), (Work(), Work())
    for work in works:
        run(task, work)
    assert works[0].noted[0] != works[1].noted[0]
    assert len(sessions.closed) == 2


def test_a_failed_script_is_told_with_its_exception_and_closes_the_attempt(
    given: dict[str, Any], sessions: Sessions
) -> None:
    work = Work()
    script(given, "raise RuntimeError('the transform is broken')")
    with pytest.raises(JobFailed, match=r"exit code 1: RuntimeError: the transform is broken\. Nothing is lost"):
        run(operator(**given), work)
    assert (work.closed, len(sessions.closed)) == (1, 1)


def test_a_script_that_was_killed_for_want_of_memory_is_told_where_to_give_more(
    given: dict[str, Any], sessions: Sessions
) -> None:
    script(given, "import os\nos.kill(os.getpid(), 9)\n")
    with pytest.raises(JobFailed, match=r"killed by SIGKILL .*more memory to this worker .*else to the Spark Connect"):
        run(operator(**given), Work())


def test_the_python_of_the_author_runs_the_script(given: dict[str, Any], sessions: Sessions, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho of the author\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    script(given, "import sys\nassert sys.argv[1:] == ['a', '7']\n")
    task = operator(**given, python=str(python), application_args=["a", 7])
    run(task, Work())
    assert "of the author" in task._output.lines


def test_secrets_of_the_script_are_hidden_in_its_log(
    given: dict[str, Any], sessions: Sessions, capsys: pytest.CaptureFixture[str]
) -> None:
    script(given, "import os\nprint('it has', os.environ['API_TOKEN'])\nraise SystemExit(2)\n")
    with pytest.raises(JobFailed) as failed:
        run(operator(**given, env_vars={"API_TOKEN": TOKEN}), Work())
    logged = capsys.readouterr().out
    assert "it has ***" in logged
    assert TOKEN not in logged + str(failed.value)


def test_a_task_that_was_asked_to_end_starts_no_script(
    given: dict[str, Any], sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, task = Work(), operator(**given)
    script(given, f"open({str(tmp_path / 'ran')!r}, 'w')")
    opened = task._open_session

    def opens_while_it_is_asked(*of: Any) -> str:
        found = opened(*of)
        task.on_kill()
        return found

    monkeypatch.setattr(task, "_open_session", opens_while_it_is_asked)
    with pytest.raises(JobFailed, match="this task was asked to end"):
        run(task, work)
    assert not (tmp_path / "ran").exists()
    assert len(sessions.closed) == 1
    assert work.closed >= 1


def test_a_retry_ends_the_session_of_the_row_also_if_the_attempt_is_closed(
    given: dict[str, Any], sessions: Sessions
) -> None:
    earlier = connect.Session("127.0.0.1", sessions.port, "ann", str(uuid.uuid4()))
    work = Work()
    work.earlier_application = lambda: EarlierApplication(earlier.reference, of_this_attempt=True, ended=True)  # type: ignore[assignment,return-value]
    script(given, "")
    run(operator(**given), work)
    assert ("ann", earlier.session_id) in sessions.closed


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ('[CANNOT_MODIFY_CONFIG] Cannot modify the value of the Spark config: "a".', ConfigurationError),
        ("[INVALID_CONF_VALUE.TYPE_MISMATCH] The value 'x' in the config \"a\" is invalid.", ConfigurationError),
        ("a should be int, but was x", ConfigurationError),
        ("[INVALID_HANDLE.SESSION_CLOSED] The handle 7 is invalid. Session was closed.", JobFailed),
    ],
)
def test_configuration_that_the_server_refuses_is_no_matter_of_a_retry(
    given: dict[str, Any], sessions: Sessions, told: str, kind: type[Exception]
) -> None:
    sessions.refusal = told
    with pytest.raises(kind, match=re.escape(told)):
        run(operator(**given, conf={"a": "x"}), Work())


def test_what_the_script_will_not_find_is_said_before_it_runs(
    given: dict[str, Any], sessions: Sessions, capsys: pytest.CaptureFixture[str]
) -> None:
    script(given, "print('it runs')\nif False:\n    spark.sparkContext.stop()\n")
    run(operator(**given), Work())
    logged = capsys.readouterr().out
    assert "job.py: line 3 uses .sparkContext. Over Spark Connect this fails." in logged
    assert logged.index("line 3 uses") < logged.index("it runs")


def test_a_python_that_is_not_there_is_named(given: dict[str, Any], sessions: Sessions) -> None:
    work = Work()
    with pytest.raises(ConfigurationError, match=r"/nowhere/python could not be started on this worker: No such file"):
        run(operator(**given, python="/nowhere/python"), work)
    assert (work.closed, len(sessions.closed)) == (1, 1)


def test_a_server_that_does_not_answer_is_asked_once_for_each_end(
    given: dict[str, Any], sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, task, asked = Work(), operator(**given), []
    script(given, "raise SystemExit(1)")
    fails = Ending(False, "not reached")
    monkeypatch.setattr("shardbatch.submit.connect_session.end", lambda *of: asked.append(of) or fails)
    with pytest.raises(JobFailed):
        run(task, work)
    assert (len(asked), work.closed) == (1, 0)
    task.on_kill()
    assert (len(asked), work.closed) == (2, 0)


def test_a_server_that_is_not_reached_fails_the_try_and_a_retry_may_help(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CONNECT", '{"conn_type": "spark_connect", "host": "127.0.0.1", "port": 1}')
    monkeypatch.setattr("shardbatch.submit.connect_calls.Calls.open.__defaults__", (0.2,))
    work, task = Work(), operator(**given)
    with pytest.raises(JobFailed, match=r"127\.0\.0\.1:1 did not open a session .*tried again") as failed:
        run(task, work)
    assert failed.value.retryable
    assert work.closed == 1  # no script has started


def test_a_server_that_was_started_anew_ends_the_script(given: dict[str, Any], sessions: Sessions) -> None:
    script(given, "import time\ntime.sleep(600)\n")
    work, task = Work(), operator(**given, heartbeat=timedelta(seconds=0.05))
    opened = task._open_session

    def opens_then_is_lost(*of: Any) -> str:
        found = opened(*of)
        sessions.generation = "second"
        return found

    task._open_session = opens_then_is_lost  # type: ignore[method-assign]
    with pytest.raises(JobFailed, match=r"was started anew and knows its session no more\. .*tried again"):
        run(task, work)


def test_an_attempt_whose_session_may_still_work_stays_open(given: dict[str, Any], sessions: Sessions) -> None:
    script(given, "raise SystemExit(1)")
    work, task = Work(), operator(**given)
    opened = task._open_session

    def opens_then_is_out_of_reach(*of: Any) -> str:
        found = opened(*of)
        task._server = Server("127.0.0.1", 1)
        return found

    task._open_session = opens_then_is_out_of_reach  # type: ignore[method-assign]
    with pytest.raises(JobFailed):
        run(task, work)
    assert (work.closed, sessions.closed) == (0, set())


def test_a_recorded_session_of_an_older_attempt_is_ended(given: dict[str, Any], sessions: Sessions) -> None:
    task = operator(**given)
    script(given, "")
    work = Work()
    run(task, work)
    assert work.noted[0] is not None
    later = operator(**given)
    assert later.end_recorded(work.noted[0], "b1").over
    assert not later.end_recorded("yarn:application_1", "b1").over


@pytest.mark.parametrize("mapped", [True, False], ids=["mapped", "one"])
def test_freeze_ends_what_was_left_also_of_a_mapped_task_and_by_a_templated_connection(
    given: dict[str, Any], sessions: Sessions, mapped: bool
) -> None:
    session = connect.Session("127.0.0.1", sessions.port, "ann", str(uuid.uuid4()))
    of_group = {name: given[name] for name in ("app_name", "stream", "leases", "staging")}
    with DAG("dag", schedule=None) as dag, StreamBatch("orders", **of_group) as batch:
        fields: dict[str, Any] = {"task_id": "transform", "conn_id": "{{ params.spark }}", "batch": batch}
        if mapped:
            SparkConnectBatchOperator.partial(**fields).expand(application=["a.py", "b.py"])
        else:
            SparkConnectBatchOperator(**fields, application="a.py")
    freeze = cast("Any", dag.task_dict["orders.freeze"])
    ti = SimpleNamespace(dag_id="dag", run_id="run1")
    left_overs = freeze._left_overs({"ti": ti, "params": {"spark": "connect"}})
    row = Batch(Namespace("etl", "orders"), "", "b-left", "me", 5, BatchState.FROZEN, attempt=1)
    row = batches.heartbeat(row, 1, session.reference, "orders.transform[1]" if mapped else "orders.transform")
    assert replace(left_overs, working=lambda work: False)(row)
    assert sessions.closed == {("ann", session.session_id)}


def test_a_task_that_was_asked_to_end_before_it_began_starts_nothing(
    given: dict[str, Any], sessions: Sessions, tmp_path: Path
) -> None:
    task = operator(**given)
    script(given, f"open({str(tmp_path / 'ran')!r}, 'w')")
    task.on_kill()
    with pytest.raises(JobFailed, match="this task was asked to end"):
        run(task, Work())
    assert not (tmp_path / "ran").exists()
    assert sessions.open == set()
