# SPDX-License-Identifier: Apache-2.0
"""Airflow's pages say of each of our tasks what it does, and what to press when it is red."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator
from airflow.serialization.serialized_objects import DagSerialization

import shardbatch
from shardbatch import (
    CommitOperator,
    KinesisStream,
    ParkBatchOperator,
    Policies,
    ReadOperator,
    ReportOperator,
    SparkSubmitBatchOperator,
    SQLLeases,
    Staging,
    StreamBatch,
)
from shardbatch.operators.explained import Explained
from shardbatch.task_group import OURS

WHERE: dict[str, Any] = {
    "app_name": "etl",
    "stream": KinesisStream("orders"),
    "leases": SQLLeases("leases_db"),
    "staging": Staging("/staging"),
}
OPERATORS = [
    getattr(shardbatch, name)
    for name in shardbatch.__all__
    if inspect.isclass(getattr(shardbatch, name)) and issubclass(getattr(shardbatch, name), BaseOperator)
]


def group(task_args: dict[str, Any] | None = None, **default_args: Any) -> DAG:
    with (
        DAG("d", schedule=None, default_args=default_args) as dag,
        StreamBatch("batch", **WHERE, policies=Policies(sink="own"), task_args=task_args),
    ):
        pass
    return dag


def docs_of(dag: DAG) -> dict[str, str | None]:
    """What the pages show of each task: the API server knows a DAG as it was serialized."""
    read = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    return {task.task_id.removeprefix("batch."): task.doc_md for task in read.tasks}


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.__name__)
def test_every_operator_says_what_it_does_and_what_to_press(operator: type[Explained]) -> None:
    text = operator.explanation()
    does, _, red = text.partition("\n\n**If it is red:** ")
    assert len(does) > 20
    assert does.endswith(".")
    assert ":class:" not in does
    assert "clear" in red
    assert len(text) < 800  # it stands above the log of a task


def test_every_task_of_a_group_has_it_also_the_mapped_one() -> None:
    found = docs_of(group())
    assert set(found) == set(OURS)
    for name, doc in found.items():
        assert doc is not None, name
        assert "**If it is red:**" in doc
    assert str(found["read"]).startswith("Reads the shards of one of claim's groups")
    assert str(found["commit"]).startswith("Commits the batch that freeze opened")


def test_what_the_author_says_stands_in_its_place() -> None:
    own = {name: {"doc_md": f"of {name}"} for name in OURS}
    assert docs_of(group(own)) == {name: f"of {name}" for name in OURS}
    assert set(docs_of(group(doc_md="of all")).values()) == {"of all"}


def test_tasks_wired_by_hand_have_it_too() -> None:
    with DAG("d", schedule=None) as dag:
        CommitOperator(task_id="commit", freeze_task="freeze", **WHERE)
        ReadOperator.partial(task_id="read", **WHERE).expand(entry=[{"group": "g", "label": "l"}])
        ReadOperator.partial(task_id="own", doc_md="mine", **WHERE).expand(entry=[{"group": "g", "label": "l"}])
        ReportOperator(task_id="report", problems=[])
        ParkBatchOperator(
            task_id="park",
            app_name="etl",
            stream=KinesisStream("orders"),
            leases=SQLLeases("l"),
            reason="r",
            batch_id="b",
        )
        SparkSubmitBatchOperator(
            task_id="work",
            application="job.py",
            manifest_uri="m",
            manifest_digest="d",
            batch_id="b",
            attempt=1,
            **WHERE,
        )
    found = docs_of(dag)
    assert found.pop("own") == "mine"
    assert str(found["read"]) == ReadOperator.explanation()
    assert all("**If it is red:**" in str(doc) for doc in found.values())
