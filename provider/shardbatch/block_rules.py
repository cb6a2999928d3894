# SPDX-License-Identifier: Apache-2.0
"""The rules for tasks of a block, checked while the DAG file is parsed. Each fault has a text and a remedy."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import TriggerRule

from shardbatch.core.limits import LEAST_LANDING, ReadLimits, time_to_read

if TYPE_CHECKING:
    from shardbatch.operators.commit import CommitOperator
    from shardbatch.operators.freeze import FreezeOperator

#: A text that says what is wrong, and one that says what to do.
Fault = tuple[str, str]


def dag_fault(dag: Any) -> Fault | None:
    """The fault of a DAG that contains a group; ``None`` if there is none."""
    if dag.fail_fast:
        return (
            "the DAG has fail_fast=True: Airflow would end the reads and the work beside the first task that fails, "
            "and admits no task, like freeze and commit, that follows a skipped one.",
            "Leave fail_fast out.",
        )
    return None


def wait_fault(wait: Any, dagrun_timeout: timedelta | None) -> Fault | None:
    """The fault of how long a run waits for something to claim; ``None`` if there is none."""
    if wait is None:
        return None
    if not isinstance(wait, timedelta) or wait <= timedelta(0):
        return f"wait={wait!r} is not a time above zero.", "Give a timedelta, or leave it out."
    if dagrun_timeout is not None and wait >= dagrun_timeout:
        return (
            f"wait={wait} reaches the DAG's dagrun_timeout ({dagrun_timeout}): Airflow would fail each run that waits.",
            "Let it wait for less, or give the DAG more time.",
        )
    return None


def place_fault(task: Any, freeze: FreezeOperator) -> Fault | None:
    """The fault of a task, ours or the author's, at its place in the DAG; ``None`` if there is none."""
    after_freeze = task.task_id in freeze.downstream_task_ids and not task.is_teardown
    if after_freeze and task.trigger_rule != TriggerRule.ALL_SUCCESS:
        return (
            f"task {task.task_id!r} stands directly after freeze with the trigger rule {str(task.trigger_rule)!r}.",
            "Use all_success, or put a task between; using an output of the batch makes a task stand there.",
        )
    for name in ("wait_for_downstream", "depends_on_past"):  # the first makes Airflow set the second
        if getattr(task, name, False):
            return (
                f"task {task.task_id!r} has {name}: after a failed run the next would take its leases and wait.",
                "Leave it out; order holds without it. max_active_runs=1 keeps runs apart. If it stands in the DAG's "
                f"default_args, give the group default_args={{{name!r}: False}}.",
            )
    if getattr(task, "ignore_downstream_trigger_rules", False):
        return (
            f"task {task.task_id!r} short-circuits past trigger rules: it would skip commit, run after run, green.",
            "Give it ignore_downstream_trigger_rules=False: then commit sees the skip and refuses, or branch.",
        )
    return None


def end_fault(task: Any, commit: CommitOperator) -> Fault | None:
    """Why commit could not learn how an instance of a work task has ended; ``None`` if it could."""
    if task.task_id in (commit.given or ()) and (remedy := _ends_elsewhere(task)):
        return (
            f"task {task.task_id!r} may be given the batch and does not end in a worker, so it can leave no end "
            "record: commit would never know what it wrote.",
            f"{remedy} Or let it use nothing of the batch.",
        )
    if not task.is_mapped and task.get_closest_mapped_task_group() is None:
        return None
    for other in commit.work:
        start, _, index = other.rpartition("_")
        if start == task.task_id and index.isdigit():
            return (
                f"task {other!r} has the name by which Airflow tells the state of instance {index} of the mapped task "
                f"{task.task_id!r}.",
                "Give one of them another task_id.",
            )
    return None


def _ends_elsewhere(task: Any) -> str | None:
    """The remedy for a task that ends in the triggerer, or in Airflow itself after it has started another run."""
    if _said(task, "end_from_trigger"):
        return "Give it end_from_trigger=False, so that it ends in a worker."
    if task.task_type == "TriggerDagRunOperator" and not (
        _said(task, "deferrable") and _said(task, "wait_for_completion")
    ):
        return "Give it deferrable=True and wait_for_completion=True, so that it ends in a worker, behind that run."
    return None


def _said(task: Any, name: str) -> bool:
    """Whether an argument of a task, or of some instance of a mapped one, is true."""
    if not task.is_mapped:
        return bool(getattr(task, name, False))
    mapped = _expanded(task).get(name)
    return bool(task.partial_kwargs.get(name)) or (any(mapped) if isinstance(mapped, (list, tuple)) else bool(mapped))


def _expanded(task: Any) -> Mapping[str, Any]:
    """The values that a mapped task is mapped over, by the name of its argument, if they are known."""
    found = task.expand_input.value
    return found if isinstance(found, Mapping) else {}


def time_fault(of_task: timedelta | None, of_run: timedelta | None, limits: ReadLimits) -> Fault | None:
    """The fault if Airflow's own limits, of the task and of the DAG's runs, leave a read no time."""
    if of_task is not None and time_to_read(of_task) <= timedelta(0):
        return (
            f"the execution_timeout of its read task is {of_task}, of which {LEAST_LANDING} is kept to land what was "
            f"read: of ReadLimits(duration={limits.duration}) nothing is left.",
            'Give it a longer one: task_args={"read": {"execution_timeout": ...}}, where None sets no limit.',
        )
    if of_run is not None and time_to_read(of_run) <= timedelta(0):
        return (
            f"the DAG's dagrun_timeout is {of_run}, of which {LEAST_LANDING} is kept to land what was read: nothing is "
            "left to read in.",
            "Give the DAG a longer dagrun_timeout.",
        )
    return None
