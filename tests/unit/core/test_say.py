# SPDX-License-Identifier: Apache-2.0
"""Telling: a use-case that nobody looks at works all the same."""

from __future__ import annotations

from pathlib import Path

from shardbatch.core.say import unshown
from tests.support.rig import Rig


def test_progress_is_shown_to_nobody_unless_somebody_asks(tmp_path: Path) -> None:
    assert Rig(tmp_path / "staging").consumer().show is unshown
    unshown({"records": 1})
