# SPDX-License-Identifier: Apache-2.0
"""When the wait of a task ends: one instant for all tries of a clearing, wherever the task waits."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from shardbatch.tasks.kept import keep, kept

if TYPE_CHECKING:
    from airflow.sdk import Context

#: The key of the task's state store under which its deadline stands.
DEADLINE = "deadline"


def deadline_of(context: Context, seconds: float) -> float:
    """When the wait ends, in seconds of the epoch: so long after the task asked first since it was cleared last."""
    known = kept(context, DEADLINE)
    if known is not None:
        return float(known)
    at = time.time() + seconds
    keep(context, DEADLINE, at)
    return at
