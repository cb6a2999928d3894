# SPDX-License-Identifier: Apache-2.0
"""What the overhead benchmark makes of the task instances that Airflow shows."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.overhead import times_of


def instance(task_id: str, start: int, end: int, **changes: Any) -> dict[str, Any]:
    shown = {"task_id": task_id, "state": "success", "try_number": 1}
    return {
        **shown,
        "start_date": f"2026-01-01T00:00:{start:02}Z",
        "end_date": f"2026-01-01T00:00:{end:02}Z",
        **changes,
    }


RUN = [
    instance("batch.commit", 20, 22),
    instance("batch.claim", 0, 2),
    instance("batch.read", 3, 6),
    instance("batch.read", 5, 9),
    instance("batch.freeze", 10, 11),
    instance("batch.work", 12, 19),
    instance("batch.report", 23, 24),
]


def test_overhead_is_all_but_the_work_and_read_tasks_count_once() -> None:
    times = times_of(RUN)
    assert times.total == 24
    assert times.overhead == 17
    assert list(times.tasks.items()) == [
        ("batch.claim", 2),
        ("batch.read", 6),
        ("batch.freeze", 1),
        ("batch.work", 7),
        ("batch.commit", 2),
        ("batch.report", 1),
    ]
    assert times.between == 5


def test_a_run_with_a_retried_task_measures_nothing() -> None:
    with pytest.raises(RuntimeError, match=r"batch\.claim was tried 2 times"):
        times_of([instance("batch.claim", 0, 2, try_number=2)])


def test_a_run_with_a_skipped_task_measures_nothing() -> None:
    with pytest.raises(RuntimeError, match=r"batch\.work is skipped"):
        times_of([instance("batch.work", 2, 2, state="skipped", start_date=None)])
