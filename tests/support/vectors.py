# SPDX-License-Identifier: Apache-2.0
"""Examples of one order over several shards (BV-1, BV-2, BV-3), for every way to read a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.support.dynamodb_records import Change


@dataclass(frozen=True)
class Vector:
    """Shards with their records as ``(number, seconds)``, and the numbers in the order of all records."""

    shards: Mapping[str, Sequence[tuple[int, int | None]]]
    order: Sequence[int]
    parents: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def changes(self) -> dict[str, list[Change]]:
        """The records of each shard."""
        return {
            shard: [Change(number, seconds, new={"id": {"S": "1"}}) for number, seconds in records]
            for shard, records in self.shards.items()
        }


_SPLIT = {"A": ["P"], "B": ["P"]}
VECTORS = {
    "BV-1 parents before children": Vector(
        {"P": [(1, 0), (2, 1), (3, 2)], "A": [(10, 3), (11, 5)], "B": [(20, 4), (21, 6)]},
        [1, 2, 3, 10, 20, 11, 21],
        _SPLIT,
    ),
    "BV-2 ties": Vector(
        {"P": [(1, 0)], "A": [(311, 100), (350, 300), (390, 500)], "B": [(324, 300), (325, 400), (326, 400)]},
        [1, 311, 324, 350, 325, 326, 390],
        _SPLIT,
    ),
    "BV-2 more ties": Vector(
        {"P": [(1, 0)], "A": [(311, 100), (350, 300), (390, 500)], "B": [(360, 300), (365, 400), (366, 400)]},
        [1, 311, 350, 360, 365, 366, 390],
        _SPLIT,
    ),
    # Bloop hands out 9 before 10; here a shard's own order comes first.
    "BV-2 a shard against its numbers": Vector({"A": [(10, 5), (9, 5)], "B": [(8, 5), (11, 5)]}, [8, 10, 9, 11]),
    # Bloop merges a page of each shard, and hands out 2 before 7.
    "BV-3 over whole shards": Vector(
        {"A": [(1, 0), (2, 10), (3, 20), (4, 30)], "B": [(5, 5), (6, 6), (7, 7), (8, 8)]}, [1, 5, 6, 7, 8, 2, 3, 4]
    ),
    "numbers are integers of any length": Vector(
        {"A": [(9, 1), (10**39, 1)], "B": [(10, 1), (10**38, 1), (10**40, 1)]},
        [9, 10, 10**38, 10**39, 10**40],
    ),
    "a time that runs backwards in a shard": Vector(
        {"A": [(1, 5), (4, 2), (6, 7)], "B": [(2, 3), (3, 5), (5, 6)]}, [2, 1, 3, 4, 5, 6]
    ),
    "a child with an earlier time, beside a number between": Vector(
        {"P": [(7, 50), (8, 60)], "A": [(20, 10)], "B": [(9, 60)]}, [7, 8, 9, 20], {"A": ["P"]}
    ),
    "a child whose times and numbers are before its parent's": Vector(
        {"P": [(7, 50), (8, 60)], "A": [(1, 10), (9, 70)], "B": [(5, 55), (6, 60), (10, 65)]},
        [7, 5, 6, 8, 1, 10, 9],
        {"A": ["P"]},
    ),
    "a chain with an empty shard": Vector(
        {"P": [(9, 50)], "M": [], "A": [(1, 10)], "B": [(3, 20), (10, 60)]}, [3, 9, 1, 10], {"M": ["P"], "A": ["M"]}
    ),
    "records without a time": Vector(
        {"A": [(1, None), (4, 5), (6, None)], "B": [(2, 1), (5, 5), (7, 6)]}, [1, 2, 4, 5, 6, 7]
    ),
}
