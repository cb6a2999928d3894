# SPDX-License-Identifier: Apache-2.0
"""The run that ReplayBatchOperator, or a person, starts for a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, DagRunTriggerException

from shardbatch import KinesisStream, ReplayBatchOperator, SQLLeases
from shardbatch.control.replay_run import note_replay, plan_replay
from shardbatch.control.status import status
from shardbatch.core.batch import KEPT, BatchState, Start
from shardbatch.core.rows import TABLES
from shardbatch.errors import ConfigurationError, ReplayRefused
from shardbatch.stores.memory import MemoryStore
from shardbatch.stores.sql import SQLStore
from tests.unit.cli.rows import NAMESPACE, OTHER, OWNER, filled, frozen_batch


def planned(store: MemoryStore, batch_id: str = "b1", **changes: Any) -> Any:
    return plan_replay(store, NAMESPACE, batch_id, **{"deployment": "prod", **changes})


def test_the_run_is_one_of_the_owners_dag_and_is_told_the_batch() -> None:
    found = planned(filled())
    assert (found.dag_id, found.conf, found.records, found.owner) == ("orders", {"orders.replay": "b1"}, 4, OWNER)
    assert found.run_id.startswith("replay__b1__")


def test_a_batch_without_output_is_shown_as_such() -> None:
    store = filled()
    assert planned(store).output == "none"
    store.create(replace(frozen_batch("b3", state=BatchState.COMMITTED), starts=(Start("s", 2, "w"),), decided=2))
    assert planned(store, "b3").output == "attempt 2"
    own = replace(frozen_batch("b4", state=BatchState.COMMITTED), sink="own", decided=2)
    store.create(own)
    store.create(replace(own, batch_id="b5", set_aside=KEPT))
    assert [planned(store, name).output for name in ("b4", "b5")] == ["attempt 2", "none"]


def test_the_owner_of_another_deployment_names_no_dag_here() -> None:
    store = filled()
    store.create(frozen_batch("b3", OTHER, BatchState.COMMITTED))
    store.create(frozen_batch("b4", "", BatchState.COMMITTED))
    for batch_id, named in (("b3", "staging/orders"), ("b4", "nobody")):
        with pytest.raises(ConfigurationError, match=f"belongs to {named}.*--dag-id"):
            planned(store, batch_id)
    assert planned(store, "b3", dag_id="here").conf == {"orders.replay": "b3"}
    assert planned(store, "b4", dag_id="here", group_id="group").conf == {"group.replay": "b4"}


def test_tasks_without_a_group_cannot_be_told() -> None:
    store = filled()
    store.create(frozen_batch("b3", "prod/orders/run//incremental", BatchState.COMMITTED))
    with pytest.raises(ConfigurationError, match="without a group"):
        planned(store, "b3")


def test_who_asked_and_why_stand_on_the_application_row() -> None:
    store = filled()
    with pytest.raises(ConfigurationError, match="needs a reason"):
        note_replay(store, NAMESPACE, planned(store), actor="ann", reason=" ")
    note_replay(store, NAMESPACE, planned(store, run_id="r"), actor="ann", reason="currency was wrong")
    assert str(status(store, NAMESPACE).last_action).endswith(
        "Z ann replayed batch b1 by run r of DAG orders: currency was wrong"
    )


def test_a_long_reason_fits_into_the_note_that_airflow_keeps_of_the_run() -> None:
    store, reason = filled(), "because " * 200
    assert len(note_replay(store, NAMESPACE, planned(store), actor="ann", reason=reason)) == 1000
    assert str(status(store, NAMESPACE).last_action).endswith(reason.strip())


# ---------------------------------------------------------------------- the operator


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


def execute(leases: SQLLeases, batch_id: str = "b1", run_id: str = "manual__1", **changes: Any) -> None:
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
    ReplayBatchOperator(**arguments).execute(context)


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
