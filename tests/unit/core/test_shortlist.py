# SPDX-License-Identifier: Apache-2.0
"""Many names in a message."""

from __future__ import annotations

import pytest

from shardbatch.core.shortlist import shortlist


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
