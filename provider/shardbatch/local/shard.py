# SPDX-License-Identifier: Apache-2.0
"""One shard: its place in the lineage, and its records kept as the JSON text that answers will carry."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import Any

from shardbatch.local.sequence import COUNT_SHIFT, LAST_COUNT, SECOND_SHIFT, build_head

Json = dict[str, Any]


@dataclass(frozen=True)
class Page:
    """Part of a shard: the records' JSON, the count of the record that comes after it, and why it ends there."""

    records: list[bytes]
    next_count: int
    size: int
    cut_by_size: bool


class Shard:
    """Records and lineage of one shard. Records are counted from 1; counts are never used twice."""

    def __init__(
        self, number: int, hash_start: int, hash_end: int, opened_ms: int, created: int, parents: tuple[str, ...] = ()
    ) -> None:
        self.shard_id = f"shardId-{number:012d}"
        self.number = number
        self.created = created
        self.hash_start = hash_start
        self.hash_end = hash_end
        self.parents = parents
        self.children: list[Shard] = []
        self.opened_ms = opened_ms
        self.closed_ms: int | None = None
        self.ending_number: int | None = None
        self.first_count = 1
        self._head = build_head(created, number)
        self.starting_number = self._head | (created << SECOND_SHIFT)
        self._numbers: list[int] = []
        self._arrivals = array("q")
        self._ends = array("q")
        self._fragments: list[bytes] = []
        self._trimmed_size = 0

    @property
    def next_count(self) -> int:
        """Count that the next record will have."""
        return self.first_count + len(self._numbers)

    @property
    def closed(self) -> bool:
        """No record will ever be added."""
        return self.closed_ms is not None

    def append(self, partition_key: str, data: str, size: int, now_ms: int) -> str:
        """Add one record (``data`` is base64 text, ``size`` its bytes) and return its sequence number's text."""
        arrivals = self._arrivals
        if arrivals and arrivals[-1] > now_ms:
            now_ms = arrivals[-1]
        second = now_ms // 1000
        if second < self.created:
            second = self.created
        number = self._head | ((self.first_count + len(arrivals)) << COUNT_SHIFT) | (second << SECOND_SHIFT)
        ends = self._ends
        ends.append((ends[-1] if ends else self._trimmed_size) + size)
        self._numbers.append(number)
        arrivals.append(now_ms)
        text = str(number)
        self._fragments.append(
            (
                f'{{"SequenceNumber":"{text}","ApproximateArrivalTimestamp":{now_ms / 1000:.3f},"Data":"{data}",'
                f'"PartitionKey":{encode_basestring_ascii(partition_key)}}}'
            ).encode("ascii")
        )
        return text

    def close(self, now_ms: int, children: list[Shard]) -> None:
        """End the shard; its children take over."""
        self.closed_ms = now_ms
        self.children = children
        second = max(now_ms // 1000, self.created)
        self.ending_number = self._head | (LAST_COUNT << COUNT_SHIFT) | (second << SECOND_SHIFT)

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

    def number_before(self, count: int, now_ms: int) -> int:
        """Sequence number of the record before that count, or one that stands for its place if it is not held."""
        index = count - 1 - self.first_count
        if 0 <= index < len(self._numbers):
            return self._numbers[index]
        second = max(now_ms // 1000, self.created)
        return self._head | ((count - 1) << COUNT_SHIFT) | (second << SECOND_SHIFT)

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

    def describe(self) -> Json:
        """The shard as listings show it."""
        numbers: Json = {"StartingSequenceNumber": str(self.starting_number)}
        if self.ending_number is not None:
            numbers["EndingSequenceNumber"] = str(self.ending_number)
        shown: Json = {"ShardId": self.shard_id, "HashKeyRange": self.hash_range(), "SequenceNumberRange": numbers}
        if self.parents:
            shown["ParentShardId"] = self.parents[0]
        if len(self.parents) > 1:
            shown["AdjacentParentShardId"] = self.parents[1]
        return shown

    def describe_child(self) -> Json:
        """The shard as the end of its parent names it."""
        return {"ShardId": self.shard_id, "ParentShards": list(self.parents), "HashKeyRange": self.hash_range()}

    def hash_range(self) -> Json:
        """First and last hash key, inclusive, as decimal text."""
        return {"StartingHashKey": str(self.hash_start), "EndingHashKey": str(self.hash_end)}
