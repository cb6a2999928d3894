# SPDX-License-Identifier: Apache-2.0
"""Which hours are complete: by the watermark, where the promise begins, and what is known to be lost."""

from __future__ import annotations

from shardbatch.control.completeness import HOUR_MS, hours

#: Half past an hour.
NOW = 500 * HOUR_MS + HOUR_MS // 2


def states(watermark_ms: int | None, complete_from_ms: int | None = None, *gaps: tuple[int | None, int | None]) -> str:
    """The first letters of the states of the last five hours."""
    return "".join(hour.state[0] for hour in hours(NOW, 5, watermark_ms, complete_from_ms, gaps))


def test_an_hour_is_complete_once_the_watermark_has_passed_all_of_it() -> None:
    assert states(499 * HOUR_MS) == "cccoo"
    assert states(499 * HOUR_MS - 1) == "ccooo"
    assert states(NOW) == "cccco"
    assert states(None) == "ooooo"


def test_what_lies_before_the_promise_is_not_promised() -> None:
    assert states(499 * HOUR_MS, 497 * HOUR_MS) == "bccoo"
    assert states(499 * HOUR_MS, 497 * HOUR_MS + 1) == "bccoo"


def test_a_gap_shows_in_every_hour_that_it_meets() -> None:
    assert states(499 * HOUR_MS, None, (497 * HOUR_MS - 1, 497 * HOUR_MS)) == "ggcoo"
    assert states(499 * HOUR_MS, None, (None, 498 * HOUR_MS)) == "ccgoo"
    assert states(499 * HOUR_MS, None, (None, None)) == "cccoo"


def test_the_hours_end_with_the_one_that_now_is() -> None:
    found = hours(NOW, 3, None, None)
    assert [hour.from_ms for hour in found] == [498 * HOUR_MS, 499 * HOUR_MS, 500 * HOUR_MS]
