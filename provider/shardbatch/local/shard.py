# SPDX-License-Identifier: Apache-2.0
"""One shard: its place in the lineage, and its records."""

from __future__ import annotations

from json.encoder import encode_basestring_ascii
from typing import Any

from shardbatch.local.log import RecordLog
from shardbatch.local.sequence import COUNT_SHIFT, LAST_COUNT, SECOND_SHIFT, build_head

Json = dict[str, Any]


class Shard(RecordLog):
    """Records and lineage of one shard."""

    def __init__(
        self, number: int, hash_start: int, hash_end: int, opened_ms: int, created: int, parents: tuple[str, ...] = ()
    ) -> None:
        super().__init__()
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
        self._head = build_head(created, number)
        self.starting_number = self._head | (created << SECOND_SHIFT)

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

    def number_before(self, count: int, now_ms: int) -> int:
        """Sequence number of the record before that count, or one that stands for its place if it is not held."""
        index = count - 1 - self.first_count
        if 0 <= index < len(self._numbers):
            return self._numbers[index]
        second = max(now_ms // 1000, self.created)
        return self._head | ((count - 1) << COUNT_SHIFT) | (second << SECOND_SHIFT)

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
