# SPDX-License-Identifier: Apache-2.0
"""Many names in a message."""

from __future__ import annotations

import pytest

from shardbatch.core.shortlist import shortened, shortlist


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, ""),
        (1, "1"),
        (5, "1, 2, 3, 4, 5"),
        (6, "1, 2, 3, 4, 5 and 1 more"),
        (1005, "1, 2, 3, 4, 5 and 1000 more"),
    ],
)
def test_the_first_five_are_named_and_the_others_counted(count: int, text: str) -> None:
    assert shortlist(range(1, count + 1)) == text


def test_of_items_that_are_not_all_the_others_are_counted_too() -> None:
    assert shortlist(["a", "b"], total=9, between="; ") == "a; b and 7 more"
    assert shortlist(["a", "b", "c"], most=2) == "a, b and 1 more"


def test_a_text_shows_that_it_was_cut() -> None:
    assert shortened("abcdef", 6) == "abcdef"
    assert shortened("abcdefg", 6) == "abcde…"
