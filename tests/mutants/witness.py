# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest for runs on a copy: sees that the copy is what is tested, and writes down which test failed.

It writes to the file that ``MUTANTS_WITNESS`` names, line by line, so that a test that never ends is known too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ASK = "import shardbatch, shardbatch.core.lease as m; print(m.__file__)"


def _say(word: str, what: str) -> None:
    with open(os.environ["MUTANTS_WITNESS"], "a", encoding="utf-8") as file:
        file.write(f"{word} {what}\n")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse to run on any other package than the copy's, here and in processes that tests start."""
    import shardbatch

    copy = Path(os.environ["MUTANTS_COPY"])
    below = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, check=True, cwd="/")
    for place in (shardbatch.__file__, below.stdout.strip()):
        if not Path(place).is_relative_to(copy / "provider"):
            pytest.exit(f"{place} would be tested, not the copy in {copy}", returncode=70)


def pytest_runtest_logstart(nodeid: str) -> None:
    """Note which test runs."""
    _say("run", nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note which test failed."""
    if report.failed:
        _say("failed", report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note which file could not be read."""
    if report.failed:
        _say("failed", f"{report.nodeid} (not collected)")
