# SPDX-License-Identifier: Apache-2.0
"""The link of every task of a group to its batch in the Streams page."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, BaseOperator, task
from airflow.serialization.serialized_objects import DagSerialization

from shardbatch import KinesisStream, SparkSubmitBatchOperator, SQLLeases, Staging, StreamBatch
from shardbatch.core.owner import Owner
from shardbatch.errors import LeaseLost
from shardbatch.hooks.leases import store_digest
from shardbatch.operators.links import BatchLink, add_link, lead_to, lead_to_batch, lead_to_owner
from shardbatch.tasks.application import ApplicationSpec

GIVEN: dict[str, Any] = {
    "app_name": "etl",
    "stream": KinesisStream("orders"),
    "leases": SQLLeases("leases_db"),
    "staging": Staging("/staging"),
}
STORE = store_digest(SQLLeases("leases_db", create=False))
TI: Any = SimpleNamespace(dag_id="nightly", run_id="manual__2026-11-01T00:00:00+00:00")


def block() -> DAG:
    with DAG("nightly", schedule=None) as made, StreamBatch("batch", **GIVEN) as batch:
        SparkSubmitBatchOperator(task_id="spark", application="job.py", batch=batch)
        task(lambda uri, item: None, task_id="each").partial(uri=batch.manifest_uri).expand(item=[1, 2])
        BashOperator(task_id="bash", bash_command="true")
        TriggerDagRunOperator(task_id="other", trigger_dag_id="x")
    return made


def test_every_task_of_a_group_has_the_link_as_airflow_stores_the_dag() -> None:
    stored = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(block()))
    links = {name: one.extra_links for name, one in stored.task_dict.items()}
    assert all("Batch" in names for names in links.values()), links
    assert {"batch.claim", "batch.read", "batch.freeze", "batch.commit", "batch.report"} <= links.keys()
    assert "Triggered DAG" in links["batch.other"]


def test_an_instance_of_a_mapped_task_has_it_when_its_work_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    each = block().get_task("batch.each").unmap({"op_kwargs": {"item": 1}})
    frozen = {"batch_id": "0001/b", "attempt": 1}
    ti = SimpleNamespace(
        id="1", task=each, task_id="batch.each", map_index=0, xcom_pull=lambda task_ids, key: frozen[key]
    )
    each._pre_execute_hook({"ti": ti})
    assert [type(link) for link in each.operator_extra_links] == [BatchLink]
    assert BatchLink().get_link(each, ti_key=TI) == f"/plugin/streams#/app/{STORE}/etl/orders/batch/0001%2Fb"
    each._pre_execute_hook({"ti": ti})
    assert len(each.operator_extra_links) == 1


def test_where_nothing_is_known_it_leads_to_the_tasks_own_run_quoted() -> None:
    link = BatchLink().get_link(block().get_task("batch.bash"), ti_key=TI)
    assert link == "/dags/nightly/runs/manual__2026-11-01T00%3A00%3A00%2B00%3A00"


def test_it_stands_below_the_path_under_which_a_proxy_has_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://example.com/team/airflow/")
    assert BatchLink().get_link(BaseOperator(task_id="t"), ti_key=TI).startswith("/team/airflow/dags/nightly/runs/")


@pytest.mark.parametrize(
    ("owner", "run"),
    [
        (str(Owner("here", "other dag", "r/2", "batch")), "/dags/other%20dag/runs/r%2F2"),
        (str(Owner("elsewhere", "other", "r2", "batch")), "/dags/nightly/runs/manual"),
        ("somebody", "/dags/nightly/runs/manual"),
        ("", "/dags/nightly/runs/manual"),
    ],
)
def test_of_an_unknown_store_it_leads_to_the_run_that_has_a_lost_batch_if_that_is_of_this_airflow(
    owner: str, run: str
) -> None:
    one = BaseOperator(task_id="t")
    error = LeaseLost("It went to another.")
    error.owner = owner
    lead_to_owner(one, error, "here")
    assert BatchLink().get_link(one, ti_key=TI).startswith(run)


def test_it_leads_to_the_batch_else_to_the_application_with_each_part_of_the_address_quoted() -> None:
    one = BaseOperator(task_id="t")
    lead_to_batch(one, "b1")  # of a task whose application is not known
    assert BatchLink().get_link(one, ti_key=TI).startswith("/dags/nightly/runs/")
    given = {"leases": GIVEN["leases"], "staging": GIVEN["staging"]}
    lead_to(one, ApplicationSpec.of("e t+l", KinesisStream("or#ders"), **given))
    assert BatchLink().get_link(one, ti_key=TI) == f"/plugin/streams#/app/{STORE}/e%20t%2Bl/or%23ders"
    lead_to_batch(one, None)
    assert BatchLink().get_link(one, ti_key=TI).endswith("/or%23ders")
    lead_to_batch(one, "b+1")
    assert BatchLink().get_link(one, ti_key=TI).endswith("/or%23ders/batch/b%2B1")


def test_a_store_of_the_authors_own_class_is_not_shown_by_the_page() -> None:
    class Own(SQLLeases):
        pass

    one = BaseOperator(task_id="t")
    lead_to(one, ApplicationSpec.of("etl", KinesisStream("orders"), Own("leases_db"), GIVEN["staging"]))
    assert BatchLink().get_link(one, ti_key=TI).startswith("/dags/nightly/runs/")


def test_the_report_behind_a_group_leads_to_the_application() -> None:
    report = block().get_task("batch.report")
    report.problems = []
    report.execute({})
    assert BatchLink().get_link(report, ti_key=TI) == f"/plugin/streams#/app/{STORE}/etl/orders"


def test_a_class_that_says_its_links_itself_keeps_them() -> None:
    class Fixed(BaseOperator):
        @property
        def operator_extra_links(self) -> Any:
            return ()

    one = Fixed(task_id="t")
    add_link(one)
    assert one.operator_extra_links == ()
