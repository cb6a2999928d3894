# SPDX-License-Identifier: Apache-2.0
"""Limits: what they refuse, and when a read has read enough."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shardbatch.core.limits import Budget, ReadLimits
from shardbatch.core.stop import Stop
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
    ("records", "arrival", "lag", "enough"),
    [
        (3, 50, 0, False),  # R33: records beside a lag of zero are no proof
        (0, None, 0, True),
        (0, None, 1, False),  # R37: a lag is a count or a flag somewhere; only zero means anything
        (0, None, 10, False),
        (0, None, None, False),
        (3, 101, 7000, True),  # past the instant at which the run began
        (3, 100, 7000, False),
    ],
)
def test_the_tip_is_an_empty_page_without_lag_or_a_record_of_after_the_start(
    records: int, arrival: int | None, lag: int | None, enough: bool
) -> None:
    assert Budget(ReadLimits(), tip_ms=100, deadline=1.0).at_tip(records, arrival, lag) is enough


def test_whichever_limit_comes_first_counts() -> None:
    budget = Budget(ReadLimits(records=10, bytes=100), tip_ms=0, deadline=5.0)
    assert budget.full is None
    budget.bytes = 100
    assert budget.full is Stop.BYTES
    budget.records = 10
    assert budget.full is Stop.RECORDS
    assert Budget(ReadLimits(), tip_ms=0, deadline=5.0, records=10**9, bytes=10**12).full is None


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
