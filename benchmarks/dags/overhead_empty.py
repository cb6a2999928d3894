# SPDX-License-Identifier: Apache-2.0
"""Six tasks in a chain that do nothing. Not ``EmptyOperator``: Airflow marks such done without starting a process."""

from __future__ import annotations

from airflow.sdk import DAG, chain, task


@task
def nothing() -> None:
    """Only what Airflow itself costs."""


with DAG("overhead_empty", schedule=None, max_active_runs=1):
    chain(*(nothing.override(task_id=f"task_{number}")() for number in range(1, 7)))
