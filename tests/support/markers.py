# SPDX-License-Identifier: Apache-2.0
"""Markers of an output root by their names, as a reader takes them that lists the folder itself."""

from __future__ import annotations

from collections.abc import Iterable

from shardbatch.landing.layout import marker


def highest_markers(names: Iterable[str]) -> dict[str, tuple[int, str]]:
    """Of the names in a marker folder, for every batch the highest ``decided`` and its name."""
    best: dict[str, tuple[int, str]] = {}
    for name in names:
        found = marker(name)
        if found is not None and (found[0] not in best or found[1] > best[found[0]][0]):
            best[found[0]] = (found[1], name)
    return best
