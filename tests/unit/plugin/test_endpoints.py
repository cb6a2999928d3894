# SPDX-License-Identifier: Apache-2.0
"""What each address of the JSON answers, over the rows and files of real runs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.models.task_state_store import TaskStateStoreModel
from sqlalchemy import insert

from shardbatch.control.completeness import HOUR_MS
from shardbatch.core import batch as batches
from shardbatch.core.policies import GapPolicy, Policies
from shardbatch.tasks.reading import KEY
from shardbatch_plugin.web import chosen, detail, stores
from tests.support.page import Page, page_of
from tests.support.rig import Rig

ONE, TWO, THREE = (f"shardId-{n:012d}" for n in range(3))


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    made = page_of(tmp_path, monkeypatch)
    made.dag()
    return made


def named(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of an answer in columns, by their names."""
    return [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]


def unfinished(page: Page, run: str) -> tuple[Rig, Any]:
    """A run that froze a batch and ended without a decision."""
    rig = page.rig
    page.stream.put("a", "b", "c")
    found = rig.claim(run)
    rig.land(run, found)
    return rig, rig.freeze(run, found.batch_id)


def test_an_application_that_no_run_has_claimed_for_says_so(page: Page) -> None:
    (row,) = page.get("applications")["applications"]
    assert (row["declared"], row["error"], row["behind_ms"]) == (True, None, None)
    text = "No run of its DAG here has claimed for it yet."
    assert row["problem"] == {"text": text, "remedy": "Let a run of its DAG begin."}
    page.of("application", status=404)


def test_batches_have_the_seconds_of_each_step_and_their_outcome(page: Page) -> None:
    page.stream.put(*map(str, range(7)))
    page.rig.run("r1")
    began = datetime(2026, 1, 1, tzinfo=UTC)
    page.metadata.run("dag", "r1", "success")
    spans = {"claim": (0, 2), "freeze": (30, 31), "transform": (31, 61), "second": (40, 71), "commit": (71, 73.5)}
    for task, (start, end) in {**spans, "report": (80, 99)}.items():
        times = {"start_date": began + timedelta(seconds=start), "end_date": began + timedelta(seconds=end)}
        page.metadata.task("dag", "r1", f"orders.{task}", "success", **times)
    for index in range(3):
        times = {"start_date": began + timedelta(seconds=3 + index), "end_date": began + timedelta(seconds=10 + index)}
        page.metadata.task("dag", "r1", "orders.read", "success", index, **times)
    page.metadata.task("dag", "r1", "elsewhere", "success", start_date=began, end_date=began + timedelta(hours=1))
    (row,) = named(page.of("batches"))
    assert [row[f"{step}_s"] for step in ("claim", "read", "freeze", "work", "commit")] == [2, 9, 1, 40, 2.5]
    assert (row["outcome"], row["records"], row["dag_id"], row["run_id"]) == ("committed", 7, "dag", "r1")
    assert row["owner"] == str(page.rig.owner("r1"))


def test_a_step_that_is_at_work_has_no_seconds_yet(page: Page) -> None:
    unfinished(page, "r1")
    page.metadata.run("dag", "r1", "running")
    began = datetime(2026, 1, 1, tzinfo=UTC)
    times = {"start_date": began, "end_date": began + timedelta(seconds=5)}
    page.metadata.task("dag", "r1", "orders.read", "success", 0, **times)
    page.metadata.task("dag", "r1", "orders.read", "running", 1, start_date=began)
    (row,) = named(page.of("batches"))
    assert (row["read_s"], row["work_s"], row["outcome"]) == (None, None, "frozen")


def test_the_latest_batches_come_first_and_no_more_than_asked_for(page: Page) -> None:
    rig = page.rig
    for number in range(3):
        page.stream.put(str(number))
        rig.run(f"r{number}")
    assert [row["run_id"] for row in named(page.of("batches", limit=2))] == ["r2", "r1"]
    assert len(page.of("batches", intervals=True)["rows"]) == 3


def test_many_batches_need_one_look_at_the_connection(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        page.stream.put(str(number))
        page.rig.run(f"r{number}")
    looks: list[Any] = []
    found = chosen.deployment_of
    monkeypatch.setattr(chosen, "deployment_of", lambda leases: looks.append(leases) or found(leases))
    assert len(page.of("batches")["rows"]) == 4
    assert len(looks) == 1


def test_a_batch_shows_slices_files_attempts_and_its_run(page: Page) -> None:
    page.stream.put("a", "b")
    page.rig.run("r1")
    page.metadata.run("dag", "r1", "success")
    batch_id = named(page.of("batches"))[0]["batch_id"]
    found = page.of("batch", batch_id=batch_id)
    (landed,) = found["slices"]
    assert (landed["shard_id"], landed["after"], landed["until"], landed["records"]) == (ONE, "TRIM_HORIZON", "101", 2)
    assert [file["records"] for file in landed["files"]] == [2]
    (attempt,) = found["attempts"]
    assert (attempt["attempt"], attempt["outcome"]) == (1, "committed")
    assert [(one["start"], one["work"], one["state"]) for one in attempt["starts"]] == [("s1", "transform", "decided")]
    assert found["owner"] == {
        "text": str(page.rig.owner("r1")), "dag_id": "dag", "run_id": "r1", "group_id": "orders", "here": True,
        "state": "success",
    }  # fmt: skip
    assert (found["files_error"], found["gaps"]) == (None, [])
    assert page.of("batch", status=404, batch_id="no-such")["error"] == "NotFound"


def test_each_attempt_shows_its_own_starts_and_applications(page: Page) -> None:
    rig, frozen = unfinished(page, "r1")
    rig.start(frozen, start_id="begun", done=False)
    rig.start(frozen, start_id="done")
    row = rig.batches()[0]
    assert page.store.replace(row, replace(row, row_count=row.row_count + 1, attempt_ref="1:client:w1:42 transform"))
    (attempt,) = page.of("batch", batch_id=frozen.batch_id)["attempts"]
    assert attempt["outcome"] == "open"
    assert attempt["applications"] == [{"name": "client:w1:42", "work": "transform", "url": None}]
    assert {one["start"]: one["state"] for one in attempt["starts"]} == {"begun": "begun", "done": "done"}
    again = rig.freeze("r1", frozen.batch_id)
    assert again.attempt == 2
    found = page.of("batch", batch_id=frozen.batch_id)["attempts"]
    assert [(one["attempt"], one["outcome"], len(one["starts"])) for one in found] == [
        (2, "open", 0),
        (1, "no decision", 2),
    ]


def test_a_batch_whose_files_cannot_be_read_is_shown_with_the_reason(page: Page) -> None:
    _, frozen = unfinished(page, "r1")
    manifest = next((page.folder / "staging").rglob("manifest.json"))
    manifest.write_bytes(manifest.read_bytes().replace(b"orders", b"0rders"))
    found = page.of("batch", batch_id=frozen.batch_id)
    assert (found["files_error"]["error"], found["slices"]) == ("ManifestChanged", [])
    manifest.unlink()
    found = page.of("batch", batch_id=frozen.batch_id)
    assert found["files_error"]["error"] == "StagingError"
    assert found["batch"]["records"] == 3


def test_a_shard_shows_its_family_its_batches_and_what_it_waits_for(page: Page) -> None:
    rig = page.rig
    page.stream.put("a", "b")
    rig.run("r1")
    page.stream.split(ONE)
    rig.run("r2")
    found = page.of("shard", shard_id=ONE)
    assert [child["shard_id"] for child in found["children"]] == [TWO, THREE]
    assert [(one["until"], one["records"]) for one in found["batches"]] == [("SHARD_END", 0), ("101", 2)]
    assert found["waits_for"] is None
    assert page.of("shard", shard_id=TWO)["parents"] == [{"shard_id": ONE, "state": "completed"}]
    assert page.of("shard", status=404, shard_id="no-such")["error"] == "NotFound"


def test_shards_come_as_columns_with_what_each_waits_for(page: Page) -> None:
    _, frozen = unfinished(page, "r1")
    (row,) = named(page.of("shards"))
    assert (row["shard_id"], row["state"], row["batch_id"]) == (ONE, "frozen", frozen.batch_id)
    assert (row["from_key"], row["to_key"]) == (0.0, 1.0)
    assert row["waits_for"].startswith(f"the work on batch {frozen.batch_id}")


def test_an_unfinished_batch_is_urgent_once_no_run_works_on_it(page: Page) -> None:
    unfinished(page, "r1")
    page.metadata.run("dag", "r1", "running")
    (row,) = page.get("applications")["applications"]
    assert (row["urgency"], row["unfinished"]) == (0, 1)
    assert row["running"] == [{"dag_id": "dag", "run_id": "r1"}]
    page.metadata.ends("dag", "r1", "failed")
    (row,) = page.get("applications")["applications"]
    assert (row["urgency"], row["running"]) == (2, [])
    assert "1 batch waits" in row["problem"]["text"]


def test_a_parked_batch_has_a_banner_with_what_to_do(page: Page) -> None:
    rig, _ = unfinished(page, "r1")
    row = rig.batches()[0]
    assert page.store.replace(row, batches.park(row, "by ann: broken"))
    found = page.of("application")
    assert (found["application"]["parked"], found["application"]["urgency"]) == (1, 3)
    assert found["banner"]["level"] == "warning"
    assert found["banner"]["remedy"]
    assert [verb["name"] for verb in found["verbs"]][:3] == ["release", "park", "unpark"]
    assert page.of("shard", shard_id=ONE)["waits_for"]["what"] == "parked"


def test_a_gap_shows_in_its_hours(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = page.rig
    page.stream.put("a")
    rig.run("r0")
    page.stream.put("b", "c")
    gone_ms, page.stream.now_ms = page.stream.now_ms, page.stream.now_ms + 1
    rig.time.ms += 48 * HOUR_MS
    page.stream.put("d")
    page.stream.trim(ONE, 1)
    rig.run("r1")
    monkeypatch.setattr(detail, "now_ms", rig.time.now_ms)

    def of_the_gap() -> str:
        hours = page.of("completeness", hours=72)["hours"]
        return next(str(hour["state"]) for hour in hours if hour["from_ms"] <= gone_ms < hour["from_ms"] + HOUR_MS)

    assert of_the_gap() == "gap"
    assert page.get("applications")["applications"][0]["gaps"] == 1
    assert page.of("shard", shard_id=ONE)["waits_for"]["what"] == "gap"
    rig.run("r2", policies=Policies(gap=GapPolicy.RECORD))
    assert page.get("applications")["applications"][0]["gaps"] == 0
    (gap,) = page.of("batch", batch_id=named(page.of("batches"))[0]["batch_id"])["gaps"]
    assert gap["shard_id"] == ONE
    assert of_the_gap() == "gap"


def test_a_read_at_work_shows_how_far_each_shard_has_come(page: Page) -> None:
    page.stream.put("a")
    rig = page.rig
    rig.claim("r1")
    page.metadata.run("dag", "r1", "running")
    page.metadata.task("dag", "r1", "orders.read", "running", 0)
    shown = {"group": "g0", "at_ms": 5, "records": 9, "bytes": 90, "shards": 1, "over": 0, "reading": {ONE: [9, 90, 7]}}
    values = {"dag_run_id": 1, "dag_id": "dag", "run_id": "r1", "task_id": "orders.read", "map_index": 0}
    with page.metadata.engine.begin() as connection:
        row = {**values, "key": KEY, "value": json.dumps(shown), "updated_at": datetime.now(UTC)}
        connection.execute(insert(TaskStateStoreModel), row)
    assert page.of("shard", shard_id=ONE)["reading"] == {"records": 9, "bytes": 90, "behind_ms": 7, "at_ms": 5}
    found = page.of("reading")
    assert named(found) == [{"shard_id": ONE, "records": 9, "bytes": 90, "behind_ms": 7, "at_ms": 5}]
    assert [(one["task_id"], one["map_index"], one["records"]) for one in found["tasks"]] == [("orders.read", 0, 9)]
    with page.metadata.engine.begin() as connection:
        connection.execute(page.metadata._tasks.update().values(state="success"))
    assert page.of("reading")["rows"] == []
    assert page.of("shard", shard_id=ONE)["reading"] is None


def test_a_store_that_fails_is_told_without_its_secrets(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    page.rig.run("r1")
    where = {"conn_type": "postgres", "host": "127.0.0.1", "port": 9, "login": "ann", "password": "hunter2-secret"}
    monkeypatch.setenv("AIRFLOW_CONN_LEASES", json.dumps(where))
    monkeypatch.setattr(stores, "_askers", {})
    answer = page.of("shards", status=502)
    assert answer["error"] == "StoreError"
    assert answer["remedy"] is not None
    listed = page.get("applications")
    assert listed["stores"][0]["error"]["error"] == "StoreError"
    assert listed["applications"][0]["error"]["error"] == "StoreError"
    assert "hunter2" not in json.dumps([answer, listed])


def test_an_argument_that_cannot_be_is_refused(page: Page) -> None:
    page.rig.run("r1")
    for path, query in (("batches", {"limit": 0}), ("completeness", {"hours": 0}), ("completeness", {"hours": 10_000})):
        answer = page.of(path, status=400, **query)
        assert (answer["error"], next(iter(query)) in answer["message"]) == ("ConfigurationError", True)
        assert "remedy" in answer
    assert "store" in page.get("shards", status=400)["message"]
    page.of("shards", status=404, store="no-such")
    page.of("shards", status=404, app_name="a/b")
