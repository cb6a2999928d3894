# SPDX-License-Identifier: Apache-2.0
"""What the operators of Spark share: the batch that they work on, and their end record."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from shardbatch.errors import ConfigurationError
from shardbatch.hooks.kinesis import KinesisStream
from shardbatch.hooks.leases import SQLLeases
from shardbatch.hooks.staging import Staging
from shardbatch.operators.batch_work import BatchWork
from shardbatch.operators.end_record import Bound
from shardbatch.operators.spark import SparkSubmitBatchOperator
from shardbatch.operators.spark_connect import SparkConnectBatchOperator

KINDS = pytest.mark.parametrize("kind", [SparkSubmitBatchOperator, SparkConnectBatchOperator])


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    """What stands for a group."""
    return {
        "task_id": "transform",
        "application": "job.py",
        "manifest_uri": "file:///staging/manifest.json",
        "manifest_digest": "sha256:00",
        "batch_id": "b1",
        "attempt": 2,
        "app_name": "etl",
        "stream": KinesisStream("orders", aws_conn_id=None),
        "leases": SQLLeases("leases_db"),
        "staging": Staging(str(tmp_path)),
    }


@KINDS
def test_what_names_the_batch_is_a_template(kind: type[BatchWork], given: dict[str, Any]) -> None:
    task = kind(**given)
    assert set(BatchWork.template_fields) <= set(task.template_fields)
    assert all(hasattr(task, name) for name in task.template_fields)


@KINDS
def test_an_error_at_parse_time_names_the_class_that_the_author_wrote(kind: type[BatchWork], given: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"{kind.__name__}\(heartbeat\)"):
        kind(**given, heartbeat=timedelta(0))
    with pytest.raises(ConfigurationError, match=rf"{kind.__name__} has neither batch nor app_name"):
        kind(**{**given, "app_name": None})


@KINDS
def test_an_empty_batch_is_skipped_and_an_end_record_names_the_token(kind: type[BatchWork], given: Any) -> None:
    task, context = kind(**given), cast("Any", {"ti": SimpleNamespace(map_index=3)})
    assert task.bound() is None
    task._order = replace(task._order_of(context), token="id-1")
    assert task._order.work == "transform[3]"
    assert task.bound() == Bound("b1", 2, "id-1", did_nothing=False, sure=True)
    assert task._post_execute_hook is not None
    task.batch_id = None
    with pytest.raises(AirflowSkipException):
        task.execute(context)
