# SPDX-License-Identifier: Apache-2.0
"""Tasks that do a verb over the rows of the command line's tests, run as Airflow runs them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from shardbatch import (
    KinesisStream,
    SQLLeases,
)
from shardbatch.core.batch import Batch
from shardbatch.core.rows import BATCH, Key
from shardbatch.stores.sql import SQLStore
from tests.unit.cli.rows import NAMESPACE

GIVEN: dict[str, Any] = {
    "task_id": "verb",
    "app_name": "{{ params.app }}",
    "stream": KinesisStream("{{ params.stream }}"),
    "leases": SQLLeases("leases_db"),
    "reason": "ticket 7",
}


def over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RuntimeTaskInstance, "get_dagrun_state", staticmethod(lambda dag_id, run_id: "failed"))


def run(task: Any, pushed: dict[str, Any] | None = None) -> dict[str, Any]:
    """One try of a task, its templates rendered as Airflow does."""
    kept = {} if pushed is None else pushed
    context: Any = {
        "dag_run": SimpleNamespace(dag_id="repairs", run_id="manual__1"),
        "ti": SimpleNamespace(
            dag_id="repairs",
            run_id="manual__1",
            task_id="verb",
            map_index=-1,
            xcom_push=lambda key, value: kept.__setitem__(key, value),
        ),
        "params": {"app": "orders-etl", "stream": "orders", "batch": "b2", "preview": True, "gone": "b1"},
    }
    task.render_template_fields(context)
    return dict(task.execute(context))


def batch(store: SQLStore, batch_id: str = "b2") -> Batch:
    row = store.get(Key(BATCH, NAMESPACE, ("", batch_id)))
    assert isinstance(row, Batch)
    return row
