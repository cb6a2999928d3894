# SPDX-License-Identifier: Apache-2.0
"""Old names of arguments and settings mean the same, a warning says the new one, and Airflow sees the same DAG."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.exceptions import AirflowProviderDeprecationWarning
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from shardbatch import (
    ClaimOperator,
    CommitOperator,
    DynamoDBLeases,
    FreezeOperator,
    KinesisStream,
    Policies,
    SQLLeases,
    Staging,
    StreamBatch,
    record_end,
)
from shardbatch.errors import ConfigurationError
from shardbatch.hooks.settings import leases_of, staging_of


def old(made: Callable[[], Any], says: str) -> Any:
    """What comes of an old name; it warns once, in the name of whoever wrote it."""
    with pytest.warns(AirflowProviderDeprecationWarning, match=says) as told:
        found = made()
    assert len(told) == 1
    return found


def test_the_connection_of_staging() -> None:
    with pytest.warns(AirflowProviderDeprecationWarning, match=r"^Staging: conn_id= .* use aws_conn_id=\.$") as told:
        found = Staging("s3://lake/staging", conn_id="lake")  # type: ignore[call-arg]
    assert [warning.filename for warning in told] == [__file__]
    new = Staging("s3://lake/staging", aws_conn_id="lake")
    assert found == new == Staging("s3://lake/staging", "lake")
    assert (repr(found), hash(found)) == (repr(new), hash(new))
    assert found.rendered(str) == new
    assert old(lambda: new.conn_id, r"^Staging\.conn_id .* use aws_conn_id\.$") == "lake"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("s3://lake/staging?{}=lake&region=eu-west-1", Staging("s3://lake/staging", "lake", "eu-west-1")),
        ("s3://lake/staging?region=eu-west-1&{}=lake", Staging("s3://lake/staging", "lake", "eu-west-1")),
        ("dynamodb://shard_leases?{}=lake", DynamoDBLeases("shard_leases", "lake")),
    ],
)
def test_the_connection_in_a_setting(text: str, meant: object) -> None:
    read: Callable[[str, str], object] = staging_of if text.startswith("s3") else leases_of
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(text.format("aws_conn_id"), "--where") == meant
    assert old(lambda: read(text.format("conn_id"), "--where"), r"^--where: conn_id= .* use aws_conn_id=") == meant


def made(**given: Any) -> Any:
    """A DAG with a group."""
    with (
        DAG("orders", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag,
        StreamBatch(
            "batch", app_name="etl", stream=KinesisStream("orders"), leases=SQLLeases("leases_db"), **given
        ) as group,
    ):
        pass
    assert group.spec.policies.sink == "own"
    return DagSerialization.to_dict(dag)


def test_the_policies_of_a_group() -> None:
    own, staging = Policies(sink="own"), Staging("s3://lake/staging", "lake")
    new = made(policies=own, staging=staging)
    assert old(lambda: made(policy=own, staging=staging), r"^StreamBatch: policy= .* use policies=\.$") == new
    before = old(lambda: Staging("s3://lake/staging", conn_id="lake"), "use aws_conn_id")  # type: ignore[call-arg]
    assert made(policies=own, staging=before) == new


APPLICATION: dict[str, Any] = {
    "app_name": "etl",
    "stream": KinesisStream("orders"),
    "leases": SQLLeases("leases_db"),
    "staging": Staging("/staging"),
}


@pytest.mark.parametrize(
    ("kind", "before", "now"),
    [
        (ClaimOperator, "freeze", "freeze_task"),
        (FreezeOperator, "commit", "commit_task"),
        (CommitOperator, "freeze", "freeze_task"),
    ],
)
def test_the_task_that_an_operator_names(kind: Any, before: str, now: str) -> None:
    with pytest.warns(AirflowProviderDeprecationWarning, match=f"^{kind.__name__}: {before}= .* use {now}=") as told:
        task = kind(task_id="t", **{before: "other"}, **APPLICATION)
    assert [warning.filename for warning in told] == [__file__]
    assert getattr(task, now) == getattr(kind(task_id="t", **{now: "other"}, **APPLICATION), now) == "other"


def test_the_freeze_task_of_an_end_record() -> None:
    task = EmptyOperator(task_id="work")
    old(lambda: record_end(task, freeze="freeze", **APPLICATION), "^record_end: freeze= .* use freeze_task=")  # type: ignore[call-arg]
    assert task.leaves_end_record  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Staging("s3://lake/staging", aws_conn_id="lake", conn_id="lake"),  # type: ignore[call-arg]
        lambda: staging_of("s3://lake/staging?conn_id=a&aws_conn_id=b", "--staging"),
        lambda: made(policy=Policies(), policies=Policies()),
    ],
)
def test_both_names_at_once_are_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError, match=r"which are the same\. Give (aws_conn_id|policies) only\."):
        wrong()


@pytest.mark.parametrize(
    ("kind", "before", "now"),
    [
        (ClaimOperator, "freeze", "freeze_task"),
        (FreezeOperator, "commit", "commit_task"),
        (CommitOperator, "freeze", "freeze_task"),
    ],
)
def test_the_attribute_of_an_operator_is_set_and_read_by_its_old_name(kind: Any, before: str, now: str) -> None:
    task = kind(task_id="t", **{now: "other"}, **APPLICATION)
    says = rf"^{kind.__name__}\.{before} is deprecated; use {now}\.$"
    with pytest.warns(AirflowProviderDeprecationWarning, match=says) as told:
        setattr(task, before, "late")
    assert [warning.filename for warning in told] == [__file__]
    assert getattr(task, now) == "late"
    assert before not in vars(task)
    assert old(lambda: getattr(task, before), says) == "late"


def test_a_frozen_object_stays_frozen_under_the_old_name() -> None:
    with pytest.raises(FrozenInstanceError):
        Staging("/staging").conn_id = "x"  # type: ignore[misc]


def test_a_mapped_operator_takes_the_old_name() -> None:
    def mapped(**names: str) -> Any:
        with DAG("orders", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
            CommitOperator.partial(task_id="commit", **names, **APPLICATION).expand(work=[["a"], ["b"]])
        return DagSerialization.to_dict(dag)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        new = mapped(freeze_task="freeze")
    with pytest.warns(
        AirflowProviderDeprecationWarning, match="^CommitOperator: freeze= is deprecated; use freeze_task="
    ) as told:
        assert mapped(freeze="freeze") == new
    assert [warning.filename for warning in told] == [__file__]


def test_a_class_is_found_in_the_module_that_it_was_in() -> None:
    from shardbatch.hooks import streams

    assert old(lambda: streams.KinesisStream, r"use: from shardbatch import KinesisStream\.$") is KinesisStream  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="has no attribute 'Kinesis'"):
        streams.Kinesis  # type: ignore[attr-defined]  # noqa: B018
