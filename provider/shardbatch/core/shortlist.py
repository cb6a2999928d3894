# SPDX-License-Identifier: Apache-2.0
"""Many names in a message: the first few, and how many more there are."""

from __future__ import annotations

from collections.abc import Sequence

#: How many are named.
MOST = 5


def shortlist(items: Sequence[object]) -> str:
    """The first five of some items, and how many more there are."""
    more = len(items) - MOST
    return ", ".join(map(str, items[:MOST])) + (f" and {more} more" if more > 0 else "")
