# SPDX-License-Identifier: Apache-2.0
"""What a person does to leases and batches, done by tasks: who they say it was, what they ask, tell and refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

import shardbatch
from shardbatch import (
    AcceptGapOperator,
    DropBatchOperator,
    ParkBatchOperator,
    ReleaseOperator,
    ResetOperator,
    SetAsideBatchOperator,
    Staging,
    UnparkBatchOperator,
)
from shardbatch.core.application import Application
from shardbatch.core.batch import BatchState
from shardbatch.core.rows import APPLICATION, Key
from shardbatch.errors import ConfigurationError
from shardbatch.stores.sql import SQLStore
from tests.support.actions import GIVEN, batch, over, run
from tests.unit.cli.rows import NAMESPACE, OTHER


def test_the_actor_is_the_run_and_stands_on_the_rows_with_the_reason(store: SQLStore) -> None:
    answer = run(ParkBatchOperator(**GIVEN, batch_id="{{ params.batch }}"))
    assert answer["counts"] == {"parked": 1}
    assert batch(store).state is BatchState.PARKED
    application = store.get(Key(APPLICATION, NAMESPACE, ()))
    assert isinstance(application, Application)
    for note in (batch(store).note, application.last_action):
        assert note is not None
        assert "run manual__1 of DAG repairs in prod parked" in note
        assert note.endswith("ticket 7")


def test_a_preview_changes_nothing_and_tells_what_would_be_done(store: SQLStore) -> None:
    answer = run(ParkBatchOperator(**GIVEN, batch_id="b2", preview="{{ params.preview }}"))
    assert (answer["preview"], answer["counts"]) == (True, {"would park": 1})
    assert batch(store).state is BatchState.FROZEN
    assert json.loads(json.dumps(answer)) == answer


def test_a_preview_that_is_neither_true_nor_false_is_refused(store: SQLStore) -> None:
    with pytest.raises(AirflowFailException, match="true or false"):
        run(ParkBatchOperator(**GIVEN, batch_id="b2", preview="maybe"))


def test_a_task_that_is_tried_again_does_not_fail_for_what_it_did(store: SQLStore) -> None:
    task = ParkBatchOperator(**GIVEN, batch_id="b2")
    run(task)
    assert run(task)["counts"] == {"already": 1}


def test_what_was_left_fails_the_task_and_is_told(store: SQLStore) -> None:
    pushed: dict[str, Any] = {}
    with pytest.raises(AirflowFailException, match="b1: it is committed"):
        run(ParkBatchOperator(**GIVEN, batch_id="b1"), pushed)
    assert pushed["return_value"]["left"] == {"b1": "it is committed"}


def test_a_parked_batch_is_resumed(store: SQLStore) -> None:
    run(ParkBatchOperator(**GIVEN, batch_id="b2"))
    assert run(UnparkBatchOperator(**GIVEN, batch_id="b2"))["counts"] == {"unparked": 1}
    assert batch(store).state is BatchState.FROZEN


@pytest.mark.parametrize("operator", [SetAsideBatchOperator, DropBatchOperator])
def test_airflow_is_asked_whether_the_owner_is_at_work(
    store: SQLStore, monkeypatch: pytest.MonkeyPatch, operator: Any
) -> None:
    with pytest.raises(AirflowFailException, match="at work"):
        run(operator(**GIVEN, batch_id="b2"))
    assert batch(store).state is BatchState.FROZEN
    over(monkeypatch)
    assert "left" not in run(operator(**GIVEN, batch_id="b2"))["counts"]
    assert batch(store).state is not BatchState.FROZEN


@pytest.mark.parametrize("operator", [SetAsideBatchOperator, DropBatchOperator])
def test_force_goes_on_although_the_owner_is_at_work(store: SQLStore, operator: Any) -> None:
    run(operator(**GIVEN, batch_id="b2", force="True"))  # as a template renders it
    assert batch(store).state is not BatchState.FROZEN


def test_orphans_of_a_dropped_batch_are_in_the_answer(store: SQLStore, tmp_path: Path) -> None:
    (tmp_path / "staging").mkdir()
    staging = Staging(str(tmp_path / "staging"))
    answer = run(DropBatchOperator(**GIVEN, batch_id="b2", force=True, staging=staging))
    assert "POSSIBLE ORPHANS: rows of batch_id=b2" in answer["rows"][0]["effect"]
    assert "none finished" in answer["rows"][0]["effect"]


def test_leases_are_released_by_owner(store: SQLStore) -> None:
    answer = run(ReleaseOperator(**GIVEN, lease_owner=OTHER))
    assert [(row["name"], row["result"]) for row in answer["rows"]] == [("s-landed", "released")]


def test_gaps_are_accepted_by_shard_or_all(store: SQLStore) -> None:
    assert run(AcceptGapOperator(**GIVEN, every="True"))["counts"] == {}
    with pytest.raises(AirflowFailException, match="no gap waits"):
        run(AcceptGapOperator(**GIVEN, shards="s-free, s-held"))


def test_a_shard_is_reset_with_its_descendants(store: SQLStore) -> None:
    answer = run(ResetOperator(**GIVEN, shards=["s-done"], to="2026-11-28T00:00:00+00:00"))
    assert [(row["name"], row["result"]) for row in answer["rows"]] == [("s-done", "reset"), ("s-free", "reset")]
    assert "from SHARD_END" in answer["rows"][0]["effect"] or "from TRIM_HORIZON" in answer["rows"][0]["effect"]


def test_a_reset_leaves_what_is_at_work(store: SQLStore) -> None:
    with pytest.raises(AirflowFailException, match=r"s-held: it is held by .* at work"):
        run(ResetOperator(**GIVEN, shards=["s-held"], to="TRIM_HORIZON"))


def test_an_application_begins_anew_on_a_stream_that_was_created_again(
    store: SQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    over(monkeypatch)
    answer = run(ResetOperator(**GIVEN, every=True, stream_id="arn:orders:2", force=True))
    assert answer["rows"][0]["effect"].startswith("from stream arn:orders:1 to arn:orders:2")


def test_without_a_reason_or_a_lease_store_the_dag_file_fails(store: SQLStore) -> None:
    with pytest.raises(ConfigurationError, match="no reason"):
        ParkBatchOperator(**{**GIVEN, "reason": " "}, batch_id="b2")
    with pytest.raises(ConfigurationError, match="No leases given"):
        ParkBatchOperator(**{**GIVEN, "leases": None}, batch_id="b2")


def test_what_is_not_there_fails_for_good(store: SQLStore) -> None:
    with pytest.raises(AirflowFailException, match="no batch 'b7'"):
        run(ParkBatchOperator(**GIVEN, batch_id="b7"))


def test_all_are_public_names() -> None:
    verbs = ("Release", "ParkBatch", "UnparkBatch", "SetAsideBatch", "DropBatch", "AcceptGap", "Reset")
    for name in (*verbs, "ForgetRoot", "AdoptRoot", "SumMarkers"):
        assert f"{name}Operator" in shardbatch.__all__
