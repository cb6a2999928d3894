# SPDX-License-Identifier: Apache-2.0
"""What a person has a shard pass over: when records may be left out, and what another reset leaves of that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardbatch.core.position import SHARD_END, TRIM_HORIZON, Position, after, at_timestamp
from shardbatch.core.skipped import left_of, passed, passes_over
from shardbatch.core.slice import Gap


@pytest.mark.parametrize(
    ("place", "arrival", "target", "expected"),
    [
        (after("5"), 100, after("9"), True),
        (after("5"), 100, after("5", 1), True),
        (after("5"), 100, after("5"), False),
        (after("5"), 100, after("3"), False),
        (after("5"), 100, at_timestamp(101), True),
        (after("5"), 100, at_timestamp(100), False),
        (after("5"), None, at_timestamp(1), True),
        (after("5"), None, TRIM_HORIZON, False),
        (TRIM_HORIZON, None, after("1"), True),
        (TRIM_HORIZON, None, at_timestamp(1), True),
        (TRIM_HORIZON, None, TRIM_HORIZON, False),
        (at_timestamp(50), None, at_timestamp(51), True),
        (at_timestamp(50), None, at_timestamp(50), False),
        (after("5", 0, 50), None, at_timestamp(51), True),
        (after("5", 0, 50), None, at_timestamp(50), False),
        (after("5"), 100, after("5", 0, 101), True),
        (after("5"), 100, after("5", 0, 100), False),
        (after("5"), None, after("5", 0, 1), True),
        (after("5"), 100, after("3", 0, 101), True),
        (after("5", 0, 50), None, after("5", 0, 51), True),
        (after("5", 0, 50), None, after("5", 0, 50), False),
        (after("5", 0, 50), None, after("5"), False),
        (SHARD_END, 100, at_timestamp(1000), False),
    ],
)
def test_whether_records_may_be_passed_over(
    place: Position, arrival: int | None, target: Position, expected: bool
) -> None:
    assert passes_over(place, arrival, target) is expected


def test_a_search_ends_what_it_passes_over_at_its_instant() -> None:
    assert passed(after("5"), 100, after("5", 0, 900), "ann").to_ms == 900


def test_what_is_left_of_it_after_another_reset() -> None:
    gap = passed(after("5"), 100, after("9"), "ann")
    assert gap == Gap(after("5"), None, 100, None, gap.reason, "ann", after("9"))
    assert left_of([gap], after("12")) == (gap,)
    assert left_of([gap], after("7")) == (replace(gap, until=after("7")),)
    assert left_of([gap], after("5")) == left_of([gap], TRIM_HORIZON) == left_of([gap], at_timestamp(100)) == ()
    assert left_of([gap], at_timestamp(101)) == (gap,)
    span = passed(at_timestamp(10), None, at_timestamp(90), "ann")
    assert left_of([span], at_timestamp(50)) == (replace(span, until=at_timestamp(50), to_ms=50),)
