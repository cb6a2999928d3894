# SPDX-License-Identifier: Apache-2.0
"""An output root in memory, whose listings take time: others may write and sweep while names are looked at."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from shardbatch.core.decision import Decision
from shardbatch.core.sums import Entry, Sum, sum_name
from shardbatch.landing import layout
from shardbatch.landing.location import joined
from shardbatch.landing.markers import sums_folder

ROOT = "/out"


def decision(batch_id: str, decided: int = 1, *, empty: bool = False, **more: object) -> Decision:
    """A decision with one start, whose id tells it apart from any other; none if it is empty."""
    starts = () if empty else ((f"start-{batch_id}-{decided}", decided),)
    return replace(Decision(batch_id, decided, starts, app="etl/orders"), **more)  # type: ignore[arg-type]


class MemoryRoot:
    """Implements :class:`shardbatch.landing.markers.SmallFiles`; ``between`` is called at every step of it."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.read: list[str] = []
        self.listings = 0
        self.between: Callable[[], None] = lambda: None

    def names(self, folder: str) -> list[str]:
        """The names, each looked at in a moment of its own."""
        self.listings += 1
        found: list[str] = []
        at = ""
        while True:
            self.between()
            ahead = sorted(p for p in self.files if p.rpartition("/")[0] == folder and p.rpartition("/")[2] > at)
            if not ahead:
                return found
            at = ahead[0].rpartition("/")[2]
            found.append(at)

    def contents(self, folder: str, names: Sequence[str]) -> dict[str, bytes]:
        """Those that are there."""
        found = {}
        for name in names:
            self.between()
            self.read.append(name)
            if joined(folder, name) in self.files:
                found[name] = self.files[joined(folder, name)]
        return found

    def mark(self, one: Decision) -> str:
        """Write a marker; its path."""
        path = joined(ROOT, layout.MARKERS, layout.marker_name(one.batch_id, one.decided))
        self.files[path] = json.dumps(one.to_json()).encode()
        return path

    def put_sum(self, number: int, unique: str, entries: Sequence[Entry], read: Sequence[str] = ()) -> str:
        """Write a sum; its name."""
        name = sum_name(number, unique)
        self.files[joined(sums_folder(ROOT), name)] = Sum(number, tuple(read), tuple(entries)).dumps()
        return name
