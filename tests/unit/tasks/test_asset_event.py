# SPDX-License-Identifier: Apache-2.0
"""Whether a batch's asset event is out, asked of Airflow, and what an event tells."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset

from shardbatch.operators.commit import extra_of
from shardbatch.run import Committed
from shardbatch.tasks import asset_event
from shardbatch.tasks.asset_event import clearing_of, is_out

SENT_MS = 1_800_000_000_000
DAY_MS = 86_400_000


def ask(monkeypatch: pytest.MonkeyPatch, *extras: dict[str, Any], age_ms: int = 5) -> bool:
    """Whether the event of b1 is out where Airflow has events with these extras in the two hours around."""

    def found(asset: Asset, after: datetime, before: datetime) -> list[dict[str, Any]]:
        assert (asset.name, before - after) == ("a", timedelta(hours=2))
        assert before - timedelta(hours=1) == datetime.fromtimestamp(SENT_MS / 1000, UTC)
        return list(extras)

    monkeypatch.setattr(asset_event, "_extras", found)
    return is_out(Asset("a"), "b1", SENT_MS, SENT_MS + age_ms)


def test_the_event_is_out_if_airflow_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not ask(monkeypatch)
    assert not ask(monkeypatch, {}, {"batch_id": "b2"})
    assert ask(monkeypatch, {"batch_id": "b2"}, {"batch_id": "b1"})


def test_an_event_that_airflow_may_have_removed_since_counts_as_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not ask(monkeypatch, age_ms=7 * DAY_MS)
    assert ask(monkeypatch, age_ms=7 * DAY_MS + 1)


def test_without_an_answer_the_event_counts_as_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: Any) -> Any:
        raise ConnectionError

    monkeypatch.setattr(asset_event, "_extras", silent)
    assert is_out(Asset("a"), "b1", SENT_MS, SENT_MS)


def test_airflow_is_asked_for_the_events_of_that_asset_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import AssetEventsResult

    asked: list[Any] = []

    def send(message: Any) -> AssetEventsResult:
        asked.append(message)
        return AssetEventsResult(asset_events=[])

    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", SimpleNamespace(send=send), raising=False)
    assert not is_out(Asset("a", uri="s3://b/c"), "b1", SENT_MS, SENT_MS)
    (message,) = asked
    assert (message.name, message.uri) == ("a", "s3://b/c")
    assert (message.before - message.after, message.limit) == (timedelta(hours=2), None)


def test_a_clearing_is_told_from_another_one_and_from_a_run_made_again_under_its_name() -> None:
    began = datetime(2026, 11, 28, tzinfo=UTC)

    def clearing(run_id: str = "r1", number: int = 0, start: datetime | None = began, tries: int = 3) -> str:
        run = SimpleNamespace(run_id=run_id, clear_number=number, start_date=start)
        return clearing_of(run, SimpleNamespace(max_tries=tries))

    assert clearing() == clearing()
    others = [clearing("r2"), clearing(number=1), clearing(start=began + timedelta(seconds=1)), clearing(start=None)]
    assert len({clearing(), *others}) == 5
    assert clearing(tries=4) != clearing()  # cleared with reset_dag_runs=false, which Airflow does not count


def test_an_event_tells_what_is_missing_in_a_batch() -> None:
    extra = extra_of(Committed(batch_id="b1", records=7, gaps=2, dropped=3))
    assert (extra["batch_id"], extra["records"], extra["gaps"], extra["dropped"]) == ("b1", 7, 2, 3)
