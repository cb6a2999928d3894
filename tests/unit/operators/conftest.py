# SPDX-License-Identifier: Apache-2.0
"""What the tests of operators share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from shardbatch.core.rows import TABLES
from shardbatch.stores.sql import SQLStore
from tests.unit.cli.rows import NAMESPACE, filled


@pytest.fixture
def store(connection: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SQLStore]:
    """The rows of the command line's tests; the owner of the frozen batch is at work until a test says otherwise."""
    connection("leases_db", conn_type="sqlite", host=str(tmp_path / "leases.db"))
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__DEPLOYMENT_ID", "prod")
    monkeypatch.setattr(RuntimeTaskInstance, "get_dagrun_state", staticmethod(lambda dag_id, run_id: "running"))
    states = staticmethod(lambda dag_id, run_ids, task_ids=None: {run_ids[0]: {"orders.work": "running"}})
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", states)
    found = SQLStore(f"sqlite:///{tmp_path}/leases.db")
    found.prepare()
    memory = filled()
    for table in TABLES:
        for row in memory.list(table, NAMESPACE):
            assert found.create(row)
    yield found
    found.close()
