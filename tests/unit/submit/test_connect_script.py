# SPDX-License-Identifier: Apache-2.0
"""The process of a script over Spark Connect: what it is told, how it is found again, how it is ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator

import psutil
import pytest

from shardbatch.core.handover import WorkOrder
from shardbatch.submit import processes
from shardbatch.submit.connect_script import Script, environment
from shardbatch.submit.processes import LeftOver
from tests.support.waiting import wait_until

#: Its own for each process of the tests: what a batch has left is looked for on the whole host.
BATCH = f"b-connect-{os.getpid()}"
REMOTE = "sc://127.0.0.1:1/;user_id=ann"
PARENT = (
    "import subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "print(child.pid, flush=True)\n"
    "time.sleep(600)\n"
)

#: Leaves a child that is nobody's child, and holds the output.
LEAVES = (
    "import os, sys, time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        print(os.getpid(), flush=True)\n"
    "        time.sleep(600)\n"
    "    os._exit(0)\n"
    "os.wait()\n"
    "if 'stay' in sys.argv: time.sleep(600)\n"
    "sys.exit(3)\n"
)

Start = Callable[..., subprocess.Popen[str]]


def order(attempt: int = 2, work: str = "t") -> WorkOrder:
    return WorkOrder("file:///m.json", attempt, "sha256:00", work, "try-1", BATCH)


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def begin(env: dict[str, str]) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", "print(flush=True); import time; time.sleep(600)"]
        started.append(subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout is not None
        started[-1].stdout.readline()  # until then its environment is this process's
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_a_script_is_told_its_batch_and_its_session_over_what_the_author_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_WORKER", "kept")
    told = environment(order(), REMOTE, {"NUMBER": 3, "SPARK_REMOTE": "sc://mine", "SHARDBATCH_ATTEMPT": "9"})
    assert (told["OF_WORKER"], told["NUMBER"]) == ("kept", "3")
    assert (told["SPARK_REMOTE"], told["SHARDBATCH_ATTEMPT"], told["SHARDBATCH_TOKEN"]) == (REMOTE, "2", "try-1")
    assert (told["SHARDBATCH_MANIFEST"], told["SHARDBATCH_WORK"]) == ("file:///m.json", "t")


def test_its_lines_are_said_and_its_exit_code_is_told() -> None:
    said: list[str] = []
    words = [sys.executable, "-c", "import sys; print('one', flush=True); print('two', file=sys.stderr); sys.exit(3)"]
    assert Script(words, dict(os.environ)).follow(lambda lines: lines, said.append) == 3
    assert said == ["one", "two"]


def test_it_is_killed_with_the_processes_below_it() -> None:
    script, below = Script([sys.executable, "-c", PARENT], dict(os.environ)), []

    def say(line: str) -> None:
        below.append(psutil.Process(int(line)))
        script.kill()

    assert script.follow(lambda lines: lines, say) == -9
    assert not script.running
    wait_until(lambda: not below[0].is_running() or below[0].status() == psutil.STATUS_ZOMBIE, 20, "the child to end")
    script.kill()  # again is nothing


@pytest.mark.parametrize("stays", [True, False], ids=["is killed", "ends by itself"])
def test_what_it_leaves_behind_outside_its_family_ends_with_it(monkeypatch: pytest.MonkeyPatch, stays: bool) -> None:
    monkeypatch.setattr(processes, "PATIENCE_S", 0.5)
    remote = f"{REMOTE};session_id={uuid.uuid4()}"
    script = Script([sys.executable, "-c", LEAVES, *["stay"] * stays], {**os.environ, "SPARK_REMOTE": remote})
    left: list[psutil.Process] = []

    def say(line: str) -> None:
        left.append(psutil.Process(int(line)))
        if stays:
            wait_until(lambda: left[0].ppid() != script.pid, 20, "the child to be nobody's")
            script.kill()

    assert script.follow(lambda lines: lines, say) == (-9 if stays else 3)
    wait_until(lambda: not left[0].is_running() or left[0].status() == psutil.STATUS_ZOMBIE, 20, "the child to end")


def test_a_process_that_has_ended_is_not_waited_for_until_it_is_collected() -> None:
    code = (
        "import os, time\n"
        "child = os.fork()\n"
        "if child == 0: time.sleep(600)\n"
        "print(child, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        began = time.monotonic()
        assert processes.end_all([child])
        assert time.monotonic() - began < processes.PATIENCE_S / 2
        assert child.status() == psutil.STATUS_ZOMBIE
        parent.kill()


def test_a_script_that_was_left_behind_is_found_by_its_environment_and_ended(start: Start) -> None:
    older = start(environment(order(1), REMOTE, {}))
    newer = start(environment(order(3), REMOTE, {}))
    other = start(environment(order(1, "u"), REMOTE, {}))
    no_script = start({**environment(order(1), REMOTE, {}), "SPARK_REMOTE": ""})
    assert processes.end_left_over(BATCH, 2, lambda work: work == "t") == [LeftOver("script", "t", True)]
    assert older.poll() is not None
    assert [process.poll() for process in (newer, other, no_script)] == [None, None, None]


def test_whoever_looks_is_not_taken_for_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in environment(order(1), REMOTE, {}).items():
        monkeypatch.setenv(name, text)
    assert processes.end_left_over(BATCH, 2, lambda work: True) == []
