# SPDX-License-Identifier: Apache-2.0
"""Asks, from inside a real task, whether owners are over; and a run whose end a test decides."""

from __future__ import annotations

import os
import time
from pathlib import Path

from airflow.sdk import DAG, TaskGroup, task

FOLDER = Path(os.environ.get("SHARDBATCH_TEST_FOLDER", "/nonexistent"))

with DAG("ask", schedule=None):

    @task(retries=0)
    def verdicts(dag_run: object = None) -> dict[str, str]:
        from shardbatch.errors import OwnerUnknown
        from shardbatch.tasks.liveness import liveness

        ask = liveness("here")
        found = {}
        for owner in dag_run.conf["owners"]:
            try:
                found[owner] = ask(owner).value
            except OwnerUnknown as error:
                found[owner] = f"unknown: {error}"
        return found

    verdicts()

with DAG("owner", schedule=None, max_active_runs=16):

    @task(retries=0)
    def until_told(name: str, run_id: str | None = None) -> None:
        deadline = time.monotonic() + 240
        while not (FOLDER / f"end-{name}-{run_id}").exists() and time.monotonic() < deadline:
            time.sleep(0.2)

    with TaskGroup("batch"):
        until_told("group")
    until_told.override(task_id="elsewhere")("elsewhere")
