# SPDX-License-Identifier: Apache-2.0
"""The row of an interval's outputs: which of the runs that read the same interval comes last for readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shardbatch.core.rows import INT, INTERVAL, TEXTS, Key, Namespace, Row


@dataclass(frozen=True)
class IntervalOutput(Row):
    """What the runs over one interval of an application have in common.

    ``number`` is that of the last of their batches that was decided first; readers take the batch with the highest.
    ``roots`` are the output roots of all of them: a later batch is told in each, also where it wrote nothing.
    """

    table = INTERVAL

    namespace: Namespace
    interval: tuple[int, int]
    row_count: int = field(metadata=INT)
    number: int = field(default=0, metadata=INT)
    roots: tuple[str, ...] = field(default=(), metadata=TEXTS)

    @property
    def key(self) -> Key:
        """The row's key."""
        return key_of(self.namespace, self.interval)

    @classmethod
    def _of_key(cls, columns: Mapping[str, Any]) -> dict[str, Any]:
        start, _, end = str(columns["span"]).partition("-")
        return {"interval": (int(start), int(end))}

    def widened(self, number: int, roots: tuple[str, ...]) -> IntervalOutput:
        """With the number of a batch that is about to be decided, and its roots among those of all."""
        return replace(self, number=number, roots=roots, row_count=self.row_count + 1)


def key_of(namespace: Namespace, interval: tuple[int, int]) -> Key:
    """The key of an interval's row; milliseconds in so many digits that rows come in the order of time."""
    return Key(INTERVAL, namespace, ("", "{:015d}-{:015d}".format(*interval)))
