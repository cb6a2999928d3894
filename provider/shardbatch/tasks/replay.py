# SPDX-License-Identifier: Apache-2.0
"""The order to replay a batch, as a task gives it: the run to start, noted on the application row before it starts."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from shardbatch.hooks.leases import Leases
from shardbatch.hooks.names import namespace_of
from shardbatch.hooks.settings import deployment_id

if TYPE_CHECKING:
    from shardbatch.control.replay_run import ReplayRun as ReplayRun


def order_replay(
    leases: Leases,
    app_name: str,
    stream_name: str,
    batch_id: str,
    *,
    ti: Any,
    reason: str,
    dag_id: str | None,
    group_id: str | None,
) -> tuple[ReplayRun, str]:
    """The run that replays a batch, the same for every try of a task instance, and the note of who asked for it.

    :raises ConfigurationError: if there is no such batch, no DAG for it, no reason, or a name cannot stand in a row.
    :raises ReplayRefused: if the batch is not committed.
    """
    from shardbatch.control.replay_run import note_replay, plan_replay

    namespace = namespace_of(app_name, stream_name)
    deployment = deployment_id(leases)
    store = leases.open()
    try:
        planned = plan_replay(
            store,
            namespace,
            batch_id,
            deployment=deployment,
            dag_id=dag_id,
            group_id=group_id,
            run_id=_run_id(batch_id, ti),
        )
        actor = f"task {ti.task_id} of DAG {ti.dag_id}, run {ti.run_id},"
        return planned, note_replay(store, namespace, planned, actor=actor, reason=reason)
    finally:
        store.close()


def _run_id(batch_id: str, ti: Any) -> str:
    """The same for every try, so that a lost answer does not start a second run."""
    text = "/".join((ti.dag_id, ti.run_id, ti.task_id, str(ti.map_index)))
    return f"replay__{batch_id}__{hashlib.sha256(text.encode()).hexdigest()[:16]}"
