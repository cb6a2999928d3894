# SPDX-License-Identifier: Apache-2.0
"""When the wait of a task ends: one instant for all tries of a clearing, wherever the task waits."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from shardbatch.tasks.asset_event import clearing_of

if TYPE_CHECKING:
    from airflow.sdk import Context

#: The key of the task's state store under which its deadline stands.
DEADLINE = "deadline"


def deadline_of(context: Context, seconds: float) -> float:
    """When the wait ends, in seconds of the epoch: so long after the task asked first since it was cleared last."""
    clearing = clearing_of(context["dag_run"], context["ti"])
    store = context["task_state_store"]
    kept = store.get(DEADLINE)
    if isinstance(kept, dict) and kept.get("clearing") == clearing:
        return float(str(kept["at"]))
    at = time.time() + seconds
    store.set(DEADLINE, {"clearing": clearing, "at": at})
    return at
