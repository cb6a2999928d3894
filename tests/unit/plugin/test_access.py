# SPDX-License-Identifier: Apache-2.0
"""Who sees which application, and who may act on it, by what Airflow lets them do with its DAGs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from shardbatch import Staging
from shardbatch.core.application import Application, Group
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import APPLICATION, Key, Namespace
from shardbatch.stores.sql import SQLStore
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
    answer = page.get("applications", None, status=401)
    assert (answer["error"], answer["remedy"][:6]) == ("Unauthorized", "Log in")
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


def claimed(page: Page, *dag_ids: str) -> None:
    """The application's row says that the groups of these DAGs of this deployment have claimed."""
    key = Key(APPLICATION, Namespace("etl", page.stream.name), ())
    row = page.store.get(key)
    assert isinstance(row, Application)
    groups = tuple(Group("here", dag_id, "orders" if dag_id == "dag" else "again", 300_000) for dag_id in dag_ids)
    assert page.store.replace(row, replace(row, claimed_by=groups, row_count=row.row_count + 1))


def test_a_dag_that_only_names_an_application_of_others_lets_nobody_see_it_nor_change_it(page: Page) -> None:
    claimed(page, "dag")
    page.dag("other", "again", staging=Staging("/of/a/stranger"))
    [row] = page.get("applications", "stranger")["applications"]
    assert (row["urgency"], row["behind_ms"], row["unfinished"], row["running"]) == (0, None, None, [])
    assert row["problem"]["text"] == "No run of its DAG here has claimed for it yet."
    page.dag("other", "again", app_name="no-such")
    [of_none] = page.get("applications", "stranger")["applications"]
    assert {**row, "app_name": "no-such"} == of_none  # they are not told which
    page.dag("other", "again", staging=Staging("/of/a/stranger"))
    for path in OF_ONE:
        assert page.of(path, "stranger", status=404) == page.of(path, "stranger", status=404, app_name="no-such")
    assert page.get("place", "stranger", dag_id="other")["banner"] is None
    batch_id = page.of("batches")["rows"][0][0]
    assert page.of("batch", "viewer", batch_id=batch_id)["files_error"] is None  # its staging is not the stranger's


def test_what_a_user_may_not_see_takes_no_longer_than_what_is_not_there(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed(page, "dag")
    page.dag("other", "again")
    read: list[str] = []
    listed = SQLStore.list
    monkeypatch.setattr(SQLStore, "list", lambda *given, **more: read.append("") or listed(*given, **more))
    page.of("application", "stranger", status=404)
    assert read == []
    page.of("application", "viewer")
    assert read


def test_a_store_that_no_dag_names_is_answered_as_an_application_that_is_not_there(page: Page) -> None:
    assert page.of("application", status=404, store="0" * 12) == page.of("application", status=404, app_name="no-such")


def test_the_dag_that_follows_on_one_that_is_gone_has_its_application(page: Page) -> None:
    claimed(page, "dag")
    page.dag("other", "again")
    page.metadata.stale("dag")
    page.of("application", "stranger")


def test_what_no_run_has_is_for_those_who_may_edit_all_of_the_dags(page: Page) -> None:
    claimed(page, "dag", "other")
    page.dag("other", "again")
    chosen = {"verb": "reset", "chosen": {"every": True, "to": "TRIM_HORIZON"}, "preview": True}
    headers = {"X-Shardbatch": "act"}
    answers = {}
    for user in ("admin", "editor", "stranger"):
        given = {**headers, "Authorization": f"Bearer {user}"}
        answers[user] = page.client.post("/api/act", json={**page.address(), **chosen}, headers=given)
    assert {user: found.status_code for user, found in answers.items()} == {
        "admin": 200,
        "editor": 403,
        "stranger": 403,
    }
    assert "all DAGs" in answers["editor"].json()["message"]
    assert page.of("application", "editor")["may_act"] is True  # of what the run of its DAG has


def test_of_several_dags_only_those_are_named_that_the_user_may_read(page: Page) -> None:
    claimed(page, "dag", "other")
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
