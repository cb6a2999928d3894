# SPDX-License-Identifier: Apache-2.0
"""ReplayBatchOperator orders a run that replays a batch, the same one for every try."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, DagRunTriggerException

from shardbatch import KinesisStream, ReplayBatchOperator, SQLLeases
from shardbatch.control.status import status
from shardbatch.core.rows import TABLES
from shardbatch.errors import ConfigurationError, ReplayRefused
from shardbatch.stores.sql import SQLStore
from tests.unit.cli.rows import NAMESPACE, filled


@pytest.fixture
def leases(tmp_path: Path, connection: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> SQLLeases:
    """The rows in a database that an Airflow connection names."""
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__DEPLOYMENT_ID", "prod")
    connection("leases_db", conn_type="sqlite", host=str(tmp_path / "leases.db"))
    store, memory = SQLStore(f"sqlite:///{tmp_path}/leases.db"), filled()
    store.prepare()
    for table in TABLES:
        for row in memory.list(table, NAMESPACE):
            assert store.create(row)
    store.close()
    return SQLLeases("leases_db")


def execute(leases: SQLLeases, batch_id: str = "b1", run_id: str = "manual__1", **changes: Any) -> Any:
    arguments = {
        "task_id": "again",
        "app_name": "orders-etl",
        "stream": KinesisStream("orders"),
        "leases": leases,
        "batch_id": batch_id,
        "reason": "currency was wrong",
        **changes,
    }
    ti = SimpleNamespace(dag_id="mend", run_id=run_id, task_id="again", map_index=-1)
    context: Any = {"ti": ti}
    return ReplayBatchOperator(**arguments).execute(context)


def test_the_operator_starts_the_run_and_a_second_try_the_same_one(leases: SQLLeases) -> None:
    orders = []
    for run_id in ("manual__1", "manual__1", "manual__2"):
        with pytest.raises(DagRunTriggerException) as raised:
            execute(leases, run_id=run_id)
        orders.append(raised.value)
    first = orders[0]
    assert (first.trigger_dag_id, first.conf, first.reset_dag_run) == ("orders", {"orders.replay": "b1"}, True)
    assert "task again of DAG mend, run manual__1, replayed batch b1" in str(first.note)
    assert first.dag_run_id == orders[1].dag_run_id != orders[2].dag_run_id
    store = leases.open()
    assert status(store, NAMESPACE).last_action == orders[2].note
    store.close()


def test_a_batch_that_cannot_be_replayed_fails_the_task_for_good(leases: SQLLeases) -> None:
    with pytest.raises(AirflowFailException, match="b2 is FROZEN") as raised:
        execute(leases, "b2")
    assert type(raised.value).__name__ == ReplayRefused.__name__


def test_without_a_lease_store_the_dag_file_is_wrong() -> None:
    with pytest.raises(ConfigurationError, match="'again': No leases given"):
        execute(None)  # type: ignore[arg-type]


def test_a_preview_starts_nothing_and_notes_nothing(leases: SQLLeases) -> None:
    answer = execute(leases, preview="True")
    assert (answer["preview"], answer["counts"]) == (True, {"would start": 1})
    assert answer["rows"][0]["conf"] == {"orders.replay": "b1"}
    store = leases.open()
    assert status(store, NAMESPACE).last_action is None
    store.close()


def test_a_preview_that_is_neither_true_nor_false_is_refused(leases: SQLLeases) -> None:
    with pytest.raises(AirflowFailException, match="true or false"):
        execute(leases, preview="maybe")
