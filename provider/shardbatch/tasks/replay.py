# SPDX-License-Identifier: Apache-2.0
"""The order to replay a batch, as a task gives it: the run to start, noted on the application row before it starts."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from shardbatch.errors import ConfigurationError, ShardbatchError
from shardbatch.hooks.leases import Leases, existing_store
from shardbatch.hooks.names import namespace_of
from shardbatch.hooks.settings import default_staging, deployment_id
from shardbatch.hooks.staging import Staging

if TYPE_CHECKING:
    from shardbatch.control.replay_run import Files
    from shardbatch.control.replay_run import ReplayRun as ReplayRun
    from shardbatch.core.batch import Batch
    from shardbatch.core.rows import Namespace


ALL_THERE = "all there"


def files_of(batch: Batch) -> Files:
    """Whether a batch's files are in staging, as far as this machine can see."""
    from shardbatch.control.replay_run import Files

    if batch.retired_ms is not None:
        return Files("going: it was retired, after archive_for", gone=True)
    try:
        gone = _staging(batch.namespace, batch).open().missing_files(batch.namespace, batch.batch_id)
    except (ShardbatchError, ImportError) as error:
        return Files(f"not known from here: {error}")
    return Files(f"{len(gone)} missing, the first is {gone[0]}", gone=True) if gone else Files(ALL_THERE)


def _staging(namespace: Namespace, batch: Batch) -> Staging:
    """The folder in which the batch's manifest stands, reached as the deployment's own if it is on the same kind."""
    from shardbatch.landing.layout import staging_of
    from shardbatch.landing.location import locate

    uri = staging_of(batch.manifest_uri or "", namespace, batch.batch_id)
    if uri is None:
        raise ConfigurationError("The batch's row names no manifest.", remedy="")
    given = default_staging()
    if given is not None and locate(given.uri).kind == locate(uri).kind:
        return Staging(uri, given.aws_conn_id, given.region_name)
    return Staging(uri)


def order_replay(
    leases: Leases,
    app_name: str,
    stream_name: str,
    batch_id: str,
    *,
    ti: Any,
    reason: str,
    preview: bool,
    dag_id: str | None,
    group_id: str | None,
) -> tuple[ReplayRun, str]:
    """The run that replays a batch, the same for every try of a task instance, and the note of who asked for it; a
    preview notes nothing.

    :raises ConfigurationError: if there is no such batch, no DAG for it, no reason, or a name cannot stand in a row.
    :raises ReplayRefused: if the batch is not committed.
    :raises SlicesGone: if files of the batch are known to be gone, unless this is a preview.
    """
    from shardbatch.control.replay_run import note_replay, plan_replay

    namespace = namespace_of(app_name, stream_name)
    deployment = deployment_id(leases)
    with existing_store(leases) as store:
        planned = plan_replay(
            store,
            namespace,
            batch_id,
            deployment=deployment,
            files=files_of,
            dry_run=preview,
            dag_id=dag_id,
            group_id=group_id,
            run_id=_run_id(batch_id, ti),
        )
        if preview:
            return planned, ""
        actor = f"task {ti.task_id} of DAG {ti.dag_id}, run {ti.run_id},"
        return planned, note_replay(store, namespace, planned, actor=actor, reason=reason)


def _run_id(batch_id: str, ti: Any) -> str:
    """The same for every try, so that a lost answer does not start a second run."""
    text = "/".join((ti.dag_id, ti.run_id, ti.task_id, str(ti.map_index)))
    return f"replay__{batch_id}__{hashlib.sha256(text.encode()).hexdigest()[:16]}"
