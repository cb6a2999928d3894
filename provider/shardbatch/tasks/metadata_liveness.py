# SPDX-License-Identifier: Apache-2.0
"""Whether the owner of a lease is over: read in Airflow's metadata database, where no task asks (PROTOCOL E).

For the command line and the API server, which may read it; a task asks ``liveness``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from shardbatch.core.ports import Liveness, Verdict
from shardbatch.errors import ConfigurationError, OwnerUnknown
from shardbatch.tasks.liveness import answered, in_group

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from shardbatch.hooks.leases import Leases


def liveness_of(leases: Leases) -> Liveness:
    """The question for owners of this deployment, as far as a lease store tells which one this is.

    It raises :class:`OwnerUnknown` once it is asked, if that is not known or the database cannot be read.
    """
    from shardbatch.hooks.settings import deployment_id

    def ask(owner: str) -> Verdict:
        try:
            deployment = deployment_id(leases)
        except ConfigurationError as error:
            raise OwnerUnknown(str(error), remedy="") from error
        return metadata_liveness(deployment)(owner)

    return ask


def metadata_liveness(deployment: str) -> Liveness:
    """The question for owners of this deployment, to its metadata database; owners of others are foreign.

    It answers as ``liveness`` does in a task, and raises :class:`OwnerUnknown` if the database cannot be read.
    """
    return answered(deployment, _run_state, _group_states)


def _run_state(dag_id: str, run_id: str) -> str | None:
    """The state of a run, or ``None`` if the database has no such run."""
    with _reading(dag_id, run_id) as session:
        from airflow.models import DagRun
        from sqlalchemy import select

        found = session.execute(select(DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)).first()
    return None if found is None else _text(found[0])


def _group_states(dag_id: str, run_id: str, group_id: str) -> dict[str, str | None]:
    """The states of a group's task instances; none for an empty group id."""
    if not group_id:
        return {}
    with _reading(dag_id, run_id) as session:
        from airflow.models import TaskInstance
        from sqlalchemy import select

        columns = (TaskInstance.task_id, TaskInstance.map_index, TaskInstance.state)
        rows = session.execute(select(*columns).where(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id))
        found = {(task_id, index): state for task_id, index, state in rows}
    states = {
        task_id if index < 0 else f"{task_id}_{index}": None if state is None else _text(state)
        for (task_id, index), state in found.items()
    }
    return in_group(states, group_id)


@contextmanager
def _reading(dag_id: str, run_id: str) -> Iterator[Session]:
    """A session with the database that Airflow's own configuration names.

    :raises OwnerUnknown: whatever goes wrong: Airflow is not set up here, or its database does not answer.
    """
    try:
        from airflow.utils.session import create_session

        with create_session() as session:
            yield session
    # It may fail in any way that Airflow's settings or a driver's do: none of them says that a run is over.
    except Exception as error:
        reason = (str(error).strip().splitlines() or [""])[0]
        raise OwnerUnknown(
            f"Airflow's database could not say whether run {run_id} of DAG {dag_id} is over "
            f"({type(error).__name__}: {reason})."
        ) from error


def _text(state: Any) -> str:
    return str(getattr(state, "value", state))
