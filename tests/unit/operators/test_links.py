# SPDX-License-Identifier: Apache-2.0
"""The link of every task of a group to the run that owns its batch."""

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
from shardbatch.operators.links import BatchLink, add_link, lead_to_owner

GIVEN: dict[str, Any] = {
    "app_name": "etl",
    "stream": KinesisStream("orders"),
    "leases": SQLLeases("leases_db"),
    "staging": Staging("/staging"),
}
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
    ti = SimpleNamespace(id="1", task=each, task_id="batch.each", map_index=0, xcom_pull=lambda **_: None)
    each._pre_execute_hook({"ti": ti})
    assert [type(link) for link in each.operator_extra_links] == [BatchLink]
    each._pre_execute_hook({"ti": ti})
    assert len(each.operator_extra_links) == 1


def test_it_leads_to_the_tasks_own_run_with_what_an_address_would_take_for_something_else_quoted() -> None:
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
def test_after_a_batch_was_lost_it_leads_to_the_run_that_has_it_if_that_is_of_this_airflow(
    owner: str, run: str
) -> None:
    one = BaseOperator(task_id="t")
    error = LeaseLost("It went to another.")
    error.owner = owner
    lead_to_owner(one, error, "here")
    assert BatchLink().get_link(one, ti_key=TI).startswith(run)


def test_a_class_that_says_its_links_itself_keeps_them() -> None:
    class Fixed(BaseOperator):
        @property
        def operator_extra_links(self) -> Any:
            return ()

    one = Fixed(task_id="t")
    add_link(one)
    assert one.operator_extra_links == ()
