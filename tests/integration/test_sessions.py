# SPDX-License-Identifier: Apache-2.0
"""What a program has started ends with it, however it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil

from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import subprocess, sys, time
from scripts.sessions import Keeper
nested = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
started = subprocess.Popen([sys.executable, "-c", nested + "time.sleep(600)"], start_new_session=True)
Keeper().keep(started.pid)
print(started.pid, flush=True)
time.sleep(600)
"""


def test_a_session_with_its_descendants_ends_when_the_program_that_keeps_it_is_killed() -> None:
    program = subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=ROOT, stdout=subprocess.PIPE)
    assert program.stdout is not None
    with program.stdout:
        first = psutil.Process(int(program.stdout.readline()))
    wait_until(lambda: first.children(), 30, "the process that the first one starts")
    family = [first, *first.children()]
    assert len(family) == 2
    program.kill()
    program.wait()
    gone, left = psutil.wait_procs(family, timeout=30)
    assert (len(gone), left) == (2, [])
