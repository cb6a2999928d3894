# SPDX-License-Identifier: Apache-2.0
"""Positions: their order, their text, and which checkpoint may follow which."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardbatch.core.position import LATEST, SHARD_END, TRIM_HORIZON, Position, acceptable, after, at_timestamp, lowest


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
    st.tuples(st.integers(0, 10**60), st.integers(0, 9), st.integers(0, 2**53)).map(
        lambda p: after(str(p[0]), p[1], p[2])
    ),
)


@given(positions)
def test_a_position_survives_its_text(position: Position) -> None:
    found = Position.parse(str(position))
    assert (found, found.timestamp_ms, found.searching) == (position, position.timestamp_ms, position.searching)


def test_a_place_that_carries_an_instant_is_the_same_place() -> None:  # F8
    place, plain = after("7", 0, 1000), after("7")
    assert str(place) == "7@1000"
    assert (place, hash(place)) == (plain, hash(plain))
    assert place < after("8", 0, 5) < after("9")
    assert place.searching
    assert place.exact
    assert not plain.searching
    assert not place.ahead_of(0)
    assert at_timestamp(1000).ahead_of(0)
    assert not at_timestamp(1000).searching


def test_a_search_moves_on_without_records_and_keeps_its_instant() -> None:  # F8
    begin, seven, nine = at_timestamp(1000), after("7", 0, 1000), after("9", 0, 1000)
    assert acceptable(begin, seven, begin, ended=False)
    assert acceptable(seven, nine, seven, ended=False)
    assert not acceptable(nine, seven, nine, ended=False)
    assert not acceptable(begin, after("7"), begin, ended=False)  # nothing was landed, and nobody says why
    assert not acceptable(begin, after("7", 0, 999), begin, ended=False)
    assert not acceptable(after("5"), seven, after("5"), ended=False)
    assert acceptable(seven, after("9"), after("9"), ended=False)


def test_of_two_equal_places_that_which_leaves_nothing_out_is_lower() -> None:
    for one, other in ((after("7"), after("7", 0, 5)), (after("7", 0, 5), after("7"))):
        assert not lowest(one, other).searching
    assert lowest(after("7", 0, 5), at_timestamp(5)) == TRIM_HORIZON


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
