# SPDX-License-Identifier: Apache-2.0
"""What is found of applications in DAGs as Airflow really serializes them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, TaskGroup

from shardbatch import ClaimOperator, DynamoDBLeases, KinesisStream, SQLLeases, Staging, StreamBatch
from shardbatch.core.application import Application, Group
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import Namespace
from shardbatch_plugin.web import found as found_module
from shardbatch_plugin.web.found import claiming, claiming_in
from shardbatch_plugin.web.known import known_of
from tests.support.page import Page, page_of


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    return page_of(tmp_path, monkeypatch)


def found(page: Page) -> dict[tuple[str, str], Any]:
    return {(one.dag_id, one.task_id): one for one in claiming()}


@dataclass(frozen=True)
class OwnLeases(SQLLeases):
    """A store of an author's own."""


def test_a_group_says_its_application_store_and_staging(page: Page) -> None:
    leases = DynamoDBLeases("leases", aws_conn_id=None, region_name="eu-west-1")
    page.dag(leases=leases)
    declared = found(page)["dag", "orders.claim"].application
    assert (declared.app_name, declared.stream_name, declared.group_id) == ("etl", "orders", "orders")
    assert declared.leases == leases
    assert declared.staging == page.staging


def test_a_claim_without_a_group_and_one_in_a_group_inside_another_are_found_too(page: Page) -> None:
    given: dict[str, Any] = {
        "stream": KinesisStream("orders"), "leases": SQLLeases("leases"), "staging": Staging("/staging"),
    }  # fmt: skip
    with DAG("alone", schedule=None) as alone:
        ClaimOperator(task_id="take", app_name="solo", **given)
    with DAG("nested", schedule=None) as nested, TaskGroup("outer"):
        StreamBatch("inner", app_name="inside", **given)
    page.metadata.dag(alone)
    page.metadata.dag(nested)
    named = {place: one.application for place, one in found(page).items()}
    assert (named["alone", "take"].app_name, named["alone", "take"].group_id) == ("solo", "")
    assert (named["nested", "outer.inner.claim"].app_name, named["nested", "outer.inner.claim"].group_id) == (
        "inside",
        "outer.inner",
    )


def test_many_dags_are_read_a_few_at_a_time_and_only_once(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found_module, "READ_AT_ONCE", 2)
    names = [f"dag{number}" for number in range(5)]
    for name in names:
        page.dag(name)
    assert sorted(one.dag_id for one in claiming()) == names
    monkeypatch.setattr(found_module, "claiming_in", lambda *given: pytest.fail("It is known."))
    assert sorted(one.dag_id for one in claiming()) == names


def test_a_mapped_claim_is_told_with_its_reason(page: Page) -> None:
    with DAG("mapped", schedule=None) as mapped:
        given: dict[str, Any] = {"stream": KinesisStream("orders"), "leases": SQLLeases("leases")}
        ClaimOperator.partial(task_id="take", staging=page.staging, **given).expand(app_name=["a", "b"])
    page.metadata.dag(mapped)
    (one,) = known_of(claiming()).not_known
    assert (one.dag_id, one.group_id) == ("mapped", "")
    assert "mapped" in one.why


def test_what_only_a_run_knows_is_told_with_its_reason(page: Page) -> None:
    page.dag("templated", app_name="etl-{{ params.region }}")
    page.dag("own", leases=OwnLeases("leases"))
    not_known = {one.dag_id: one for one in known_of(claiming()).not_known}
    assert "templates" in not_known["templated"].why
    assert not_known["templated"].app_name == "etl-{{ params.region }}"
    assert "class of the author's own" in not_known["own"].why


def test_a_templated_claim_is_linked_to_what_it_has_claimed(page: Page) -> None:
    page.dag("dag", app_name="etl-{{ params.region }}")
    page.dag("other", app_name="plain")
    group = Group("here", "dag", "orders", 300_000)
    elsewhere = Group("there", "other", "orders", 300_000)
    for name, by in (("etl-eu", group), ("foreign", elsewhere)):
        row = Application(Namespace(name, "orders"), "arn:orders", TRIM_HORIZON, 1, claimed_by=(by,))
        assert page.store.create(row)
    answer = page.get("applications", "viewer")
    assert [one["app_name"] for one in answer["applications"]] == ["etl-eu"]
    (one,) = answer["not_known"]
    assert [link["app_name"] for link in one["linked"]] == ["etl-eu"]
    assert page.get("applications", "stranger")["not_known"] == []


@pytest.mark.parametrize("said", ["no JSON", "[]", "{}", '{"leases": {"kind": "sql", "conn_id": "a", "newer": 1}}'])
def test_what_another_version_wrote_hides_only_itself(page: Page, said: str) -> None:
    tasks = [{"__var": {"task_id": "g.claim", "shardbatch_application": said}}]
    (one,) = claiming_in("later", {"dag": {"tasks": tasks}})
    assert (one.application, one.group_id) == (None, "g")
    assert "Use one version" in one.error


def test_the_latest_version_counts_and_a_dag_whose_file_is_gone_does_not(page: Page) -> None:
    page.dag(app_name="before")
    assert [one.application.app_name for one in claiming() if one.application] == ["before"]
    page.dag(app_name="after")
    assert [one.application.app_name for one in claiming() if one.application] == ["after"]
    page.metadata.stale("dag")
    assert claiming() == []
