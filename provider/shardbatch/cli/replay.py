# SPDX-License-Identifier: Apache-2.0
"""What ``airflow shardbatch replay`` asks of the world beside the lease store: the staging folder and Airflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardbatch.core.rows import Namespace
from shardbatch.errors import ConfigurationError, ShardbatchError

if TYPE_CHECKING:
    from shardbatch.control.replay_run import ReplayRun
    from shardbatch.core.batch import Batch
    from shardbatch.hooks.staging import Staging

ALL_THERE = "all there"


def files_of(namespace: Namespace, batch: Batch) -> tuple[str, bool]:
    """Whether a batch's files are in staging, in words, and whether it is known that some are not."""
    try:
        gone = _staging(namespace, batch).open().missing_files(namespace, batch.batch_id)
    except (ShardbatchError, ImportError) as error:
        return f"not known from here: {error}", False
    return (f"{len(gone)} missing, the first is {gone[0]}", True) if gone else (ALL_THERE, False)


def _staging(namespace: Namespace, batch: Batch) -> Staging:
    """The folder in which the batch's manifest stands, reached as the deployment's own if it is on the same kind."""
    from shardbatch.hooks.settings import default_staging
    from shardbatch.hooks.staging import Staging
    from shardbatch.landing.layout import staging_of
    from shardbatch.landing.location import locate

    uri = staging_of(batch.manifest_uri or "", namespace, batch.batch_id)
    if uri is None:
        raise ConfigurationError("The batch's row names no manifest.", remedy="")
    given = default_staging()
    if given is not None and locate(given.uri).kind == locate(uri).kind:
        return Staging(uri, given.aws_conn_id, given.region_name)
    return Staging(uri)


def start(planned: ReplayRun, *, actor: str, note: str) -> None:
    """Start the run as ``airflow dags trigger`` does, in this process.

    :raises ConfigurationError: with Airflow's own words, if it does not start.
    """
    from airflow.api.common.trigger_dag import trigger_dag
    from airflow.sdk.exceptions import AirflowException
    from airflow.utils.types import DagRunTriggeredByType

    try:
        trigger_dag(
            dag_id=planned.dag_id,
            triggered_by=DagRunTriggeredByType.CLI,
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
