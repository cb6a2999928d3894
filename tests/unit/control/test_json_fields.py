# SPDX-License-Identifier: Apache-2.0
"""Fields of positions in JSON: each is what it has to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shardbatch.control.json_fields import entries, instant, place, text_of, texts, whole
from shardbatch.core.position import LATEST, after
from shardbatch.errors import InvalidToken


def test_what_fits_is_given_back() -> None:
    assert entries({"a": 1}, "It") == {"a": 1}
    assert (text_of("x", "It"), texts(["x"], "It"), whole(0, "It"), instant(None, "It")) == ("x", ("x",), 0, None)
    assert place("12/3@4", "It") == after("12", 3, 4)
    assert place("LATEST", "It", tip=True) == LATEST


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (entries, []),
        (text_of, 1),
        (text_of, ""),
        (texts, "abc"),
        (texts, [1]),
        (whole, True),
        (whole, -1),
        (whole, 1.5),
        (whole, 2**63),
        (instant, "1"),
        (place, "12/-3"),
        (place, "LATEST"),
    ],
)
def test_what_does_not_fit_is_named(read: Callable[[Any, str], Any], value: Any) -> None:
    with pytest.raises(InvalidToken, match="It of the positions"):
        read(value, "It")
