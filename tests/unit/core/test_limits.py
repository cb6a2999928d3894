# SPDX-License-Identifier: Apache-2.0
"""Limits: what they refuse, and when a read has read enough."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shardbatch.core.limits import Budget, ReadLimits
from shardbatch.errors import ConfigurationError


@pytest.mark.parametrize(
    "wrong",
    [
        {"duration": timedelta(0)},
        {"run_duration": timedelta(0)},
        {"run_duration": 60},
        {"records": 0},
        {"bytes": -1},
        {"concurrency": 0},
        {"concurrency": 65},
    ],
)
def test_limits_that_read_nothing_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="ReadLimits"):
        ReadLimits(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arrival", "at_tip", "enough"),
    [
        (50, False, False),
        (None, True, True),
        (50, True, True),
        (None, False, False),
        (101, False, True),  # past the instant at which the run began
        (100, False, False),
    ],
)
def test_enough_is_the_tip_or_a_record_of_after_the_start(arrival: int | None, at_tip: bool, enough: bool) -> None:
    assert Budget(ReadLimits(), tip_ms=100, deadline=1.0).reached(arrival, at_tip=at_tip) is enough


def test_whichever_limit_comes_first_counts() -> None:
    budget = Budget(ReadLimits(records=10, bytes=100), tip_ms=0, deadline=5.0)
    assert budget.spent(4.9) is None
    assert budget.spent(5.0) == "duration"
    budget.bytes = 100
    assert budget.spent(4.9) == "bytes"
    budget.records = 10
    assert budget.spent(4.9) == "records"


@pytest.mark.parametrize(
    ("run_minutes", "late_minutes", "left"),
    [
        (None, 600, 600),
        (30, 0, 600),
        (30, 20, 600),
        (30, 25, 300),  # a late start, or a retry, has what the run has left
        (30, 31, 0),
        (5, 0, 300),
        (30, -60, 600),  # another machine's clock: never more than the task's own time
    ],
)
def test_a_task_reads_for_its_duration_or_what_is_left_of_its_run(
    run_minutes: int | None, late_minutes: int, left: float
) -> None:
    run = None if run_minutes is None else timedelta(minutes=run_minutes)
    limits = ReadLimits(duration=timedelta(minutes=10), run_duration=run)
    assert limits.seconds_left(1_000, 1_000 + late_minutes * 60_000) == left
