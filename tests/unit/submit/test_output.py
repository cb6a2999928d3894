# SPDX-License-Identifier: Apache-2.0
"""What ended a driver, from outputs of real ones (``outputs/make.py`` makes them) and of those that cannot run here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shardbatch.submit.output import LINES, SHOWN, WIDTH, cause_of, last_line, listen

OUTPUTS = Path(__file__).parent / "outputs"


def real(name: str) -> list[str]:
    """The output of a real driver, without the exit code in front."""
    return (OUTPUTS / f"{name}.txt").read_text("utf-8").splitlines()[1:]


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("syntax_error", "SyntaxError: '(' was never closed"),
        ("zero_division_in_the_driver", "ZeroDivisionError: division by zero"),
        ("message_of_several_lines", "ValueError: 1 row is wrong delay: not a number day: missing"),
        ("error_in_a_python_worker", "ZeroDivisionError: division by zero"),
        ("error_in_a_worker_while_writing", "ZeroDivisionError: division by zero"),
        (
            "missing_file",
            "AnalysisException: [PATH_NOT_FOUND] Path does not exist: file:/no/such/folder. SQLSTATE: 42K03",
        ),
        ("raised_in_an_executor", "SparkRuntimeException: [USER_RAISED_EXCEPTION] no carrier SQLSTATE: P0001"),
        ("error_of_java", 'NumberFormatException: For input string: "twelve"'),
        ("while_another_was_handled", "RuntimeError: no x today"),
        ("swallowed_at_exit", "KeyError: 'carrier'"),
        ("missing_class", "Error: Failed to load class org.example.Missing."),
        ("missing_jar", "Error: Failed to load class org.example.Missing."),
        ("missing_python", 'IOException: Cannot run program "/no/python": error=2, No such file or directory'),
        ("master_that_is_none", "SparkException: Master must either be yarn or start with spark, k8s, or local"),
        ("no_memory_in_the_jvm", "OutOfMemoryError: Java heap space"),
    ],
)
def test_the_exception_that_ended_a_real_driver_is_found_without_its_frames(name: str, cause: str) -> None:
    assert cause_of(real(name)) == cause


def test_a_missing_table_is_named_and_the_plan_behind_it_left_out() -> None:
    cause = cause_of(real("missing_table")) or ""
    assert cause.startswith("AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] The table or view `lake`.`flights` cannot be")
    assert "UnresolvedRelation" not in cause


@pytest.mark.parametrize("name", ["driver_was_killed", "jvm_was_killed", "says_nothing", "quiet"])
def test_an_output_without_an_exception_has_no_cause_and_what_java_notes_is_no_last_word(name: str) -> None:
    assert cause_of(real(name)) is None
    assert last_line(real(name)) in (None, "3")


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("ends_with_a_message", "no flights today"),
        ("missing_script", "/venv/bin/python: can't open file '/jobs/missing.py': [Errno 2] No such file or directory"),
    ],
)
def test_the_jobs_own_last_word_is_found_below_what_spark_logs_at_its_end(name: str, last: str) -> None:
    assert cause_of(real(name)) is None
    assert last_line(real(name)) == last


PY4J = """Traceback (most recent call last):
  File "/jobs/job.py", line 9, in <module>
    df.write.parquet("s3a://lake/out")
  File "/spark/python/lib/py4j-0.10.9.7-src.zip/py4j/protocol.py", line 326, in get_return_value
py4j.protocol.Py4JJavaError: An error occurred while calling o61.parquet.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to s3a://lake/out.
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailedWhileWritingRowsError(QueryExecutionErrors.scala:774)
Caused by: java.nio.file.AccessDeniedException: s3a://lake/out/part-0: PUT 0-byte object on part-0
\tat org.apache.hadoop.fs.s3a.S3AUtils.translateException(S3AUtils.java:255)
\t... 15 more
Caused by: com.amazonaws.services.s3.model.AmazonS3Exception: Access Denied (Status Code: 403)
\tat com.amazonaws.http.AmazonHttpClient.execute(AmazonHttpClient.java:1879)
\t... 30 more

26/11/28 21:06:29 INFO SparkContext: Invoking stop() from shutdown hook
"""
OF_A_WORKER = """py4j.protocol.Py4JJavaError: An error occurred while calling o61.parquet.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2785)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1247, in main
    process()
  File "/jobs/job.py", line 7, in half
    return 1 / (number - 3)
ZeroDivisionError: division by zero

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:572)
\t... 1 more
"""


def test_a_java_exception_in_python_is_told_by_its_outermost_and_innermost_cause() -> None:
    assert cause_of(PY4J.splitlines()) == (
        "AccessDeniedException: s3a://lake/out/part-0: PUT 0-byte object on part-0; caused by "
        "AmazonS3Exception: Access Denied (Status Code: 403)"
    )


def test_the_error_of_a_python_worker_is_found_within_javas_words() -> None:
    head = 'Traceback (most recent call last):\n  File "/jobs/job.py", line 9, in <module>\n'
    assert cause_of((head + OF_A_WORKER).splitlines()) == "ZeroDivisionError: division by zero"


def test_where_only_an_executor_told_of_it_the_workers_error_is_found_in_what_was_logged() -> None:
    lines = real("error_in_a_python_worker")
    logged = lines[: lines.index("Traceback (most recent call last):")]
    assert cause_of(logged[:-1]) == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        (
            'Exception in thread "main" org.example.NoCarrier: of flight 7\n\tat org.example.Job$.main(Job.scala:5)\n'
            "Caused by: java.io.EOFException\n\tat java.io.DataInputStream.readInt(DataInputStream.java:397)\n",
            "NoCarrier: of flight 7; caused by EOFException",
        ),
        (
            "26/11/28 21:06:29 ERROR Executor: Exception in task 0.0 in stage 0.0 (TID 0)\n"
            "java.lang.IllegalStateException: first\n\tat a.B.c(B.java:1)\n"
            "26/11/28 21:06:30 ERROR SparkContext: Error initializing SparkContext.\n"
            "java.net.BindException: Address already in use\n\tat sun.nio.ch.Net.bind0(Native Method)\n",
            "BindException: Address already in use",
        ),
        ("2026-11-28T21:06:29,5 ERROR SparkSubmit: no main class\n", "SparkSubmit: no main class"),
        (
            'Exception in thread "Thread-4 (poll)":\nTraceback (most recent call last):\n  File "a.py", line 1, in f\n'
            'OSError: aside\nTraceback (most recent call last):\n  File "a.py", line 9, in <module>\nKeyError: 1\n',
            "KeyError: 1",
        ),
        ('Traceback (most recent call last):\n  File "a.py", line 1, in f\nmodule.Überlauf\n', "Überlauf"),
        (
            'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    raise Own("x: y")\n'
            "__main__.f.<locals>.Own: x: y\n[2026-11-28 21:06:29,1] ERROR root: over\n",
            "Own: x: y",
        ),
    ],
)
def test_exceptions_of_java_and_of_other_threads(output: str, cause: str) -> None:
    assert cause_of(output.splitlines()) == cause


@pytest.mark.parametrize("text", ["", "\n\n", "done\n", "Traceback (most recent call last):\n", "Caused by: nothing\n"])
def test_what_names_no_exception_has_no_cause(text: str) -> None:
    assert cause_of(text.splitlines()) is None


def test_of_a_huge_output_the_last_lines_are_kept_and_all_are_handed_on() -> None:
    heard: list[str] = []

    def process(lines: Iterator[str]) -> None:
        heard.extend(lines)

    hook: Any = SimpleNamespace(_process_spark_submit_log=process)
    output = listen(hook)
    told = [f"line {number}\n" for number in range(3 * LINES)]
    hook._process_spark_submit_log(iter([*told, "x" * 10 * WIDTH + "\n", "    indented  \n"]))
    assert len(heard) == 3 * LINES + 2
    assert len(output.lines) == LINES
    assert (output.lines[-1], len(output.lines[-2])) == ("    indented", WIDTH)


def test_an_endless_message_is_cut() -> None:
    lines = ["Traceback (most recent call last):", '  File "a", line 1, in f', "ValueError: " + "y" * WIDTH]
    assert len(cause_of(lines) or "") == SHOWN
