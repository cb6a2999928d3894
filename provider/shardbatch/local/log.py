# SPDX-License-Identifier: Apache-2.0
"""The records of one shard, kept as the JSON text that answers will carry."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    """Part of a shard: the records' JSON, the count of the record that comes after it, and why it ends there."""

    records: list[bytes]
    next_count: int
    size: int
    cut_by_size: bool


class RecordLog:
    """Records in the order of their arrival. They are counted from 1; counts are never used twice."""

    def __init__(self) -> None:
        self.first_count = 1
        self._numbers: list[int] = []
        self._arrivals = array("q")
        self._ends = array("q")
        self._fragments: list[bytes] = []
        self._trimmed_size = 0

    @property
    def next_count(self) -> int:
        """Count that the next record will have."""
        return self.first_count + len(self._numbers)

    def read(self, count: int, limit: int, max_size: int) -> Page:
        """Up to ``limit`` records from ``count`` on, at least one if there is one, else within ``max_size`` bytes.

        A count that was trimmed away means the oldest record still there.
        """
        start = max(count - self.first_count, 0)
        stop = min(start + limit, len(self._numbers))
        base = self._ends[start - 1] if start else self._trimmed_size
        cut = start < stop and self._ends[stop - 1] - base > max_size
        if cut:
            stop = max(bisect_right(self._ends, base + max_size, start, stop), start + 1)
        size = self._ends[stop - 1] - base if stop > start else 0
        return Page(self._fragments[start:stop], max(self.first_count + stop, count), size, cut)

    def count_at(self, number: int) -> int:
        """Count of the first record whose sequence number is ``number`` or higher."""
        return self.first_count + bisect_left(self._numbers, number)

    def count_after(self, number: int) -> int:
        """Count of the first record whose sequence number is higher than ``number``."""
        return self.first_count + bisect_right(self._numbers, number)

    def count_since(self, arrival_ms: int) -> int:
        """Count of the first record that arrived at ``arrival_ms`` or later."""
        return self.first_count + bisect_left(self._arrivals, arrival_ms)

    def arrival_ms(self, count: int) -> int | None:
        """Arrival of the record with that count, or of the oldest one after it; None at the tip."""
        index = max(count - self.first_count, 0)
        return self._arrivals[index] if index < len(self._arrivals) else None

    def trim(self, before_count: int) -> int:
        """Forget every record below ``before_count``; returns how many went."""
        gone = min(max(before_count - self.first_count, 0), len(self._numbers))
        if gone:
            self._trimmed_size = self._ends[gone - 1]
            del self._numbers[:gone], self._arrivals[:gone], self._ends[:gone], self._fragments[:gone]
            self.first_count += gone
        return gone

    def expire(self, horizon_ms: int) -> None:
        """Forget what arrived at or before ``horizon_ms``."""
        oldest = self.arrival_ms(0)
        if oldest is not None and oldest <= horizon_ms:
            self.trim(self.count_since(horizon_ms + 1))

    def drop(self, before: str | None = None, before_ms: int | None = None, keep: int | None = None) -> int:
        """Forget the oldest records, by hand; returns how many went.

        :param before: what comes before this sequence number
        :param before_ms: what arrived before this time
        :param keep: all but this many of the newest records; without any of the three: all
        """
        if before is not None:
            return self.trim(self.count_at(int(before)))
        if before_ms is not None:
            return self.trim(self.count_since(before_ms))
        return self.trim(self.next_count - (keep or 0))
