# SPDX-License-Identifier: Apache-2.0
"""SparkSubmitBatchOperator at parse time, and the parts of a run that need no Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, TaskGroup
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from shardbatch.core.policies import ClaimOptions, Policies
from shardbatch.errors import ConfigurationError, ConnectionUnknown, JobFailed, LeaseLost
from shardbatch.hooks.kinesis import KinesisStream
from shardbatch.hooks.leases import SQLLeases
from shardbatch.hooks.staging import Staging
from shardbatch.operators.end_record import Bound
from shardbatch.operators.spark import SparkSubmitBatchOperator
from shardbatch.task_group import StreamBatch


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    """What stands for a group."""
    return {
        "manifest_uri": "file:///staging/manifest.json",
        "manifest_digest": "sha256:00",
        "batch_id": "b1",
        "attempt": 2,
        "app_name": "etl",
        "stream": KinesisStream("orders", aws_conn_id=None),
        "leases": SQLLeases("leases_db"),
        "staging": Staging(str(tmp_path)),
    }


def operator(**arguments: Any) -> SparkSubmitBatchOperator:
    return SparkSubmitBatchOperator(**{"task_id": "transform", "application": "job.py", **arguments})


def context() -> Any:
    run = SimpleNamespace(dag_id="dag", run_id="run1", run_type="manual", conf={})
    return {"ti": SimpleNamespace(map_index=-1), "dag_run": run, "params": {}}


def test_in_a_group_it_comes_after_freeze_and_before_commit(given: dict[str, Any]) -> None:
    with (
        DAG("dag", schedule=None),
        StreamBatch("orders", **{name: given[name] for name in ("app_name", "stream", "leases", "staging")}) as batch,
    ):
        task = SparkSubmitBatchOperator(task_id="transform", application="job.py", batch=batch)
    assert task.task_id == "orders.transform"
    assert "orders.freeze" in task.upstream_task_ids
    assert "orders.commit" in task.downstream_task_ids


def test_every_field_of_the_stock_operator_stays_a_template(given: dict[str, Any]) -> None:
    assert set(SparkSubmitOperator.template_fields) < set(operator(**given).template_fields)


def test_without_a_group_every_missing_value_is_named() -> None:
    with pytest.raises(ConfigurationError, match="'transform'") as caught:
        operator(batch_id="b1")
    for name in ("app_name", "attempt", "manifest_digest", "manifest_uri", "stream"):
        assert name in str(caught.value)


def test_a_heartbeat_of_zero_is_refused_at_parse_time(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="heartbeat"):
        operator(**given, heartbeat=timedelta(0))


def test_a_heartbeat_that_is_slower_than_the_grace_is_refused_with_dag_and_task(given: dict[str, Any]) -> None:
    of_group = {name: given[name] for name in ("app_name", "stream", "leases", "staging")}
    claim = ClaimOptions(attempt_grace=timedelta(seconds=15))
    with (
        pytest.raises(ConfigurationError, match=r"DAG 'dag', task 'orders.transform': .* attempt_grace"),
        DAG("dag", schedule=None),
        StreamBatch("orders", claim=claim, **of_group) as batch,
    ):
        SparkSubmitBatchOperator(task_id="transform", application="job.py", batch=batch)


def test_outside_of_its_group_it_is_refused_at_parse_time(given: dict[str, Any]) -> None:
    with DAG("dag", schedule=None):
        with StreamBatch(
            "orders",
            policies=Policies(sink="own"),
            **{name: given[name] for name in ("app_name", "stream", "leases", "staging")},
        ) as batch:
            with TaskGroup("inner"):
                SparkSubmitBatchOperator(task_id="transform", application="job.py", batch=batch)
            mapped = SparkSubmitBatchOperator.partial(task_id="each", batch=batch).expand(application=["a", "b"])
        assert mapped.unmap({"application": "a"}).batch_id == batch.batch_id
        with pytest.raises(ConfigurationError, match=r"task 'late'.*'orders'.*outside"):
            SparkSubmitBatchOperator(task_id="late", application="job.py", batch=batch)


def test_an_empty_batch_is_skipped(given: dict[str, Any]) -> None:
    task = operator(**given)
    task.batch_id = None
    with pytest.raises(AirflowSkipException):
        task.execute(context())


def test_a_missing_spark_connection_fails_the_try_before_anything_is_started(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_NONE", raising=False)
    with pytest.raises(ConnectionUnknown, match="no Spark connection 'spark_none'"):  # it may be back for a retry
        operator(**given, conn_id="spark_none").execute(context())


def test_only_what_the_stock_operator_says_of_a_failed_application_becomes_an_error_of_ours(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    task, attempt = operator(**given), cast("Any", SimpleNamespace(batch_id="b1", attempt=2))
    failed = AirflowException("Cannot execute: spark-submit. Error code is: 1.")
    assert task._told(failed, attempt) is None  # nothing was submitted
    task._hook = task._get_hook()
    assert task._told(failed, attempt) is None
    task._hook._submit_sp = SimpleNamespace(poll=lambda: 1, pid=7)
    assert isinstance(task._told(failed, attempt), JobFailed)
    assert isinstance(task._told(RuntimeError("Driver d exited with status FAILED"), attempt), JobFailed)
    for other in (AirflowFailException(""), AirflowSkipException(""), LeaseLost(), ValueError(), KeyboardInterrupt()):
        assert task._told(other, attempt) is None


def test_only_a_retry_of_the_same_attempt_finds_its_application_again(given: dict[str, Any]) -> None:
    keys = []
    for attempt in (2, 2, 3):
        task = operator(**{**given, "attempt": attempt})
        task._bind_reconnection(task._handover_of(context()))
        keys.append((task.external_id_key, task._K8S_DRIVER_STATUS_KEY))
    assert keys[0] == keys[1]
    assert not set(keys[0]) & set(keys[2])


def test_each_mapped_task_works_under_a_name_of_its_own(given: dict[str, Any]) -> None:
    task = operator(**given)
    mapped = cast("Any", {**context(), "ti": SimpleNamespace(map_index=3)})
    assert task._handover_of(context()).work == "transform"
    assert task._handover_of(mapped).work == "transform[3]"


def test_a_try_hands_on_the_token_of_the_submission_that_it_goes_on_with_and_else_its_own(
    given: dict[str, Any],
) -> None:
    memory: dict[str, Any] = {}
    store = SimpleNamespace(get=memory.get, set=memory.__setitem__)

    def token(try_id: str, goes_on: str | None = None, external: str | None = None) -> str:
        task = operator(**given)
        task._bind_reconnection(task._handover_of(context()))
        memory[task.external_id_key] = external
        task._goes_on = goes_on
        return task._token({**context(), "ti": SimpleNamespace(id=try_id), "task_state_store": store})

    assert token("id-1") == "id-1"
    assert token("id-2") == "id-2"  # nothing is known of what the try before may have submitted
    assert token("id-3", goes_on="standalone:driver-1") == "id-2"  # the batch row knows it
    assert token("id-4", external="driver-1") == "id-2"
    memory.clear()
    assert token("id-5", goes_on="standalone:driver-1") == ""  # of an earlier version: it was told none
    assert operator(**given)._token({**context(), "ti": SimpleNamespace(id="id-6")}) == "id-6"


def test_an_end_record_needs_to_know_what_the_application_was_told(given: dict[str, Any]) -> None:
    task = operator(**given)
    assert task.bound() is None
    task._handover = replace(task._handover_of(context()), token="id-1")
    assert task.bound() == Bound("b1", 2, "id-1", did_nothing=False, sure=True)
    task._handover = replace(task._handover, token="")
    assert task.bound() == Bound("b1", 2, "", did_nothing=False, sure=False)
    task._did_nothing = True
    assert cast("Bound", task.bound()).did_nothing


def test_outside_of_a_group_it_leaves_its_end_record_by_itself(given: dict[str, Any]) -> None:
    assert operator(**given)._post_execute_hook is not None
    mapped = SparkSubmitBatchOperator.partial(task_id="each", **given).expand(application=["a", "b"])
    assert mapped.unmap({"application": "a"})._post_execute_hook is not None


def test_killing_a_task_that_has_not_begun_does_nothing(given: dict[str, Any]) -> None:
    operator(**given).on_kill()
