# SPDX-License-Identifier: Apache-2.0
"""Whether the owner of a lease is over: a question to Airflow, asked from inside a task (PROTOCOL E).

``metadata_liveness`` asks it where no task does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shardbatch.core.owner import Owner
from shardbatch.core.ports import Liveness, Verdict
from shardbatch.errors import OwnerUnknown

RUN_FINISHED = frozenset({"success", "failed"})
#: States that a task instance does not leave unless a person clears it.
TASK_FINAL = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


def liveness(deployment: str) -> Liveness:
    """Asks the API server about owners of this deployment; owners of other deployments, and texts that are not owners,
    are foreign.

    It raises :class:`OwnerUnknown` if Airflow gives no answer: only an explicit *not found* counts as one.
    """
    return answered(deployment, _run_state, group_states)


def answered(
    deployment: str,
    run_state: Callable[[str, str], str | None],
    states_of: Callable[[str, str, str], Mapping[str, str | None]],
) -> Liveness:
    """The question, with what is known of an owner's run and of its group's tasks.

    :param run_state: the state of a run of a DAG, ``None`` if it is certain that there is none.
    :param states_of: the states of a group's tasks in a run of a DAG; none for an empty group id.
    """

    def ask(text: str) -> Verdict:
        owner = Owner.parse(text)
        if owner is None or owner.deployment != deployment:
            return Verdict.FOREIGN
        state = run_state(owner.dag_id, owner.run_id)
        if state is None:
            return Verdict.GONE
        if state in RUN_FINISHED:
            return Verdict.OVER
        states = states_of(owner.dag_id, owner.run_id, owner.group_id)
        return Verdict.OVER if states and TASK_FINAL.issuperset(states.values()) else Verdict.ACTIVE

    return ask


def _run_state(dag_id: str, run_id: str) -> str | None:
    """The state of a run, or ``None`` if Airflow says that there is no such run."""
    from airflow.sdk.exceptions import AirflowRuntimeError
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    try:
        return _text(RuntimeTaskInstance.get_dagrun_state(dag_id, run_id))
    except AirflowRuntimeError as error:
        if _not_found(error):
            return None
        raise _unknown(dag_id, run_id, error) from error  # whose leases stay with it


def group_states(dag_id: str, run_id: str, group_id: str) -> dict[str, str | None]:
    """The states of a group's task instances, ours and the author's, nested groups too; none for an empty group id.

    The key of an instance of a mapped task is its task id, an underscore and its index, as Airflow answers.

    :raises OwnerUnknown: if Airflow gives no answer.
    """
    if not group_id:
        return {}
    return in_group(_task_states(dag_id, run_id), group_id)


def in_group(states: Mapping[str, str | None], group_id: str) -> dict[str, str | None]:
    """Those of a group's tasks, nested groups too."""
    return {task_id: state for task_id, state in states.items() if task_id.startswith(f"{group_id}.")}


def task_states(dag_id: str, run_id: str, task_ids: list[str]) -> dict[str, str | None]:
    """The states of tasks and of all instances of those that are mapped.

    :raises OwnerUnknown: if Airflow gives no answer.
    """
    return _task_states(dag_id, run_id, task_ids) if task_ids else {}


def instances(dag_id: str, run_id: str, task_ids: list[str]) -> list[str | tuple[str, int]]:
    """The tasks as what can be skipped: those that are mapped already as their instances, each with its index.

    A task that is mapped over values known at parse time has its instances from the run's start, and skipping it by its
    id alone skips none of them.

    :raises OwnerUnknown: if Airflow gives no answer.
    """
    found: list[str | tuple[str, int]] = list(task_ids)
    for key in task_states(dag_id, run_id, task_ids):
        task_id, _, index = key.rpartition("_")
        if task_id in task_ids and index.isdigit():
            found.append((task_id, int(index)))
    return found


def _task_states(dag_id: str, run_id: str, task_ids: list[str] | None = None) -> dict[str, str | None]:
    from airflow.sdk.exceptions import AirflowRuntimeError
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    try:
        answer = RuntimeTaskInstance.get_task_states(dag_id=dag_id, run_ids=[run_id], task_ids=task_ids)
    except AirflowRuntimeError as error:
        raise _unknown(dag_id, run_id, error) from error
    return {task_id: None if state is None else _text(state) for task_id, state in answer.get(run_id, {}).items()}


def _text(state: Any) -> str:
    return str(getattr(state, "value", state))


def _not_found(error: Any) -> bool:
    """Whether the API server itself says that the run is not there; a proxy's 404 does not say it."""
    detail = error.error.detail or {}
    if detail.get("status_code") != 404:
        return False
    answer = detail.get("detail")
    while isinstance(answer, dict) and "reason" not in answer:
        answer = answer.get("detail")
    return isinstance(answer, dict) and answer.get("reason") == "not_found"


def _unknown(dag_id: str, run_id: str, error: Any) -> OwnerUnknown:
    detail = error.error.detail or {}
    reason = detail.get("status_code") or detail.get("exception_type") or error.error.error.value
    return OwnerUnknown(f"Airflow could not say whether run {run_id} of DAG {dag_id} is over ({reason}).")
