# SPDX-License-Identifier: Apache-2.0
"""Hunts for minutes: the breaker again and again, each time from another seed, until time is up or something breaks.

``python -m tests.breaker.hunt MINUTES [SEED]``. A seed that is given is played once more, and what fails is made small.
A piece that its time-out (``BREAKER_TIMEOUT``) stopped has shown nothing: the hunt goes on, and says so.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

#: Schedules over memory of one piece, one or two minutes; the other stores have their share.
EXAMPLES = "400"
REPORTS = Path(".hypothesis") / "breaker"
HELD, BROKEN, STOPPED = "held", "BROKEN", "stopped by its time-out, which shows nothing"
#: How pytest-timeout says it, on a line of its own.
TIME_OUT = "+ Timeout +"


def play(seed: int, *, shrink: bool) -> str:
    """Play one piece: how it ended. What failed stands in a file of its own."""
    asked = {"BREAKER_EXAMPLES": os.environ.get("BREAKER_EXAMPLES", EXAMPLES), "BREAKER_SHRINK": str(int(shrink))}
    command = [sys.executable, "-m", "pytest", "tests/breaker", "-q", "-x", f"--hypothesis-seed={seed}"]
    began = time.monotonic()
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    story = done.stdout + done.stderr
    ended = HELD if done.returncode == 0 else STOPPED if TIME_OUT in story else BROKEN
    print(f"seed {seed}: {ended} in {time.monotonic() - began:.0f} s", flush=True)
    if ended != HELD:
        REPORTS.mkdir(parents=True, exist_ok=True)
        report = REPORTS / f"{seed}.txt"
        report.write_text(story)
        told = [line for line in done.stdout.splitlines() if "Error" in line]
        print(*told[:3], f"the whole story: {report}", f"again: make breaker SEED={seed}", sep="\n", flush=True)
    return ended


def main(minutes: float, seed: int | None) -> int:
    """0 if something held and nothing broke."""
    if seed is not None:
        return int(play(seed, shrink=True) != HELD)
    until = time.monotonic() + minutes * 60
    ended: set[str] = set()
    while time.monotonic() < until and BROKEN not in ended:
        ended.add(play(random.randrange(1 << 32), shrink=False))
    return int(BROKEN in ended or HELD not in ended)


if __name__ == "__main__":
    chosen = sys.argv[2] if len(sys.argv) > 2 else ""
    sys.exit(main(float(sys.argv[1]), int(chosen) if chosen else None))
