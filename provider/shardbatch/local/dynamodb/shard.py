# SPDX-License-Identifier: Apache-2.0
"""One shard of a table's stream: its place in the lineage, its records, and who reads it."""

from __future__ import annotations

from typing import Any
from zlib import crc32

from shardbatch.local.log import RecordLog

#: A sequence number is a count, then twenty digits that all numbers of its shard share. So it has 21 digits or more,
#: and "10…" comes after "9…".
SHARE = 10**20
READERS = 2
READING_MS = 1_000
Json = dict[str, Any]


class ChangeShard(RecordLog):
    """Records and lineage of one shard.

    :param stream: ARN of its stream
    :param made: number in its id; higher than that of every older shard of the stream
    :param base: count before that of its first record; higher than any of its parent's
    :param listings: calls of DescribeStream before it was born
    """

    def __init__(
        self,
        stream: str,
        made: int,
        hash_start: int,
        hash_end: int,
        opened_ms: int,
        base: int,
        parent: ChangeShard | None = None,
        listings: int = 0,
    ) -> None:
        super().__init__()
        mark = crc32(f"{stream} {made}".encode())
        self.shard_id = f"shardId-{made:020d}-{mark:08x}"
        self.hash_start = hash_start
        self.hash_end = hash_end
        self.opened_ms = opened_ms
        self.closed_ms: int | None = None
        self.parent_id = None if parent is None else parent.shard_id
        self.listings = listings
        self._base = base
        self._share = mark
        self._readers: dict[int, int] = {}

    @property
    def closed(self) -> bool:
        """No record will ever be added."""
        return self.closed_ms is not None

    @property
    def last_base(self) -> int:
        """Count in the latest sequence number."""
        return self._base + self.next_count - 1

    def next_number(self) -> int:
        """Sequence number of the next record."""
        return self._number(self.next_count)

    def append(self, number: int, fragment: bytes, size: int, now_ms: int) -> None:
        """Add one record: its sequence number, JSON and size."""
        self._numbers.append(number)
        self._arrivals.append(now_ms)
        self._ends.append((self._ends[-1] if self._ends else self._trimmed_size) + size)
        self._fragments.append(fragment)

    def count_of(self, number: int) -> int | None:
        """Count of the record with that sequence number, 0 for the shard's own; None if the shard never gave it out."""
        count = number // SHARE - self._base
        return count if number % SHARE == self._share and 0 <= count < self.next_count else None

    def describe(self) -> Json:
        """The shard as listings show it."""
        numbers: Json = {"StartingSequenceNumber": str(self._number(0))}
        if self.closed:
            numbers["EndingSequenceNumber"] = str(self._number(self.next_count - 1))
        shown: Json = {"ShardId": self.shard_id, "SequenceNumberRange": numbers}
        if self.parent_id is not None:
            shown["ParentShardId"] = self.parent_id
        return shown

    def admit_reader(self, reader: int, now_ms: int) -> bool:
        """Whether one more reader is let in: two may have read within a second."""
        self._readers = {other: at_ms for other, at_ms in self._readers.items() if now_ms - at_ms < READING_MS}
        if reader not in self._readers and len(self._readers) >= READERS:
            return False
        self._readers[reader] = now_ms
        return True

    def _number(self, count: int) -> int:
        return (self._base + count) * SHARE + self._share
