# SPDX-License-Identifier: Apache-2.0
"""The run that replays a batch, started where no task does it: on the command line and in the API server."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shardbatch.errors import ConfigurationError
from shardbatch.hooks.settings import deployment_id
from shardbatch.tasks.replay import files_of

if TYPE_CHECKING:
    from shardbatch.control.replay_run import ReplayRun
    from shardbatch.core.ports import LeaseStore
    from shardbatch.core.rows import Namespace
    from shardbatch.hooks.leases import Leases


def replay(
    store: LeaseStore,
    namespace: Namespace,
    leases: Leases,
    *,
    actor: str,
    reason: str,
    preview: bool,
    page: bool = False,
    **chosen: Any,
) -> ReplayRun:
    """Start the run that replays a batch, or only say which one it would be. Who starts it, and why, stands on the
    application's row before it is started.

    :param page: whether it is started from the Streams page, default: from the command line.
    :param chosen: the batch, and the DAG and the group that are to replay it.
    :raises ConfigurationError: if there is no such batch, no DAG for it or no reason, or with Airflow's own words, if
        the run does not start.
    :raises ReplayRefused: if the batch is not committed.
    :raises SlicesGone: if files of the batch are known to be gone, unless this is a preview.
    """
    from shardbatch.control.replay_run import note_replay, plan_replay

    planned = plan_replay(store, namespace, deployment=deployment_id(leases), files=files_of, dry_run=preview, **chosen)
    if preview:
        return planned
    note = note_replay(store, namespace, planned, actor=actor, reason=reason)
    _start(planned, actor=actor, note=note, page=page)
    return replace(planned, result="started")


def _start(planned: ReplayRun, *, actor: str, note: str, page: bool) -> None:
    """Start the run as ``airflow dags trigger`` does, in this process."""
    from airflow.api.common.trigger_dag import trigger_dag
    from airflow.sdk.exceptions import AirflowException
    from airflow.utils.types import DagRunTriggeredByType

    try:
        trigger_dag(
            dag_id=planned.dag_id,
            triggered_by=DagRunTriggeredByType.UI if page else DagRunTriggeredByType.CLI,
            triggering_user_name=actor,
            run_id=planned.run_id,
            conf=planned.conf,
            note=note,
        )
    except (AirflowException, ValueError) as error:
        raise ConfigurationError(
            f"Airflow did not start a run of DAG {planned.dag_id!r}: {error}.",
            remedy="Check the DAG with 'airflow dags list', or name another with --dag-id.",
        ) from error
