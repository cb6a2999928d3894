# SPDX-License-Identifier: Apache-2.0
"""A read ends before Airflow ends it, so that what it has is landed; a limit that leaves nothing is refused."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Context

from shardbatch import KinesisStream, SQLLeases, Staging, StreamBatch
from shardbatch.core.limits import time_to_read
from shardbatch.errors import ConfigurationError
from shardbatch.operators.read import ReadOperator


def made(dag: dict[str, Any] | None = None, **changes: Any) -> ReadOperator:
    """The read task of a DAG with one group."""
    with (
        DAG("d", schedule=None, **(dag or {})) as found,
        StreamBatch(
            "orders",
            app_name="etl",
            stream=KinesisStream("orders"),
            leases=SQLLeases("leases"),
            staging=Staging("/staging"),
            **changes,
        ),
    ):
        EmptyOperator(task_id="work")
    read: ReadOperator = found.get_task("orders.read").unmap({"entry": {"group": "000", "label": "x"}})
    return read


def seconds(read: ReadOperator, began_ago: float | None = 0) -> float:
    began = None if began_ago is None else datetime.now(UTC) - timedelta(seconds=began_ago)
    context: Any = {"dag_run": SimpleNamespace(start_date=began)}
    return read._seconds(Context(**context))


@pytest.mark.parametrize(("limit", "left"), [(20, -10), (30, 0), (60, 30), (300, 270), (600, 540), (3600, 3240)])
def test_a_tenth_and_at_least_half_a_minute_is_kept_to_land(limit: int, left: int) -> None:
    assert time_to_read(timedelta(seconds=limit)) == timedelta(seconds=left)


@pytest.mark.parametrize(
    "where",
    [
        lambda limit: {"task_args": {"read": {"execution_timeout": limit}}},
        lambda limit: {"default_args": {"execution_timeout": limit}},
        lambda limit: {"dag": {"default_args": {"execution_timeout": limit}}},
    ],
)
def test_an_execution_timeout_ends_the_read_in_time_wherever_it_is_given(where: Any) -> None:
    assert seconds(made(**where(timedelta(minutes=5)))) == 270
    with pytest.raises(ConfigurationError, match=r"'d', StreamBatch 'orders'.*execution_timeout.*0:00:25.*0:10:00"):
        made(**where(timedelta(seconds=25)))


def test_without_such_limits_a_read_goes_by_its_own() -> None:
    assert seconds(made()) == math.inf
    limitless = made(
        {"default_args": {"execution_timeout": timedelta(1)}}, task_args={"read": {"execution_timeout": None}}
    )
    assert seconds(limitless) == math.inf


def test_a_read_ends_before_its_runs_time_does() -> None:
    read = made({"dagrun_timeout": timedelta(minutes=20)})
    assert seconds(read) == pytest.approx(18 * 60, abs=1)
    assert seconds(read, 15 * 60) == pytest.approx(3 * 60, abs=1)  # late, or a retry
    assert seconds(read, 30 * 60) < 0
    assert seconds(read, None) == math.inf
    both = made(
        {"dagrun_timeout": timedelta(minutes=20)}, task_args={"read": {"execution_timeout": timedelta(minutes=5)}}
    )
    assert seconds(both) == 270


def test_a_run_that_has_no_time_to_read_is_refused_and_a_short_one_is_not() -> None:
    with pytest.raises(ConfigurationError, match="dagrun_timeout is 0:00:30, of which 0:00:30 is kept"):
        made({"dagrun_timeout": timedelta(seconds=30)})
    short = made({"dagrun_timeout": timedelta(minutes=5)})  # shorter than ReadLimits(duration), which most never need
    assert seconds(short) == pytest.approx(270, abs=1)
