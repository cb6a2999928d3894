# SPDX-License-Identifier: Apache-2.0
"""Spans of arrival times: next to each other they hold every instant once."""

from __future__ import annotations

import pytest

from shardbatch.core.interval import MARGIN_MS, Interval
from shardbatch.errors import ConfigurationError


def test_neighbours_share_no_instant_and_leave_none_out() -> None:
    neighbours = (Interval(0, 10), Interval(10, 11), Interval(11, 30))
    assert [sum(at in span for span in neighbours) for at in (-1, 0, 9, 10, 11, 29, 30)] == [0, 1, 1, 1, 1, 1, 0]


def test_arrivals_that_go_backwards_a_little_do_not_end_it() -> None:
    span = Interval(0, 10)
    assert not span.passed(10)
    assert not span.passed(10 + MARGIN_MS - 1)
    assert span.passed(10 + MARGIN_MS)


@pytest.mark.parametrize("until", [5, 4])
def test_an_empty_span_is_refused_with_the_remedy(until: int) -> None:
    with pytest.raises(ConfigurationError, match="CronDataIntervalTimetable"):
        Interval(5, until)
