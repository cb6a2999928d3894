# SPDX-License-Identifier: Apache-2.0
"""From a DAG, a run or a task to its application and batch, and the line about what is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shardbatch.core import batch as batches
from shardbatch.core.owner import Owner
from shardbatch.core.rows import BATCH, Key
from shardbatch.hooks.leases import store_digest
from shardbatch.stores.sql import SQLStore
from shardbatch.tasks.task_error import KEY
from tests.support.acted_page import Page
from tests.unit.cli.rows import NAMESPACE, OWNER
from tests.unit.plugin.conftest import LEASES

DAG, RUN = "orders", str(getattr(Owner.parse(OWNER), "run_id", ""))
PLACE = {
    "store": store_digest(LEASES),
    "app_name": "orders-etl",
    "stream_name": "orders",
    "group_id": "orders",
    "batch_id": None,
    "shard_id": None,
}
ERROR = {"error": "StagingMissing", "message": "The staging folder is gone.", "remedy": "Make it."}


def asked(page: Page, **query: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The places, and the line; empty if there is none."""
    status, answer = page.get("place", dag_id=DAG, **query)
    assert status == 200, answer
    return answer["places"], answer["banner"] or {}


@pytest.fixture
def run(acted_page: Page) -> Page:
    """A run of the DAG that froze the batch b2."""
    acted_page.log_in("vic")
    acted_page.metadata.run(DAG, RUN, "failed")
    acted_page.xcom(DAG, RUN, "orders.claim", "return_value", [{"group": "g0", "label": "g0: 2 shards"}])
    acted_page.xcom(DAG, RUN, "orders.freeze", "batch_id", "b2")
    return acted_page


def test_a_dag_leads_to_its_application_and_to_what_is_wrong_with_that(acted_page: Page) -> None:
    acted_page.log_in("vic")
    places, banner = asked(acted_page)
    assert places == [PLACE]
    assert (banner["level"], banner["task_id"]) == ("warning", None)
    assert "1 batch waits" in banner["text"]
    assert banner["remedy"]


def test_a_run_leads_to_its_batch_and_says_what_failed_it(run: Page) -> None:
    run.metadata.task(DAG, RUN, "orders.work", "failed")
    places, banner = asked(run, run_id=RUN)
    assert places == [{**PLACE, "batch_id": "b2"}]
    assert (banner["level"], banner["task_id"]) == ("error", "orders.work")
    assert "Batch b2 waits for it." in banner["text"]


def test_the_error_that_a_task_left_is_told_while_its_last_try_failed(run: Page) -> None:
    run.metadata.task(DAG, RUN, "orders.read", "failed", map_index=0)
    run.metadata.task(DAG, RUN, "orders.read", "success", map_index=1)
    run.metadata.task(DAG, RUN, "orders.freeze", "upstream_failed")
    for index in (0, 1):
        run.xcom(DAG, RUN, "orders.read", KEY, ERROR, index)
    _, banner = asked(run, run_id=RUN)
    assert banner == {
        "level": "error",
        "text": "Task orders.read [0] failed: StagingMissing: The staging folder is gone.",
        "remedy": "Make it.",
        "task_id": "orders.read",
    }


def test_what_another_task_left_under_the_name_of_an_error_is_not_made_an_object(run: Page) -> None:
    run.metadata.task(DAG, RUN, "orders.work", "failed")
    run.xcom(DAG, RUN, "orders.work", KEY, '{"__classname__": "os.path", "__version__": 1, "__data__": ""}')
    assert "error of the work itself" in asked(run, run_id=RUN)[1]["text"]


def test_a_read_task_leads_to_the_shards_that_its_rows_name(run: Page) -> None:
    places, _ = asked(run, run_id=RUN, task_id="orders.read", map_index=0)
    assert places == [{**PLACE, "batch_id": "b2", "shard_id": name} for name in ("s-frozen", "s-held")]
    for more in ({"task_id": "orders.read", "map_index": 7}, {"task_id": "orders.work"}):
        places, _ = asked(run, run_id=RUN, **more)
        assert places == [{**PLACE, "batch_id": "b2"}]


def test_a_parked_batch_is_told_where_nothing_failed(run: Page, acted_store: SQLStore) -> None:
    frozen: Any = acted_store.get(Key(BATCH, NAMESPACE, ("", "b2")))
    assert acted_store.replace(frozen, batches.park(frozen, "ann parked: its sink is away"))
    _, banner = asked(run, run_id=RUN)
    assert "Batch b2 is parked: ann parked" in banner["text"]


def test_a_run_that_got_nothing_says_who_holds_it(acted_page: Page, acted_store: SQLStore) -> None:
    acted_page.log_in("vic")
    acted_page.metadata.run(DAG, "r2", "success")
    acted_page.xcom(DAG, "r2", "orders.claim", "outcome", "held")
    acted_page.xcom(DAG, "r2", "orders.claim", "summary", "Another run holds all shards.")
    assert asked(acted_page, run_id="r2")[1]["text"] == "Another run holds all shards."


def test_a_batch_that_is_gone_and_a_store_that_does_not_answer_still_have_their_place(
    run: Page, acted_store: SQLStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen: Any = acted_store.get(Key(BATCH, NAMESPACE, ("", "b2")))
    assert acted_store.delete(replace(frozen))
    places, banner = asked(run, run_id=RUN)
    assert places == [{**PLACE, "batch_id": "b2"}]
    monkeypatch.delenv("AIRFLOW_CONN_LEASES_PAGE")
    places, banner = asked(run, run_id=RUN)
    assert places == [{**PLACE, "batch_id": "b2"}]
    assert (banner["level"], "leases_page" in banner["text"]) == ("warning", True)


def test_a_dag_that_is_not_there_and_one_that_the_user_may_not_read_are_told_alike(acted_page: Page) -> None:
    acted_page.log_in("oscar")
    hidden, absent = (acted_page.get("place", dag_id=name) for name in (DAG, "gone"))
    assert (hidden[0], hidden[1]["message"].replace(DAG, "")) == (404, absent[1]["message"].replace("gone", ""))
    assert absent[0] == 404
    acted_page.log_in(None)
    assert acted_page.get("place", dag_id=DAG)[0] == 401
