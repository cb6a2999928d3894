# SPDX-License-Identifier: Apache-2.0
"""Hunts for minutes: the breaker again and again, each time from another seed, until time is up or something breaks.

``python -m tests.breaker.hunt MINUTES [SEED]``. A seed that is given is played once more, and what fails is made small.
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


def play(seed: int, *, shrink: bool) -> int:
    """Play one piece; what failed stands in a file of its own."""
    asked = {"BREAKER_EXAMPLES": os.environ.get("BREAKER_EXAMPLES", EXAMPLES), "BREAKER_SHRINK": str(int(shrink))}
    command = [sys.executable, "-m", "pytest", "tests/breaker", "-q", "-x", f"--hypothesis-seed={seed}"]
    began = time.monotonic()
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    print(
        f"seed {seed}: {'held' if done.returncode == 0 else 'BROKEN'} in {time.monotonic() - began:.0f} s", flush=True
    )
    if done.returncode:
        REPORTS.mkdir(parents=True, exist_ok=True)
        report = REPORTS / f"{seed}.txt"
        report.write_text(done.stdout + done.stderr)
        told = [line for line in done.stdout.splitlines() if "Error" in line]
        print("\n".join(told[:3]), f"the whole story: {report}", f"again: make breaker SEED={seed}", sep="\n")
    return done.returncode


def main(minutes: float, seed: int | None) -> int:
    if seed is not None:
        return play(seed, shrink=True)
    until = time.monotonic() + minutes * 60
    while time.monotonic() < until:
        code = play(random.randrange(1 << 32), shrink=False)
        if code:
            return code
    return 0


if __name__ == "__main__":
    chosen = sys.argv[2] if len(sys.argv) > 2 else ""
    sys.exit(main(float(sys.argv[1]), int(chosen) if chosen else None))
