# SPDX-License-Identifier: Apache-2.0
"""What a read waited: sums, when it is worth telling, and how it is told."""

from __future__ import annotations

import pytest

from shardbatch.core.waiting import NO_WAITING, Waiting


def test_sums_and_differences_are_exact_to_the_millisecond() -> None:
    total = sum([Waiting(0.1, 1, 0)] * 3, NO_WAITING)
    assert total == Waiting(0.3, 3, 0)
    assert total.ms == 300
    assert total - Waiting(0.1, 1, 0) == Waiting(0.2, 2, 0)


@pytest.mark.parametrize(
    ("waiting", "told"),
    [
        (NO_WAITING, False),
        (Waiting(0.099), False),
        (Waiting(0.1), True),
        (Waiting(0, 1), True),
        (Waiting(0, 0, 1), True),
    ],
)
def test_a_short_pause_is_not_worth_telling(waiting: Waiting, told: bool) -> None:
    assert bool(waiting) is told


def test_it_survives_json_and_what_is_missing_is_zero() -> None:
    waiting = Waiting(1.5, 2, 3)
    assert Waiting.from_json(waiting.to_json()) == waiting
    assert Waiting.from_json({}) == NO_WAITING
    assert str(waiting) == "waited 1.5 s for the service's limits, 2 calls refused, 3 lasting answers renewed"
    assert str(Waiting(1.5)) == "waited 1.5 s for the service's limits"
    assert str(Waiting(0.01, 2)) == "2 calls refused"
