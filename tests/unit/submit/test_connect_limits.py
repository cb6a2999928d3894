# SPDX-License-Identifier: Apache-2.0
"""What a script may not do over Spark Connect: the words of pyspark 4.2, and the way back that we tell."""

from __future__ import annotations

import pytest

from shardbatch.submit.connect_limits import seen_in, way_back


@pytest.mark.parametrize(
    ("told", "way"),
    [
        (
            "PySparkAttributeError: [JVM_ATTRIBUTE_NOT_SUPPORTED] Attribute `sparkContext` is not supported in Spark "
            "Connect as it depends on the JVM.",
            "run it with SparkSubmitBatchOperator",
        ),
        ("PySparkAttributeError: [ATTRIBUTE_NOT_SUPPORTED] Attribute `x` is not supported.", "Use DataFrames instead"),
        ("PySparkNotImplementedError: [NOT_IMPLEMENTED] rdd is not implemented.", "no RDDs"),
        (
            "PySparkRuntimeError: [CONTEXT_UNAVAILABLE_FOR_REMOTE_CLIENT] Remote client cannot create a SparkContext. "
            "Create SparkSession instead.",
            "no SparkContext",
        ),
        (
            "PythonException: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.11 than that in "
            "driver: 3.12, PySpark cannot run with different minor versions.",
            "Give python= the version of the server's PYSPARK_PYTHON",
        ),
        (
            "UnknownException: [INVALID_HANDLE.SESSION_CLOSED] The handle 7 is invalid.",
            "another try ended this session",
        ),
        ("SparkConnectGrpcException: status = StatusCode.UNAVAILABLE", "The task is tried again"),
    ],
)
def test_an_error_of_connect_leads_back(told: str, way: str) -> None:
    found = way_back(f"it ended with exit code 1: {told}")
    assert found is not None
    assert found.startswith("Nothing is lost: ")
    assert way in found


def test_an_error_of_the_job_is_the_jobs() -> None:
    assert way_back("it ended with exit code 1: ZeroDivisionError: division by zero") is None


def test_what_a_script_will_not_find_is_seen_in_its_text() -> None:
    source = (
        b"from pyspark import SparkContext\n"
        b"from pyspark.sql import SparkSession\n"
        b"# spark.sparkContext in a comment\n"
        b"spark = SparkSession.builder.getOrCreate()\n"
        b"spark.sparkContext.setLogLevel('INFO'); spark.range(3).rdd.map(print)\n"
        b"spark.read.text('x').write.text('y')\n"
    )
    assert seen_in(source) == ["line 1 imports SparkContext", "line 5 uses .rdd", "line 5 uses .sparkContext"]
    for unreadable in (b"def", b"\xff\xfe", b"\0", b""):
        assert seen_in(unreadable) == []
