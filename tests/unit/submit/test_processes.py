# SPDX-License-Identifier: Apache-2.0
"""Ending a spark-submit of this host: real processes that look like one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import psutil
import pytest

from shardbatch.submit import processes

# A process that starts another and tells its id; both sleep. Its arguments are what a spark-submit would have.
PARENT = (
    "import subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "print(child.pid, flush=True)\n"
    "time.sleep(600)\n"
)

#: Its own for each process of the tests: left-over submits of a batch are looked for on the whole host.
BATCH = f"b-{os.getpid()}"

Submit = Callable[..., tuple[int, int]]


@pytest.fixture
def submit() -> Iterator[Submit]:
    """Starts a parent with a child; all that is left of them is ended."""
    started: list[subprocess.Popen[str]] = []
    children: list[int] = []

    def start(*words: str) -> tuple[int, int]:
        process = subprocess.Popen([sys.executable, "-c", PARENT, *words], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        children.append(int(process.stdout.readline()))
        return process.pid, children[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
    for pid in children:
        if psutil.pid_exists(pid):
            psutil.Process(pid).kill()


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_the_spark_submit_of_the_batch_is_ended_with_its_children(submit: Submit) -> None:
    pid, child = submit("org.apache.spark.deploy.SparkSubmit", "--conf", f"spark.shardbatch.batch={BATCH}", "job.py")
    assert processes.end(processes.reference(pid), BATCH) == "ended"
    assert not alive(pid)
    assert not alive(child)


@pytest.mark.parametrize(
    "words",
    [
        ("SparkSubmit", "--conf", "spark.shardbatch.batch=b2"),
        ("SparkSubmit", "--conf", f"spark.shardbatch.batch={BATCH}1"),
        ("pytest", f"spark.shardbatch.batch={BATCH}"),
        (),
    ],
    ids=["another batch", "a longer id", "no spark-submit", "no arguments"],
)
def test_a_process_that_only_has_the_same_id_is_left_alone(submit: Submit, words: tuple[str, ...]) -> None:
    pid, child = submit(*words)
    assert processes.end(processes.reference(pid), BATCH) == "over"
    assert alive(pid)
    assert alive(child)


def test_a_process_of_another_host_is_left_alone(submit: Submit) -> None:
    pid, _ = submit("SparkSubmit", "--conf", f"spark.shardbatch.batch={BATCH}")
    assert processes.end(f"client:not-{socket.gethostname()}:{pid}", BATCH) == "elsewhere"
    assert alive(pid)


def test_a_process_that_has_ended_is_over() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    assert processes.end(processes.reference(process.pid), BATCH) == "over"


@pytest.mark.parametrize("text", ["", "client:", "client:host", "client:host:x", "yarn:application_1", "task:h:1"])
def test_other_references_are_no_process(text: str) -> None:
    assert processes.parse(text) is None
    assert processes.end(text, BATCH) == "elsewhere"


def test_host_names_with_colons_are_kept() -> None:
    assert processes.parse("client:fe80::1:42") == ("fe80::1", 42)


def test_a_process_that_took_over_an_id_is_left_alone(submit: Submit) -> None:
    pid, child = submit("SparkSubmit", "--conf", f"spark.shardbatch.batch={BATCH}")
    looked_at = psutil.Process(pid)
    looked_at._create_time = looked_at.create_time() - 60  # what was looked at began earlier than what has the id now
    looked_at._ident = (pid, looked_at._create_time)
    processes.end_tree(looked_at)
    assert alive(pid)
    assert alive(child)
