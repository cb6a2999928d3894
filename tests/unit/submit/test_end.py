# SPDX-License-Identifier: Apache-2.0
"""What a task says whose application failed: the Spark provider's real hook, and a spark-submit that says what it is
told to and ends as it is told to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowException

from shardbatch.errors import JobFailed
from shardbatch.submit.end import Worked, job_failed
from shardbatch.submit.output import listen

OUTPUTS = Path(__file__).parent / "outputs"
WORKED = Worked("b1", 2, 1_200)
ON = "The Spark application for attempt 2 of batch b1, 1,200 records failed: "
MEND = "Nothing is lost: fix the job, then clear this task; the same batch runs again."

Told = Callable[..., JobFailed]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    """The error of a spark-submit with this output and end."""

    def submit(output: str, end: str, *, asked: bool = False, **arguments: Any) -> JobFailed:
        extra = arguments.pop("extra", {})
        (tmp_path / "output").write_text(output)
        program = tmp_path / "spark-submit"
        program.write_text(f"#!/bin/sh\ncat {tmp_path}/output\n{end}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        found = {"conn_type": "spark", "host": "local[2]", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(found))
        hook = SparkSubmitHook(**arguments)
        heard = listen(hook)
        with pytest.raises(AirflowException) as caught:
            hook.submit("job.py")
        connection = Connection(conn_id="spark_default", conn_type="spark", extra=json.dumps(extra))
        return job_failed(hook, connection, WORKED, heard.lines, caught.value, asked=asked)

    return submit


def output(name: str) -> str:
    return (OUTPUTS / f"{name}.txt").read_text("utf-8").partition("\n")[2]


def test_the_batch_the_cause_and_what_to_do_stand_in_it(told: Told) -> None:
    error = told(output("zero_division_in_the_driver"), "exit 1")
    assert str(error) == f"{ON}it ended with exit code 1: ZeroDivisionError: division by zero. {MEND}"
    assert error.retryable


def test_records_that_nobody_could_count_are_left_out() -> None:
    assert str(Worked("b1", 2, None)) == "attempt 2 of batch b1"


def test_the_last_line_stands_for_an_exception_that_is_not_named(told: Told) -> None:
    error = told(output("ends_with_a_message"), "exit 1")
    assert 'exit code 1; its output names no exception, the last line is "no flights today". Nothing' in str(error)


def test_no_output_at_all_is_said(told: Told) -> None:
    assert f"{ON}it ended with exit code 3 and wrote nothing. {MEND}" == str(told("", "exit 3"))


@pytest.mark.parametrize("end", ["exit 137", "kill -9 $$"])
def test_a_driver_that_was_killed_wanted_memory(told: Told, end: str) -> None:
    error = str(told(output("driver_was_killed"), end))
    assert error.startswith(f"{ON}it was killed by SIGKILL (exit code ")
    assert "for want of memory. Nothing is lost: give it more memory" in error


def test_a_driver_that_was_asked_to_end_is_told_apart_from_one_that_this_task_ended(told: Told) -> None:
    assert "killed by SIGTERM (exit code 143), by a person, by the shutdown of its host" in str(told("", "exit 143"))
    assert f"{ON}it was ended, because this task was asked to end. {MEND}" == str(told("", "exit 143", asked=True))
    assert "it ended by SIGSEGV (exit code 139)" in str(told("", "exit 139"))


@pytest.mark.parametrize("said", ["java.lang.OutOfMemoryError: Java heap space", "a.B: container exited with code 137"])
def test_a_cause_that_speaks_of_memory_is_told_to_give_more(told: Told, said: str) -> None:
    assert "give it more memory" in str(told(f'Exception in thread "main" {said}\n', "exit 1"))


def test_secrets_of_configuration_and_connection_are_hidden_wherever_they_stand(told: Told) -> None:
    text = 'Exception in thread "main" a.Refused: the key swordfish-1 of swordfish-2 at jdbc:x://bo:swordfish-3@db\n'
    error = str(
        told(
            text,
            "exit 1",
            conf={"spark.hadoop.fs.s3a.secret.key": "swordfish-1"},
            extra={"password": "swordfish-2"},
        )
    )
    assert "swordfish" not in error
    assert "Refused: the key ***" in error


@pytest.mark.parametrize("secret", ["swordfish-1", "jdbc:x://bo:swordfish-2@db"])
def test_a_secret_that_is_cut_in_two_is_hidden_too(told: Told, secret: str) -> None:
    said = f"{'x' * (600 - len('Refused: ') - len(secret) + 2)}{secret}"
    conf = {"spark.hadoop.fs.s3a.secret.key": "swordfish-1"}
    assert "sword" not in str(told(f'Exception in thread "main" a.Refused: {said}\n', "exit 1", conf=conf))


@pytest.mark.parametrize(
    ("host", "heard", "place"),
    [
        ("yarn", "Submitted application application_1_7", "yarn logs -applicationId application_1_7."),
        ("spark://h", "submitted as driver-2026-0001", "the page of its master, at driver-2026-0001."),
    ],
)
def test_of_a_driver_at_its_cluster_it_says_where_its_output_is(
    monkeypatch: pytest.MonkeyPatch, host: str, heard: str, place: str
) -> None:
    found = {"conn_type": "spark", "host": host, "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(found))
    hook = SparkSubmitHook(conf={"spark.a.secret": "swordfish"})
    listening = listen(hook)
    hook._process_spark_submit_log(iter([heard + "\n"]))
    said = RuntimeError("It ended with final status: FAILED\nDiagnostics: swordfish killed, OOMKilled")
    error = str(job_failed(hook, None, WORKED, listening.lines, said, asked=False))
    told = "It ended with final status: FAILED; diagnostics: *** killed, OOMKilled."
    assert error.startswith(f"{ON}{told} What its driver wrote: {place} Nothing is lost: give it more memory")
