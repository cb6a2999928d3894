# SPDX-License-Identifier: Apache-2.0
"""The run that a person, or ReplayBatchOperator, starts for a batch: which DAG, told what, noted how."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shardbatch.control.replay_run import Files, note_replay, plan_replay
from shardbatch.control.status import status
from shardbatch.core.batch import KEPT, Batch, BatchState, Start
from shardbatch.errors import ConfigurationError, SlicesGone
from shardbatch.stores.memory import MemoryStore
from tests.unit.cli.rows import NAMESPACE, OTHER, OWNER, filled, frozen_batch


def there(batch: Batch) -> Files:
    return Files("all there")


def planned(store: MemoryStore, batch_id: str = "b1", **changes: Any) -> Any:
    return plan_replay(
        store, NAMESPACE, batch_id, **{"deployment": "prod", "files": there, "dry_run": False, **changes}
    )


def test_the_run_is_one_of_the_owners_dag_and_is_told_the_batch() -> None:
    found = planned(filled())
    assert (found.dag_id, found.conf, found.records, found.owner) == ("orders", {"orders.replay": "b1"}, 4, OWNER)
    assert found.run_id.startswith("replay__b1__")


def test_a_batch_whose_files_are_known_to_be_gone_is_only_previewed() -> None:
    gone, unknown = (lambda batch: Files("2 missing", gone=True)), (lambda batch: Files("not known from here"))
    assert planned(filled(), files=gone, dry_run=True).files == "2 missing"
    with pytest.raises(SlicesGone, match="b1 cannot be replayed: of its files 2 missing"):
        planned(filled(), files=gone)
    assert planned(filled(), files=unknown).files == "not known from here"


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
    for batch_id, named in (("b3", "staging/orders"), ("b4", "no owner")):
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
