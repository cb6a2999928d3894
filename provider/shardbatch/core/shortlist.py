# SPDX-License-Identifier: Apache-2.0
"""Many names in a message: the first few, and how many more there are."""

from __future__ import annotations

from collections.abc import Sequence

#: How many are named.
MOST = 5


def shortlist(items: Sequence[object], *, most: int = MOST, between: str = ", ", total: int | None = None) -> str:
    """The first of some items, and how many more there are.

    :param most: how many are named, default five.
    :param between: what stands between two of them, default a comma.
    :param total: how many there are, if ``items`` are not all.
    """
    shown = items[:most]
    more = (len(items) if total is None else total) - len(shown)
    return between.join(map(str, shown)) + (f" and {more} more" if more > 0 else "")


def shortened(text: str, longest: int) -> str:
    """A text of at most so many characters, which shows where it was cut."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
