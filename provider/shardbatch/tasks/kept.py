# SPDX-License-Identifier: Apache-2.0
"""What a task keeps in its state store until a person clears it: through retries, deferrals and reschedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import Context


def keep(context: Context, key: str, value: Any) -> None:
    """Keep a plain value under a key of the task's state store."""
    context["task_state_store"].set(key, {"of": _now(context), "value": value})


def kept(context: Context, key: str) -> Any:
    """What this task has kept under a key since it was cleared last; ``None``: nothing."""
    found: Any = context["task_state_store"].get(key)
    if not isinstance(found, dict) or not isinstance(found.get("of"), dict):
        return None
    before, now = found["of"], _now(context)
    if before == now:
        return found["value"]
    if _cleared(before, now):
        return None
    keep(context, key, found["value"])  # so that clearings of other tasks are not taken for one of this task later
    return found["value"]


def _now(context: Context) -> dict[str, Any]:
    run, ti = context["dag_run"], context["ti"]
    return {"run": run.run_id, "clears": run.clear_number or 0, "tries": ti.max_tries, "try": ti.try_number}


def _cleared(before: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether this very task was cleared. Each clearing of any task of a run counts as one of the run, so that alone
    does not tell. A clearing of this task adds to the tries that it may have; of a task that a worker runs at that
    moment, it begins the next try.
    """
    if (before.get("run"), before.get("tries")) != (now["run"], now["tries"]):
        return True
    return bool(before.get("clears") != now["clears"] and before.get("try") != now["try"])
