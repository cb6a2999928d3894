# SPDX-License-Identifier: Apache-2.0
"""Positions: their order, their text, and which checkpoint may follow which."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardbatch.core.position import LATEST, SHARD_END, TRIM_HORIZON, Position, acceptable, after, at_timestamp


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (after("9"), after("10")),
        (after("100", 2), after("100", 10)),
        (after("100"), SHARD_END),
        (TRIM_HORIZON, LATEST),
        (at_timestamp(5), TRIM_HORIZON),
        (LATEST, after("0")),
        (after("9" * 56), after("1" + "0" * 56)),
    ],
)
def test_positions_are_in_the_order_of_a_shard(left: Position, right: Position) -> None:
    assert left < right  # KV-1, K-4, K-44
    assert not right < left
    assert left != right


def test_the_end_of_a_shard_equals_itself() -> None:
    assert Position.parse("SHARD_END") == SHARD_END


def test_leading_zeros_do_not_make_another_place() -> None:
    assert after("007") == after("7")
    assert hash(after("007")) == hash(after("7"))


@pytest.mark.parametrize("text", ["abc", "", "-1", "1.5", "٣", "12/-1", "trim_horizon"])
def test_a_text_that_is_no_position_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        Position.parse(text)


positions = st.one_of(
    st.sampled_from([TRIM_HORIZON, LATEST, SHARD_END]),
    st.integers(0, 10**60).map(lambda n: after(str(n))),
    st.tuples(st.integers(0, 10**60), st.integers(0, 9999)).map(lambda p: after(str(p[0]), p[1])),
    st.integers(0, 2**53).map(at_timestamp),
)


@given(positions)
def test_a_position_survives_its_text(position: Position) -> None:
    assert Position.parse(str(position)) == position


@given(st.lists(positions, min_size=3, max_size=3))
def test_the_order_is_total(three: list[Position]) -> None:
    low, middle, high = sorted(three)
    assert low <= middle <= high
    assert low <= high


def test_which_checkpoint_may_follow_which() -> None:
    delivered = after("5019")  # KV-8, K-45
    at = after("13")
    assert not acceptable(at, after("2"), delivered, ended=False)
    assert acceptable(at, after("13"), delivered, ended=False)
    assert acceptable(at, after("127"), delivered, ended=False)
    at = after("127")
    for wrong in (after("2"), after("13"), after("9000"), after("6789"), SHARD_END, TRIM_HORIZON, LATEST):
        assert not acceptable(at, wrong, delivered, ended=False)
    assert acceptable(at, after("5019"), delivered, ended=False)
    assert acceptable(after("5019"), SHARD_END, after("6789"), ended=True)


def test_a_rule_may_stay_where_it_stood() -> None:
    assert acceptable(TRIM_HORIZON, TRIM_HORIZON, TRIM_HORIZON, ended=False)
    assert acceptable(TRIM_HORIZON, after("1"), after("1"), ended=False)
