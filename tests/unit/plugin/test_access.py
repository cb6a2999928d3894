# SPDX-License-Identifier: Apache-2.0
"""Who sees which application, and who may act on it, by what Airflow lets them do with its DAGs."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardbatch.core.application import Application
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import Namespace
from tests.support.page import Page, page_of

OF_ONE = ("application", "shards", "batches", "completeness", "reading")


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    made = page_of(tmp_path, monkeypatch)
    made.dag()
    made.stream.put(*map(str, range(7)))
    made.rig.run("r1")
    made.metadata.run("dag", "r1", "success")
    return made


def seen(page: Page, user: str) -> list[str]:
    return [one["app_name"] for one in page.get("applications", user)["applications"]]


def test_without_a_login_nothing_is_told(page: Page) -> None:
    page.get("applications", None, status=401)
    for path in OF_ONE:
        page.of(path, None, status=401)


def test_whoever_may_read_its_dag_sees_an_application_and_nobody_else_is_told_that_it_is_there(page: Page) -> None:
    assert [seen(page, user) for user in ("admin", "editor", "viewer", "stranger")] == [["etl"]] * 3 + [[]]
    batch_id = page.of("batches")["rows"][0][0]
    shard_id = page.of("shards")["rows"][0][0]
    asked = [
        *((path, {}) for path in OF_ONE),
        ("batch", {"batch_id": batch_id}),
        ("shard", {"shard_id": shard_id}),
        ("records", {"batch_id": batch_id, "shard_id": shard_id}),
    ]
    for path, query in asked:
        if path != "records":
            page.of(path, "viewer", **query)
        hidden = page.of(path, "stranger", status=404, **query)
        absent = page.of(path, "admin", status=404, **{**query, "app_name": "no-such"})
        assert hidden == absent
    assert page.get("applications", "stranger")["stores"] == []


def test_an_application_without_a_dag_here_is_for_those_who_may_edit_connections(page: Page) -> None:
    row = Application(Namespace("alone", "orders"), "arn:orders", TRIM_HORIZON, 1)
    assert page.store.create(row)
    assert sorted(seen(page, "admin")) == ["alone", "etl"]
    assert seen(page, "editor") == ["etl"]
    page.of("application", "editor", status=404, app_name="alone")
    found = page.of("application", app_name="alone")
    assert found["may_act"] is True
    assert found["application"]["declared"] is False


def test_whoever_may_edit_the_dag_may_act(page: Page) -> None:
    batch_id = page.of("batches")["rows"][0][0]
    may = {user: page.of("application", user)["may_act"] for user in ("admin", "editor", "viewer")}
    assert may == {"admin": True, "editor": True, "viewer": False}
    assert page.of("batch", "editor", batch_id=batch_id)["may_act"] is True
    assert page.of("batch", "viewer", batch_id=batch_id)["may_act"] is False
    dags = page.get("applications", "viewer")["applications"][0]["dags"]
    assert dags == [{"dag_id": "dag", "group_id": "orders", "may_edit": False}]


def test_of_several_dags_only_those_are_named_that_the_user_may_read(page: Page) -> None:
    page.dag("other", "again")
    page.metadata.run("other", "r9", "running")
    shown = {
        user: {dag["dag_id"] for dag in page.get("applications", user)["applications"][0]["dags"]}
        for user in ("admin", "viewer", "stranger")
    }
    assert shown == {"admin": {"dag", "other"}, "viewer": {"dag"}, "stranger": {"other"}}
    assert page.get("applications", "viewer")["applications"][0]["running"] == []
    assert page.get("applications")["applications"][0]["running"] == [{"dag_id": "other", "run_id": "r9"}]


def test_records_are_shown_only_where_the_setting_and_the_dag_allow_it(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_id, shard_id = page.of("batches")["rows"][0][0], page.of("shards")["rows"][0][0]
    asked = {"batch_id": batch_id, "shard_id": shard_id, "count": 2}
    assert page.of("records", status=403, **asked)["error"] == "Forbidden"
    assert page.of("application")["may_see_records"] is False
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__SHOW_RECORDS", "true")
    page.of("records", "viewer", status=403, **asked)
    found = page.of("records", "editor", **asked)["records"]
    assert [(one["partition_key"], one["data_base64"], one["size"]) for one in found] == [
        ("0", "MTAw", 3),
        ("1", "MTAx", 3),
    ]
    assert page.of("application", "editor")["may_see_records"] is True
    assert page.of("application", "viewer")["may_see_records"] is False
    page.of("records", status=404, **{**asked, "shard_id": "no-such"})
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__SHOW_RECORDS", "perhaps")
    assert "show_records" in page.of("records", status=400, **asked)["message"]
