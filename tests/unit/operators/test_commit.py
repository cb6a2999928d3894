# SPDX-License-Identifier: Apache-2.0
"""Commit: what stops it, which work it commits, what it reports, and what it sends to consumers of the assets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from shardbatch import CommitOperator, KinesisStream, SQLLeases, Staging
from shardbatch.core.start import Work
from shardbatch.core.watermark import Watermark
from shardbatch.errors import StoreError, WorkFailed
from shardbatch.operators.commit import LONGEST_PROBLEM


def operator(**changes: Any) -> CommitOperator:
    given: dict[str, Any] = {
        "task_id": "commit",
        "freeze_task": "orders.freeze",
        "app_name": "etl",
        "stream": KinesisStream("orders", aws_conn_id=None, region_name="eu-west-1"),
        "leases": SQLLeases("leases_db"),
        "staging": Staging("/staging"),
    }
    return CommitOperator(**{**given, **changes})


def test_a_freeze_that_was_marked_success_by_hand_is_no_empty_batch(
    connection: Callable[..., None], tmp_path: Path
) -> None:
    connection("leases_db", conn_type="sqlite", host=str(tmp_path / "leases.db"))
    commit = operator(staging=Staging(str(tmp_path)))
    run = SimpleNamespace(dag_id="d", run_id="r", run_type="manual", conf={}, clear_number=0)
    ti = SimpleNamespace(dag_id="d", run_id="r", xcom_pull=lambda **_: None)
    context: Any = {"ti": ti, "dag_run": run, "params": {}}
    with pytest.raises(AirflowFailException, match=r"orders.freeze left no outputs.*Clear that task"):
        commit.execute(context)


# ------------------------------------------------------------------ the work

TI = SimpleNamespace(dag_id="d", run_id="r")


def works(
    monkeypatch: pytest.MonkeyPatch, states: dict[str, str | None], records: int = 3, **changes: Any
) -> list[Work]:
    """What is committed if Airflow answers these states of the tasks ``a``, ``b`` and ``m``, of which ``m`` is
    mapped."""

    def answer(*, task_ids: list[str], **_: Any) -> Any:
        assert task_ids == ["a", "b", "m"]
        return {"r": states}

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(answer))
    return operator(work=["a", "b", "m"], **changes)._require_work(TI, "b1", records)


def test_the_work_that_succeeded_is_committed_with_each_instance_of_a_mapped_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    states: dict[str, str | None] = {"a": "success", "b": "skipped", "m_0": "success", "m_1": "skipped"}
    assert works(monkeypatch, states) == [Work("a"), Work("m[0]")]
    chosen = works(monkeypatch, states, given=["a"], idle=["m"])
    assert chosen == [Work("a", given=True, runs=True), Work("m[0]", given=False, runs=False)]


@pytest.mark.parametrize("state", ["failed", "upstream_failed"])
def test_work_that_failed_stops_it_and_is_named(monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    with pytest.raises(WorkFailed, match=r"Of the work of batch b1, b, m\[1\] failed: nothing is committed"):
        works(monkeypatch, {"a": "success", "b": state, "m_0": "success", "m_1": state})


@pytest.mark.parametrize("state", ["running", "queued", "up_for_retry", "deferred", None])
def test_work_that_has_not_ended_stops_it_and_the_error_says_to_wait(
    monkeypatch: pytest.MonkeyPatch, state: str | None
) -> None:
    with pytest.raises(WorkFailed, match=r"batch b1, b has not ended: nothing is committed\. Let it end"):
        works(monkeypatch, {"a": "success", "b": state})


def test_records_without_any_work_that_succeeded_are_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    states: dict[str, str | None] = {"a": "skipped", "b": "skipped"}
    with pytest.raises(WorkFailed, match="Batch b1 has 3 records, but no work succeeded: skipped a, b"):
        works(monkeypatch, states)
    assert works(monkeypatch, states, records=0) == []


def test_without_a_batch_or_without_work_airflow_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def unasked(**_: Any) -> Any:
        raise AssertionError("Airflow was asked.")

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(unasked))
    assert operator(work=["a"])._require_work(TI, None, 0) == []
    assert operator()._require_work(TI, "b1", 3) == []


# ------------------------------------------------------------------ problems


def problems(
    landed: list[dict[str, Any] | None], waiting: dict[str, Any] | None = None, **changes: Any
) -> list[dict[str, str]]:
    """What is reported of a run whose read tasks answered this, and whose freeze left these shards waiting."""

    def pull(*, task_ids: str, key: str = "return_value", map_indexes: list[int] | None = None) -> Any:
        if task_ids == "orders.claim":
            return [{"group": str(number)} for number in range(len(landed))]
        if task_ids == "orders.read":
            assert map_indexes == list(range(len(landed)))
            return landed
        assert (task_ids, key) == ("orders.freeze", "waiting")
        return waiting

    tasks = {"claim_task": "orders.claim", "read_task": "orders.read", **changes}
    return operator(**tasks)._problems(SimpleNamespace(xcom_pull=pull))


def failed(count: int, **errors: str) -> dict[str, Any]:
    return {"failed": count, "errors": errors}


def test_a_run_that_read_all_has_no_problems() -> None:
    assert problems([]) == problems([failed(0), None], {"count": 0, "shards": []}) == []


def test_shards_that_could_not_be_read_are_a_problem_of_all_read_tasks_together() -> None:
    (found,) = problems([failed(1, b="refused"), failed(0), None, failed(1, a="away")])
    assert found == {"kind": "shards", "text": "2 shards could not be read: a: away; b: refused."}


def test_shards_that_wait_behind_a_gap_are_a_problem_of_their_own() -> None:
    first, second = problems([failed(1, a="away")], {"count": 1, "shards": ["c"]})
    assert first["kind"] == "shards"
    assert second == {
        "kind": "gap",
        "text": "Records of 1 shards expired unread; the rest of these shards waits for accept-gap: c.",
    }


def test_a_problem_counts_the_shards_that_it_does_not_name_and_shows_where_it_is_cut() -> None:
    shards, gap = problems([failed(9, a="away")], {"count": 30, "shards": ["c", "d"]})
    assert shards["text"] == "9 shards could not be read: a: away and 8 more."
    assert gap["text"].endswith("waits for accept-gap: c, d and 28 more.")
    (long,) = problems([failed(9, **{f"s{number}": "x" * 500 for number in range(9)})])
    assert len(long["text"]) == LONGEST_PROBLEM
    assert long["text"].endswith("x…")


def test_a_commit_that_knows_of_no_read_tasks_asks_for_none() -> None:
    assert problems([failed(1, a="away")], claim_task=None) == []


# ------------------------------------------------------------------ the asset event


class Notebook:
    """The state store of an asset."""

    def __init__(self, *, broken: bool = False) -> None:
        self.broken = broken
        self.kept: dict[str, Any] = {}

    def get(self, key: str, default: Any = None) -> Any:
        return self.kept.get(key, default)

    def set(self, key: str, value: Any) -> None:
        if self.broken:
            raise RuntimeError("The state store does not answer.")
        self.kept[key] = value


def published(
    commit: CommitOperator, *, mode: str = "incremental", sends: bool = True, broken: bool = False
) -> tuple[dict[Any, Any], Notebook]:
    """The extra of each asset's event, and what the state store of the asset keeps."""
    book = Notebook(broken=broken)
    events: dict[Any, Any] = {asset: SimpleNamespace(extra=None) for asset in commit.outlets}
    context: Any = {"outlet_events": events, "asset_state_store": dict.fromkeys(events, book)}
    commit._publish(context, {"batch_id": "b1", "mode": mode}, sends=sends)
    return {asset: event.extra for asset, event in events.items()}, book


def test_the_event_of_each_asset_has_the_outcome_and_its_state_store_a_copy() -> None:
    one, two = Asset("one"), Asset("two")
    commit = operator(outlets=[one, two])
    extra = {"batch_id": "b1", "mode": "incremental"}
    told, book = published(commit)
    assert told == {one: extra, two: extra}
    assert book.kept == {"watermark": extra}
    assert commit.outlets == [one, two]


def test_an_event_that_is_not_to_be_sent_leaves_no_outlet() -> None:
    commit = operator(outlets=[Asset("one")])
    told, book = published(commit, sends=False)
    assert (commit.outlets, list(told.values()), book.kept) == ([], [None], {})


def marked(commit: CommitOperator, mode: str, answer: Any) -> Any:
    """What a commit knows of the watermark if the rows answer this."""

    def watermark() -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    steps: Any = SimpleNamespace(owner=SimpleNamespace(mode=mode), watermark=watermark)
    return commit._watermark(steps)


def test_a_live_run_knows_the_watermark_and_an_interval_run_does_not_ask() -> None:
    commit, mark = operator(outlets=[Asset("one")]), Watermark(9, resets=2)
    assert marked(commit, "incremental", mark) is mark
    assert marked(commit, "interval", AssertionError("the rows were asked")) is None
    assert marked(operator(), "incremental", AssertionError("the rows were asked")) is None


def test_rows_that_cannot_be_read_do_not_undo_the_commit(capsys: pytest.CaptureFixture[str]) -> None:
    assert marked(operator(outlets=[Asset("one")]), "incremental", StoreError("The store is away.")) is None
    assert "The watermark could not be read for its asset: The store is away." in capsys.readouterr().out


def test_the_watermark_is_copied_for_each_asset_and_a_store_that_fails_harms_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, two = Asset("one"), Asset("two")
    commit, good = operator(outlets=[one, two]), Notebook()
    context: Any = {"asset_state_store": {one: Notebook(broken=True), two: good}}
    commit._mirror(context, Watermark(9, resets=2))
    assert good.kept == {"committed_up_to": [2, 9]}
    assert "was not copied" in capsys.readouterr().out
    commit._mirror(context, None)
    assert good.kept == {"committed_up_to": [2, 9]}


def test_an_interval_does_not_move_the_watermark() -> None:
    told, book = published(operator(outlets=[Asset("one")]), mode="interval")
    assert [extra["mode"] for extra in told.values()] == ["interval"]
    assert book.kept == {}


def test_a_state_store_that_fails_does_not_undo_the_commit(capsys: pytest.CaptureFixture[str]) -> None:
    told, _ = published(operator(outlets=[Asset("one")]), broken=True)
    assert [extra["batch_id"] for extra in told.values()] == ["b1"]
    assert (
        "The watermark was not copied to the asset's state store: The state store does not answer."
        in capsys.readouterr().out
    )
