# SPDX-License-Identifier: Apache-2.0
"""Looking twice: which rows are known to have stood still, and when it pays to go away in between."""

from __future__ import annotations

import pytest

from shardbatch.core.looks import SHORTEST_S, LookAgain, Looks


@pytest.mark.parametrize(
    ("name", "counter", "seconds", "still"),
    [
        ("a", 5, 300.0, True),
        ("a", 5, 299.0, True),
        ("a", 5, 301.0, False),
        ("a", 6, 300.0, False),
        ("b", 5, 0.0, False),
    ],
)
def test_a_row_stood_still_if_it_is_as_it_was_that_long_ago(
    name: str, counter: int, seconds: float, still: bool
) -> None:
    looks = Looks({"a": (5, 300.0)}, 1)
    assert looks.stood_still(name, counter, seconds) is still
    assert looks.knows(name) is (name == "a")


def test_it_stays_for_a_short_time_and_goes_away_for_a_longer_one() -> None:
    assert Looks().go_away({"a": 5}, SHORTEST_S - 0.1) is None
    order = Looks().go_away({"a": 5}, SHORTEST_S)
    assert isinstance(order, LookAgain)
    assert (order.seconds, order.looks) == (SHORTEST_S, Looks({"a": (5, SHORTEST_S)}, 1))


def test_time_passes_for_all_that_was_seen_and_a_row_that_is_looked_at_anew_begins_anew() -> None:
    order = Looks({"a": (5, 30.0), "b": (7, 60.0)}, 1).go_away({"b": 8, "c": 9}, 20.0)
    assert order is not None
    assert order.looks == Looks({"a": (5, 50.0), "b": (8, 20.0), "c": (9, 20.0)}, 2)


def test_what_was_seen_survives_json() -> None:
    looks = Looks({"a": (2**48, 300.0)}, 2)
    assert Looks.from_json(looks.to_json()) == looks
