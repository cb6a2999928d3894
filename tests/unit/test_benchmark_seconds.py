# SPDX-License-Identifier: Apache-2.0
"""What the benchmark of a run's seconds makes of the task instances that Airflow shows."""

from __future__ import annotations

from datetime import datetime

import pytest

from benchmarks.seconds import seconds_of
from tests.unit.test_benchmark_times import RUN, instance

TRIGGERED = datetime.fromisoformat("2026-01-01T00:00:00Z").timestamp() - 3


def test_a_run_counts_from_its_trigger_to_its_commit() -> None:
    found = seconds_of(RUN, TRIGGERED)
    assert found.run == 25
    assert found.steps == {"claim": 2, "read": 6, "freeze": 1, "work": 7, "commit": 2}
    assert found.between == 7


def test_a_run_without_work_is_not_counted() -> None:
    with pytest.raises(RuntimeError, match="no work"):
        seconds_of([one for one in RUN if one["task_id"] != "batch.work"], TRIGGERED)


def test_a_run_that_tried_its_work_twice_is_not_counted() -> None:
    twice = [instance("batch.work", 12, 19, try_number=2), *(one for one in RUN if one["task_id"] != "batch.work")]
    with pytest.raises(RuntimeError, match="tried 2 times"):
        seconds_of(twice, TRIGGERED)
