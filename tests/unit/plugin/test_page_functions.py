# SPDX-License-Identifier: Apache-2.0
"""The page's pure functions: addresses, numbers for people, filters, decoding, the pace of its questions."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.prepare import NODE

HERE = Path(__file__).resolve().parent


def test_the_functions_of_the_page() -> None:
    # One process: the runner's own would start another one for the file.
    command = [NODE, "--test", "--test-isolation=none", "--test-reporter=spec", HERE / "page_functions.mjs"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
