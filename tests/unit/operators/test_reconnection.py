# SPDX-License-Identifier: Apache-2.0
"""A stock operator in a block goes on with a job of its own attempt, and with no other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.amazon.aws.operators.glue import GlueJobOperator
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, BaseOperator, ResumableJobMixin

from shardbatch import KinesisStream, SQLLeases, Staging, StreamBatch
from shardbatch.operators.end_record import BOUND
from shardbatch.operators.reconnection import bind_reconnection


class Memory(dict[str, Any]):
    """A task's state store: it outlives tries and clearings."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value


class Job(ResumableJobMixin, BaseOperator):
    """Submits jobs, each with an id of its own; all of them end in one state."""

    template_fields = ("manifest_uri",)
    external_id_key = "job"

    def __init__(self, *, manifest_uri: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.manifest_uri = manifest_uri
        self.state = "SUCCEEDED"
        self.jobs: list[str] = []

    def execute(self, context: Any) -> Any:
        return self.execute_resumable(context)

    def submit_job(self, context: Any) -> str:
        self.jobs.append(f"job-{len(self.jobs)}")
        return self.jobs[-1]

    def get_job_status(self, external_id: Any, context: Any) -> str:
        return self.state

    def is_job_active(self, status: str) -> bool:
        return status == "RUNNING"

    def is_job_succeeded(self, status: str) -> bool:
        return status == "SUCCEEDED"

    def poll_until_complete(self, external_id: Any, context: Any) -> None: ...

    def get_job_result(self, external_id: Any, context: Any) -> Any:
        return external_id


class Pod(BaseOperator):
    """Finds its pod by labels, as the operators of Kubernetes do."""

    template_fields = ("manifest_uri",)

    def __init__(self, *, manifest_uri: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.manifest_uri = manifest_uri
        self.durable = self.reattach_on_restart = True


def in_block(kind: Any) -> Any:
    with (
        DAG("d", schedule=None) as made,
        StreamBatch(
            "orders",
            app_name="etl",
            stream=KinesisStream("orders"),
            leases=SQLLeases("leases"),
            staging=Staging("/staging"),
        ) as batch,
    ):
        kind(task_id="work", manifest_uri=batch.manifest_uri)
    return made.get_task("orders.work")


def begin(task: Any, memory: Memory, token: str, attempt: int, batch_id: str = "b1") -> Any:
    """Begins a try of a task: Airflow makes an operator anew for it."""
    told = {"batch_id": batch_id, "attempt": attempt}
    ti = SimpleNamespace(id=token, task=task, stats_tags={}, xcom_pull=lambda task_ids, key: told[key])
    context = {"ti": ti, "task_state_store": memory}
    task._pre_execute_hook(context)
    return context


@pytest.mark.parametrize("state", ["SUCCEEDED", "RUNNING"])
def test_a_job_of_an_older_attempt_is_not_taken_up_again(state: str) -> None:
    memory, submitted = Memory(), []
    for token, attempt in (("id-1", 1), ("id-2", 1), ("id-3", 2), ("id-4", 2), ("id-5", 3)):
        task = in_block(Job)
        task.state = state
        task.execute(begin(task, memory, token, attempt))
        submitted.append(len(task.jobs))
    assert submitted == [1, 0, 1, 0, 1]  # a retry of an attempt goes on with its job


def test_nor_is_one_of_another_batch_with_the_same_attempt() -> None:
    memory = Memory()
    for token, batch_id in (("id-1", "b1"), ("id-2", "b2")):
        task = in_block(Job)
        task.execute(begin(task, memory, token, 1, batch_id))
        assert len(task.jobs) == 1


def test_an_operator_that_finds_its_job_by_labels_looks_for_none_once_the_attempt_has_changed() -> None:
    memory, looks = Memory(), []
    for token, attempt in (("id-1", 1), ("id-2", 1), ("id-3", 2), ("id-4", 2)):
        task = in_block(Pod)
        begin(task, memory, token, attempt)
        looks.append((task.durable, task.reattach_on_restart))
    # What the last try finds may be of either attempt.
    assert looks == [(True, True), (True, True), (False, False), (False, False)]


def test_a_try_whose_note_an_earlier_version_left_counts_as_before() -> None:
    memory = Memory({BOUND: {"id": "id-1", "batch_id": "b1", "attempt": 1}})
    task = in_block(Pod)
    begin(task, memory, "id-1", 1)
    assert task.durable
    begin(task, memory, "id-2", 2)
    assert not task.durable


def test_stock_operators_have_what_is_bound() -> None:
    glue = GlueJobOperator(task_id="glue", job_name="orders")
    deferred = GlueJobOperator(task_id="deferred", job_name="orders", deferrable=True)
    spark = SparkSubmitOperator(task_id="spark", application="job.py")
    for task in (glue, deferred, spark):
        bind_reconnection(task, "b1", 2, moved=True)
        assert task.external_id_key == f"{type(task).external_id_key}.b1.2"
    assert f"{SparkSubmitOperator._K8S_DRIVER_STATUS_KEY}.b1.2" == spark._K8S_DRIVER_STATUS_KEY
    # Only in the triggerer Glue looks through the runs of its job instead of its state store.
    assert [task.durable for task in (glue, deferred, spark)] == [True, False, True]
