# SPDX-License-Identifier: Apache-2.0
"""What ``airflow shardbatch replay`` asks of Airflow: to start the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardbatch.errors import ConfigurationError

if TYPE_CHECKING:
    from shardbatch.control.replay_run import ReplayRun


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
