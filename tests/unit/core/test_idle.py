# SPDX-License-Identifier: Apache-2.0
"""What empty answers in a row say of a place: how far it is read, and that it stands still."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardbatch.core.idle import BELIEVED, SILENT_SECONDS, STILL_SECONDS, Idle


def after(answers: int, lag: Callable[[int], int | None], records: Callable[[int], int] = lambda second: 0) -> Idle:
    """An answer a second, whose lag and records are those of its second."""
    idle = Idle(0.0)
    for second in range(answers):
        silent = lag(second) is None and not records(second)
        idle.add(records(second), lag(second), 1_000_000 + second * 1000, float(second), silent=silent)
    return idle


def test_a_place_is_believed_after_some_empty_answers_whose_lag_falls_no_more() -> None:
    assert after(BELIEVED - 1, lambda second: 40_000).read_up_to_ms is None
    assert after(BELIEVED, lambda second: 40_000).read_up_to_ms == 960_000  # the first of them, to be safe
    assert after(BELIEVED, lambda second: 40_000 + second * 1000).reached(960_000)
    assert after(100, lambda second: 40_000 - second).read_up_to_ms is None
    assert after(100, lambda second: 40_000, lambda second: second % BELIEVED == 0).read_up_to_ms is None


@pytest.mark.parametrize(
    ("lag", "still"),
    [
        (lambda second: 40_000, True),
        (lambda second: second * 1000, True),  # since its last record
        (lambda second: 86_400_000 - second * 60_000, False),  # a stretch that is being crossed
        (lambda second: 86_400_000 - second, False),  # a count, whatever it is of
    ],
)
def test_a_place_stands_still_that_comes_no_nearer_to_the_tip(lag: Callable[[int], int], still: bool) -> None:
    answers = int(STILL_SECONDS) + 3
    assert after(answers, lag).still is still
    assert not after(int(STILL_SECONDS) - 1, lag).still
    assert not after(answers, lag, lambda second: second == 60).still  # a record begins it anew


def test_a_shard_of_which_nothing_is_heard_is_given_up_in_time() -> None:
    assert not after(int(SILENT_SECONDS), lambda second: None).still
    assert after(int(SILENT_SECONDS) + 1, lambda second: None).still
    assert not after(int(SILENT_SECONDS) + 1, lambda second: 0 if second == 300 else None).still


@given(st.lists(st.integers(0, 90), max_size=40), st.integers(1, 50))
def test_what_a_truthful_lag_says_is_read_is_read(jumps: list[int], unread_s: int) -> None:
    """The oldest unread record arrived at an instant that the place never passes, however the lag goes up and down."""
    idle, now, first_unread = Idle(0.0), 1_000_000, 1_000_000 - unread_s * 1000
    for at, more in enumerate(jumps):
        now += 1000
        idle.add(0, now - first_unread + 1 + more * 1000, now, float(at))
        known = idle.read_up_to_ms
        assert known is None or known < first_unread
