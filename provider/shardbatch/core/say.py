# SPDX-License-Identifier: Apache-2.0
"""How use-cases tell what they do while they do it: a line for the log, numbers for those who look from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable

#: Says a line of progress to the person who reads the log.
Say = Callable[[str], None]

#: Shows how far a read task has come, as plain JSON.
Show = Callable[[Mapping[str, object]], None]


def unshown(progress: Mapping[str, object]) -> None:
    """Drop the numbers."""
