# SPDX-License-Identifier: Apache-2.0
"""The row of an interval's outputs: which of the runs that read the same interval comes last for readers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from shardbatch.core.rows import INTERVAL, Columns, Key, Namespace, Row


@dataclass(frozen=True)
class IntervalOutput(Row):
    """What the runs over one interval of an application have in common.

    ``number`` is that of the last of their batches that was decided first; readers take the batch with the highest.
    ``roots`` are the output roots of all of them: a later batch is told in each, also where it wrote nothing.
    """

    namespace: Namespace
    interval: tuple[int, int]
    row_count: int
    number: int = 0
    roots: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """The row's key."""
        return key_of(self.namespace, self.interval)

    @property
    def counter(self) -> int:
        """``row_count``."""
        return self.row_count

    def columns(self) -> Columns:
        """All columns but the key's."""
        return {"number": self.number, "roots": json.dumps(self.roots), "row_count": self.row_count}

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> IntervalOutput:
        """The row of its columns."""
        start, _, end = str(columns["span"]).partition("-")
        return cls(
            namespace=Namespace(columns["app_name"], columns["stream_name"]),
            interval=(int(start), int(end)),
            row_count=int(columns["row_count"]),
            number=int(columns.get("number") or 0),
            roots=tuple(json.loads(columns.get("roots") or "[]")),
        )

    def widened(self, number: int, roots: tuple[str, ...]) -> IntervalOutput:
        """With the number of a batch that is about to be decided, and its roots among those of all."""
        return replace(self, number=number, roots=roots, row_count=self.row_count + 1)


def key_of(namespace: Namespace, interval: tuple[int, int]) -> Key:
    """The key of an interval's row; milliseconds in so many digits that rows come in the order of time."""
    return Key(INTERVAL, namespace, ("", "{:015d}-{:015d}".format(*interval)))
