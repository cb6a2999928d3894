# SPDX-License-Identifier: Apache-2.0
"""Where the drawings of the Streams page place things: its own modules, run by Node."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.support.prepare import NODE

LAYOUTS = Path(__file__).with_name("drawing_layouts.test.mjs")


def test_the_drawings_place_what_they_are_given() -> None:
    # One process: the runner's own would start another one for the file.
    command = [NODE, "--test", "--test-isolation=none", "--test-reporter=tap", LAYOUTS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"^# pass (\d+)$", done.stdout, re.MULTILINE)
    assert passed is not None, done.stdout
    assert int(passed[1]) > 0
