# SPDX-License-Identifier: Apache-2.0
"""Acting from the page: what a person has seen is what is done, and only by whom Airflow lets edit the DAG."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.models import DagRun
from sqlalchemy import select

from shardbatch import SQLLeases
from shardbatch.control.verbs import VERBS
from shardbatch.core import batch as batches
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.owner import Owner
from shardbatch.core.rows import BATCH, TABLES, Key
from shardbatch.hooks.leases import store_digest
from shardbatch.stores.sql import SQLStore
from shardbatch_plugin.web import acting
from tests.support.acted_page import FROM_THE_PAGE, Page
from tests.unit.cli.caller import call
from tests.unit.cli.rows import NAMESPACE, NOW, OWNER
from tests.unit.plugin.conftest import LEASES

ADDRESS = {"store": store_digest(LEASES), "app_name": "orders-etl", "stream_name": "orders"}


def ask(verb: str = "park", chosen: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {**ADDRESS, "verb": verb, "chosen": {"batch_id": "b2"} if chosen is None else chosen, **more}


def do(token: str, **more: Any) -> dict[str, Any]:
    return ask(**{"preview": False, "token": token, "reason": "its sink is away", **more})


def rows_of(store: SQLStore) -> list[Any]:
    return [row for table in TABLES for row in store.list(table, NAMESPACE)]


def batch_of(store: SQLStore, batch_id: str = "b2") -> Batch:
    row = store.get(Key(BATCH, NAMESPACE, ("", batch_id)))
    assert isinstance(row, Batch)
    return row


def test_what_was_previewed_is_done_and_noted_under_the_users_name(acted_page: Page, acted_store: SQLStore) -> None:
    acted_page.log_in("ann")
    before = rows_of(acted_store)
    status, preview = acted_page.act(ask())
    assert (status, preview["done"]) == (200, False)
    [row] = preview["rows"]
    assert (row["kind"], row["name"], row["owner"], row["result"]) == ("batch", "b2", OWNER, "would park")
    assert rows_of(acted_store) == before
    status, answer = acted_page.act(do(preview["token"]))
    assert (status, answer["done"], answer["rows"][0]["result"]) == (200, True, "parked")
    assert batch_of(acted_store).state is BatchState.PARKED
    assert "ann parked: its sink is away" in str(batch_of(acted_store).note)


def test_a_preview_is_stale_once_a_row_that_it_named_was_changed(acted_page: Page, acted_store: SQLStore) -> None:
    acted_page.log_in("ann")
    token = acted_page.act(ask("set-aside"))[1]["token"]
    frozen = batch_of(acted_store)
    assert acted_store.replace(frozen, replace(frozen, row_count=4, attempt=3))
    before = rows_of(acted_store)
    status, answer = acted_page.act(do(token, verb="set-aside"))
    assert (status, answer["error"]) == (409, "StalePreview")
    assert "preview" in answer["remedy"]
    assert rows_of(acted_store) == before


def test_a_row_that_changes_between_the_look_at_the_token_and_the_act_is_left(
    acted_page: Page, acted_store: SQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    acted_page.log_in("ann")
    token = acted_page.act(ask())[1]["token"]
    perform = acting.Ground.perform

    def late(self: acting.Ground, *given: Any, preview: bool, **more: Any) -> Any:
        if not preview:
            of_dag(acted_store, "other")
        return perform(self, *given, preview=preview, **more)

    monkeypatch.setattr(acting.Ground, "perform", late)
    status, answer = acted_page.act(do(token))
    assert (status, answer["error"]) == (409, "StalePreview")
    assert batch_of(acted_store).state is BatchState.FROZEN


def test_a_sign_of_life_of_its_run_makes_no_preview_stale(acted_page: Page, acted_store: SQLStore) -> None:
    acted_page.log_in("ann")
    token = acted_page.act(ask())[1]["token"]
    frozen = batch_of(acted_store)
    assert acted_store.replace(frozen, batches.heartbeat(frozen, NOW, None))
    assert acted_page.act(do(token))[0] == 200


@pytest.mark.parametrize("more", [{"token": ""}, {"verb": "set-aside"}, {"chosen": {"batch_id": "b2", "scope": ""}}])
def test_a_token_of_something_else_does_nothing(acted_page: Page, acted_store: SQLStore, more: dict[str, Any]) -> None:
    acted_page.log_in("ann")
    token, before = acted_page.act(ask())[1]["token"], rows_of(acted_store)
    status, answer = acted_page.act(do(**{"token": token, **more}))
    assert (status, answer["error"]) == (409, "StalePreview")
    assert rows_of(acted_store) == before


def test_a_token_of_another_person_does_nothing(acted_page: Page) -> None:
    acted_page.log_in("root")
    token = acted_page.act(ask())[1]["token"]
    acted_page.log_in("ann")
    assert acted_page.act(do(token))[0] == 409


@pytest.mark.parametrize(("name", "status", "error"), [("vic", 403, "Forbidden"), ("oscar", 404, "ApplicationUnknown")])
def test_who_may_not_edit_the_dag_does_not_even_get_a_preview(
    acted_page: Page, acted_store: SQLStore, name: str, status: int, error: str
) -> None:
    acted_page.log_in("ann")
    token, before = acted_page.act(ask())[1]["token"], rows_of(acted_store)
    acted_page.log_in(name)
    for body in (ask(), do(token)):
        found, answer = acted_page.act(body)
        assert (found, answer["error"]) == (status, error)
    assert rows_of(acted_store) == before


def test_without_a_login_nothing_is_answered(acted_page: Page) -> None:
    acted_page.log_in(None)
    assert acted_page.act(ask())[0] == 401


def of_dag(store: SQLStore, dag_id: str) -> None:
    """The batch belongs to a run of this DAG, of the same deployment."""
    frozen = batch_of(store)
    owner = str(Owner("prod", dag_id, "r", "orders"))
    assert store.replace(frozen, replace(frozen, row_count=4, owner=owner))


def test_what_the_run_of_another_dag_has_is_for_those_who_may_edit_that_dag(
    acted_page: Page, acted_store: SQLStore
) -> None:
    of_dag(acted_store, "other")
    acted_page.log_in("ann")
    status, answer = acted_page.act(ask())
    assert (status, answer["error"]) == (403, "Forbidden")
    assert "other" not in answer["message"]  # whose DAG ann may not read
    acted_page.rights.reads["oscar"].add("orders")
    acted_page.log_in("oscar")
    assert acted_page.act(ask())[0] == 200


def test_what_the_run_of_a_dag_has_that_is_gone_is_for_those_who_may_edit_the_application(
    acted_page: Page, acted_store: SQLStore
) -> None:
    of_dag(acted_store, "gone")
    acted_page.log_in("ann")
    assert acted_page.act(ask())[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {**FROM_THE_PAGE, "Origin": "https://elsewhere.example"},
        {**FROM_THE_PAGE, "Origin": "null"},
        {**FROM_THE_PAGE, "Sec-Fetch-Site": "cross-site"},
        {**FROM_THE_PAGE, "Sec-Fetch-Site": "same-site"},
        {**FROM_THE_PAGE, "Content-Type": "text/plain"},
        {**FROM_THE_PAGE, "X-Shardbatch": "other"},
        {"Origin": "http://testserver"},
    ],
)
def test_what_another_site_sends_is_refused(acted_page: Page, acted_store: SQLStore, headers: dict[str, str]) -> None:
    acted_page.log_in("ann")
    token, before = acted_page.act(ask())[1]["token"], rows_of(acted_store)
    status, answer = acted_page.act(do(token), headers)
    assert (status, answer["error"]) == (403, "Forbidden")
    assert rows_of(acted_store) == before


def test_a_program_without_a_browser_and_airflows_public_address_are_no_other_site(
    acted_page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    acted_page.log_in("ann")
    assert acted_page.act(ask(), {"X-Shardbatch": "act"})[0] == 200
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/team")
    assert acted_page.act(ask(), {**FROM_THE_PAGE, "Origin": "https://airflow.example"})[0] == 200


def test_nothing_is_done_by_get(acted_page: Page) -> None:
    acted_page.log_in("ann")
    assert acted_page.client.get("/api/act", params=ADDRESS, headers=FROM_THE_PAGE).status_code == 405


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (ask("gc"), "gc"),
        (ask("nothing"), "nothing"),
        (ask(chosen={}), "batch_id"),
        (ask(chosen={"batch_id": ["b2"]}), "batch_id"),
        (ask(chosen={"batch_id": "b2", "force": True}), "force"),
        (ask("drop", {"batch_id": "b2", "force": "yes"}), "force"),
        (ask(chosen={"batch_id": "b9"}), "b9"),
        (ask(preview="no"), "preview"),
        (ask(more=1), "more"),
        ({"store": ADDRESS["store"]}, "app_name"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(acted_page: Page, body: dict[str, Any], named: str) -> None:
    acted_page.log_in("ann")
    status, answer = acted_page.act(body)
    assert (status, answer["error"]) == (400, "ConfigurationError")
    assert named in answer["message"]


def test_nothing_is_done_without_a_reason(acted_page: Page, acted_store: SQLStore) -> None:
    acted_page.log_in("ann")
    token, before = acted_page.act(ask())[1]["token"], rows_of(acted_store)
    status, answer = acted_page.act(do(token, reason=" "))
    assert (status, answer["error"]) == (400, "ConfigurationError")
    assert rows_of(acted_store) == before


def test_a_run_that_works_keeps_its_batch_unless_by_force_as_airflows_database_says(
    acted_page: Page, acted_store: SQLStore
) -> None:
    run_id = "scheduled__2026-11-28T00:00:00+00:00"
    acted_page.metadata.run("orders", run_id, "running")
    acted_page.metadata.task("orders", run_id, "orders.work", "running")
    acted_page.log_in("ann")
    preview = acted_page.act(ask("drop"))[1]
    assert preview["rows"][0]["result"] == "left"
    answer = acted_page.act(do(preview["token"], verb="drop"))[1]
    assert (answer["done"], answer["rows"][0]["result"]) == (False, "left")
    forced = {"batch_id": "b2", "force": True}
    token = acted_page.act(ask("drop", forced))[1]["token"]
    assert acted_page.act(do(token, verb="drop", chosen=forced))[1]["rows"][0]["result"] == "dropped"
    acted_page.metadata.ends("orders", run_id, "failed")


def test_a_replay_is_started_as_the_user_who_may_start_runs_of_the_dag(acted_page: Page, acted_store: SQLStore) -> None:
    chosen = {"batch_id": "b1"}
    acted_page.log_in("ann")
    status, preview = acted_page.act(ask("replay", chosen))
    assert (status, preview["rows"][0]["result"]) == (200, "would start")
    acted_page.rights.starts["ann"] = set()
    assert acted_page.act(do(preview["token"], verb="replay", chosen=chosen))[0] == 403
    acted_page.rights.starts["ann"] = {"orders"}
    status, answer = acted_page.act(do(preview["token"], verb="replay", chosen=chosen))
    assert (status, answer["rows"][0]["result"]) == (200, "started")
    with acted_page.metadata.session() as session:
        [run] = session.scalars(select(DagRun))
        assert (run.triggering_user_name, run.triggered_by.value, run.conf) == ("ann", "ui", {"orders.replay": "b1"})
        assert run.run_id in answer["rows"][0]["effect"]


def test_a_token_starts_one_replay(acted_page: Page) -> None:
    acted_page.log_in("ann")
    chosen = {"batch_id": "b1"}
    token = acted_page.act(ask("replay", chosen))[1]["token"]
    assert acted_page.act(do(token, verb="replay", chosen=chosen))[0] == 200
    status, answer = acted_page.act(do(token, verb="replay", chosen=chosen))
    assert (status, answer["error"]) == (409, "StalePreview")
    with acted_page.metadata.session() as session:
        assert len(list(session.scalars(select(DagRun)))) == 1


def test_a_token_of_another_store_is_another_one(acted_page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__LEASES", "sql://leases_twin")
    monkeypatch.setenv("AIRFLOW_CONN_LEASES_TWIN", json.dumps({"conn_type": "sqlite", "host": _file_of(acted_page)}))
    acted_page.log_in("root")
    twin = {**ask(), "store": store_digest(SQLLeases("leases_twin"))}
    here, there = acted_page.act(ask())[1], acted_page.act(twin)[1]
    assert here["rows"] == there["rows"]
    assert here["token"] != there["token"]


def _file_of(page: Page) -> str:
    """The file of its lease store."""
    return str(Path(str(page.metadata.engine.url.database)).parent / "leases.db")


def test_a_replay_by_another_dag_needs_the_right_to_start_that_one(acted_page: Page) -> None:
    acted_page.log_in("ann")
    chosen = {"batch_id": "b1", "dag_id": "other", "group_id": "orders"}
    assert acted_page.act(ask("replay", chosen))[0] == 403


@pytest.mark.parametrize(
    ("verb", "words", "chosen"),
    [
        ("release", ("--owner", OWNER), {"owner": OWNER}),
        ("park", ("--batch", "b2"), {"batch_id": "b2"}),
        ("unpark", ("--batch", "b2"), {"batch_id": "b2"}),
        ("set-aside", ("--batch", "b1"), {"batch_id": "b1"}),
        ("drop", ("--batch", "b2", "--force"), {"batch_id": "b2", "force": True}),
        ("accept-gap", ("--shard", "s-free"), {"shards": ["s-free"]}),
        ("reset", ("--all", "--to", "TRIM_HORIZON"), {"every": True, "to": "TRIM_HORIZON"}),
        ("reset", ("--all",), {"every": True}),
        ("release", (), {}),
        ("park", ("--batch", "b9"), {"batch_id": "b9"}),
    ],
)
def test_the_page_says_and_refuses_what_the_command_line_does(
    acted_page: Page, airflows_database: Path, verb: str, words: tuple[str, ...], chosen: dict[str, Any]
) -> None:
    where = ("--app-name", "orders-etl", "--stream-name", "orders", "--leases", "sql://leases_page")
    staging = ("--staging", str(airflows_database.parent / "staging")) if VERBS[verb].staging else ()
    told = call(verb, *where, "--output", "json", *staging, *words)
    acted_page.log_in("root")
    status, answer = acted_page.act(ask(verb, chosen))
    if not told.out:
        assert status == 400
        assert told.err.strip() == f"{answer['error']}: {answer['message']} {answer['remedy']}".strip()
        return
    names = ("kind", "name", "owner", "result", "why", "effect")
    rows = [{name: row[name] for name in names} for row in json.loads(told.out)]
    assert [{name: row[name] for name in names} for row in answer["rows"]] == rows
    assert rows
