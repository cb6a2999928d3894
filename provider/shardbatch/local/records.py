# SPDX-License-Identifier: Apache-2.0
"""Iterators, reads and writes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import count

from shardbatch.local.engine import Engine
from shardbatch.local.failure import ServiceError, invalid, not_found
from shardbatch.local.sequence import decode
from shardbatch.local.shard import Shard
from shardbatch.local.stream import Stream
from shardbatch.local.tokens import Iterator

MAX_PAGE_BYTES = 10 * 1024 * 1024


class IteratorType(StrEnum):
    """Where an iterator starts, as the service names it."""

    TRIM_HORIZON = "TRIM_HORIZON"
    LATEST = "LATEST"
    AT_SEQUENCE_NUMBER = "AT_SEQUENCE_NUMBER"
    AFTER_SEQUENCE_NUMBER = "AFTER_SEQUENCE_NUMBER"
    AT_TIMESTAMP = "AT_TIMESTAMP"


def require_place(kind: IteratorType, member: str, number: str | None, timestamp_ms: int | None) -> None:
    """See that a place comes with the sequence number (``member``) or the timestamp that its type asks for.

    :raises ServiceError: InvalidArgumentException
    """
    by_number = kind in (IteratorType.AT_SEQUENCE_NUMBER, IteratorType.AFTER_SEQUENCE_NUMBER)
    if by_number != (number is not None):
        raise invalid(f"{member} goes with the types AT_ and AFTER_SEQUENCE_NUMBER, and with no other")
    if (kind is IteratorType.AT_TIMESTAMP) != (timestamp_ms is not None):
        raise invalid("Timestamp goes with the type AT_TIMESTAMP, and with no other")


@dataclass(frozen=True)
class Answer:
    """What one read found."""

    records: list[bytes]
    next_iterator: str | None
    behind_ms: int
    children: list[Shard]
    size: int


class Records:
    """Reading and writing on the streams of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._serials = count(1)

    # iterators

    def make_iterator(
        self, stream: Stream, shard_id: str, kind: IteratorType, sequence_number: str = "", timestamp_ms: int = 0
    ) -> str:
        """A new iterator.

        :raises ServiceError: as :meth:`find_place`, and ProvisionedThroughputExceededException
        """
        now_ms = self._engine.clock.now_ms()
        shard, position = self.find_place(stream, shard_id, kind, sequence_number, timestamp_ms)
        if self._engine.options.limits and not stream.throttle(shard).admit_iterator(now_ms):
            raise ServiceError(
                "ProvisionedThroughputExceededException", f"shard {shard_id} is asked for iterators too fast"
            )
        return self._seal(stream, shard, position, self._engine.options.empty_pages, now_ms)

    def find_place(
        self, stream: Stream, shard_id: str, kind: IteratorType, sequence_number: str = "", timestamp_ms: int = 0
    ) -> tuple[Shard, int]:
        """A shard, and the count of the record that comes first from that place on.

        :raises ServiceError: ResourceNotFoundException; InvalidArgumentException for a sequence number that the shard
            never gave out, or a timestamp in the future
        """
        now_ms = self._engine.clock.now_ms()
        shard = self._engine.find_shard(stream, shard_id)
        stream.trim(shard, now_ms)
        if kind is IteratorType.TRIM_HORIZON:
            return shard, shard.first_count
        if kind is IteratorType.LATEST:
            return shard, shard.next_count
        if kind is IteratorType.AT_TIMESTAMP:
            if timestamp_ms > now_ms:
                raise invalid(f"Timestamp {timestamp_ms / 1000} lies in the future: it is {now_ms / 1000}")
            return shard, shard.count_since(timestamp_ms)
        number = self._check_number(stream, shard, sequence_number)
        after = kind is IteratorType.AFTER_SEQUENCE_NUMBER
        return shard, shard.count_after(number) if after else shard.count_at(number)

    def open_iterator(self, text: str) -> Iterator:
        """What an iterator says, expired or not.

        :raises ServiceError: InvalidArgumentException if it is not one of ours
        """
        fields = self._engine.sealer.open("iterator", text)
        if fields is None:
            raise invalid("ShardIterator is not one that this server gave out")
        return Iterator(*fields)  # type: ignore[arg-type]

    def _seal(self, stream: Stream, shard: Shard, position: int, hops: int, now_ms: int) -> str:
        iterator = Iterator(
            stream.home, stream.name, stream.created_ms, shard.shard_id, position, hops, now_ms, next(self._serials)
        )
        return self._engine.sealer.seal("iterator", iterator)

    def _check_number(self, stream: Stream, shard: Shard, text: str) -> int:
        where = f"StartingSequenceNumber {text} used on shard {shard.shard_id} of stream {stream.name}"
        number = int(text)
        parts = decode(number)
        if parts is None:
            raise invalid(f"{where} is not a sequence number")
        if parts.shard_number != shard.number:
            raise invalid(f"{where} belongs to shardId-{parts.shard_number:012d}")
        if parts.shard_created != shard.created:
            raise invalid(f"{where} belongs to another life of the shard")
        beyond = number > shard.ending_number if shard.ending_number is not None else parts.count >= shard.next_count
        if beyond:
            raise invalid(f"{where} is beyond the last one that the shard gave out")
        return number

    # reading

    def read(self, iterator: Iterator, limit: int = 10_000, *, empty: bool = False) -> Answer:
        """Records from ``iterator`` on.

        :param empty: answer nothing this time, as the service may at any moment, and move on
        :raises ServiceError: ExpiredIteratorException, ResourceNotFoundException,
            ProvisionedThroughputExceededException
        """
        engine = self._engine
        now_ms = engine.clock.now_ms()
        stream = engine.find_readable(iterator.home, iterator.stream)
        if stream.created_ms != iterator.created_ms:
            raise not_found(f"the stream {stream.name} that the iterator was made for was deleted")
        if now_ms - iterator.issued_ms > engine.options.iterator_seconds * 1000:
            age_s = (now_ms - iterator.issued_ms) // 1000
            raise ServiceError("ExpiredIteratorException", f"the iterator is {age_s} s old; get a new one")
        shard = engine.find_shard(stream, iterator.shard_id)
        stream.trim(shard, now_ms)
        if engine.options.limits and not stream.throttle(shard).admit_read(now_ms):
            raise ServiceError("ProvisionedThroughputExceededException", f"shard {shard.shard_id} is read too fast")
        if empty or iterator.hops:
            hops = iterator.hops if empty else iterator.hops - 1
            onward = self._seal(stream, shard, iterator.position, hops, now_ms)
            return Answer([], onward, self._behind(shard, iterator.position, now_ms), [], 0)
        page = shard.read(iterator.position, limit, MAX_PAGE_BYTES)
        if engine.options.limits:
            stream.throttle(shard).count_read(page.size, page.cut_by_size, now_ms)
        drained = shard.closed and page.next_count >= shard.next_count
        if drained and (engine.options.end_with_records or not page.records):
            children = shard.children if engine.options.name_children else []
            return Answer(page.records, None, 0, children, page.size)
        onward = self._seal(stream, shard, page.next_count, 0, now_ms)
        return Answer(page.records, onward, self._behind(shard, page.next_count, now_ms), [], page.size)

    @staticmethod
    def _behind(shard: Shard, position: int, now_ms: int) -> int:
        arrival = shard.arrival_ms(position)
        return 0 if arrival is None else max(now_ms - arrival, 0)

    # writing

    def write(
        self, stream: Stream, partition_key: str, data: str, size: int, hash_key: int, now_ms: int
    ) -> tuple[Shard, str]:
        """Add one record: base64 ``data`` of ``size`` bytes. Returns its shard and sequence number.

        :raises ServiceError: ProvisionedThroughputExceededException
        """
        shard = stream.route(hash_key)
        if self._engine.options.limits and not stream.throttle(shard).admit_write(size, now_ms):
            if stream.on_demand:
                self._engine.scale(stream, shard)
            raise ServiceError("ProvisionedThroughputExceededException", f"shard {shard.shard_id} is written too fast")
        return shard, shard.append(partition_key, data, size, now_ms)

    # trimming by hand

    def trim(
        self,
        stream: Stream,
        shard_id: str | None = None,
        *,
        before: str | None = None,
        before_ms: int | None = None,
        keep: int | None = None,
        forget: bool = False,
    ) -> int:
        """Drop the oldest records of one shard or of all, as the retention would, and return how many went.

        :param before: drop what comes before this sequence number
        :param before_ms: drop what arrived before this time
        :param keep: drop all but this many of the newest records; without any of the three: drop all
        :param forget: closed shards also leave the listing
        """
        shards = [self._engine.find_shard(stream, shard_id)] if shard_id else list(stream.shards.values())
        gone = sum(shard.drop(before, before_ms, keep) for shard in shards)
        if forget:
            stream.forget([shard for shard in shards if shard.closed])
        return gone
