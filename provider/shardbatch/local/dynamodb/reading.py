# SPDX-License-Identifier: Apache-2.0
"""Iterators and reads of a table's stream."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from shardbatch.local.dynamodb.failure import no_shard, trimmed
from shardbatch.local.dynamodb.shard import ChangeShard
from shardbatch.local.dynamodb.stream import ChangeStream
from shardbatch.local.dynamodb.tables import Tables
from shardbatch.local.failure import ServiceError, malformed
from shardbatch.local.records import IteratorType

MAX_PAGE_BYTES = 1024 * 1024


class ChangeIterator(NamedTuple):
    """A place in a shard. ``hops`` empty answers stand before it; ``serial`` makes every iterator another text, and
    those that came from one call of GetShardIterator have its ``reader``."""

    stream: str
    shard_id: str
    position: int
    hops: int
    issued_ms: int
    reader: int
    serial: int


@dataclass(frozen=True)
class ChangePage:
    """What one read found."""

    records: list[bytes]
    next_iterator: str | None


class ChangeReader:
    """Reads the streams of the tables."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._engine = tables.engine
        self._serials = count(1)

    def make_iterator(
        self, stream: ChangeStream, shard_id: str, kind: IteratorType, number: str | None, timestamp_ms: int | None
    ) -> str:
        """A new iterator.

        :raises ServiceError: ResourceNotFoundException, TrimmedDataAccessException; ValidationException for a sequence
            number that the shard never gave out, a timestamp in the future, or a place of another type
        """
        by_number = kind in (IteratorType.AT_SEQUENCE_NUMBER, IteratorType.AFTER_SEQUENCE_NUMBER)
        if by_number != (number is not None):
            raise malformed("SequenceNumber goes with the types AT_ and AFTER_SEQUENCE_NUMBER, and with no other")
        if (kind is IteratorType.AT_TIMESTAMP) != (timestamp_ms is not None):
            raise malformed("Timestamp goes with the type AT_TIMESTAMP, and with no other")
        now_ms = self._engine.clock.now_ms()
        shard = self._find_shard(stream, shard_id, now_ms)
        position = shard.first_count
        if kind is IteratorType.LATEST:
            position = shard.next_count
        elif timestamp_ms is not None:
            if timestamp_ms > now_ms:
                raise malformed(f"Timestamp {timestamp_ms / 1000} lies in the future: it is {now_ms / 1000}")
            # Records show whole seconds, and by those they are found.
            position = shard.count_since(-(-timestamp_ms // 1000) * 1000)
        elif number is not None:
            position = self._find_number(shard, number, after=kind is IteratorType.AFTER_SEQUENCE_NUMBER)
        reader = next(self._serials)
        hops = self._engine.options.empty_pages
        return self._seal(ChangeIterator(stream.arn, shard_id, position, hops, now_ms, reader, reader))

    def open_iterator(self, text: str) -> ChangeIterator:
        """What an iterator says, expired or not.

        :raises ServiceError: ValidationException if it is not one of ours
        """
        fields = self._engine.sealer.open("changes", text)
        if fields is None:
            raise malformed("Invalid ShardIterator: it is not one that this server gave out")
        return ChangeIterator(*fields)  # type: ignore[arg-type]

    def read(self, iterator: ChangeIterator, limit: int, *, empty: bool = False) -> ChangePage:
        """Records from ``iterator`` on.

        :param empty: answer nothing this time, as the service may at any moment, and move on
        :raises ServiceError: ExpiredIteratorException, ResourceNotFoundException, TrimmedDataAccessException,
            LimitExceededException
        """
        options, now_ms = self._engine.options, self._engine.clock.now_ms()
        age_ms = now_ms - iterator.issued_ms
        if age_ms > options.change_iterator_seconds * 1000:
            raise ServiceError("ExpiredIteratorException", f"the iterator is {age_ms // 1000} s old; get a new one")
        stream = self._tables.find_stream(iterator.stream)
        shard = self._find_shard(stream, iterator.shard_id, now_ms)
        self._tables.check_reader(shard, iterator.reader)
        if iterator.position < shard.first_count:
            raise trimmed("the iterator stands before the oldest record of its shard")
        if empty or iterator.hops:
            hops = iterator.hops if empty else iterator.hops - 1
            return ChangePage([], self._go_on(iterator, iterator.position, hops, now_ms))
        page = shard.read(iterator.position, limit, MAX_PAGE_BYTES)
        drained = shard.closed and page.next_count >= shard.next_count
        if drained and (options.end_with_records or not page.records):
            return ChangePage(page.records, None)
        return ChangePage(page.records, self._go_on(iterator, page.next_count, 0, now_ms))

    def _find_shard(self, stream: ChangeStream, shard_id: str, now_ms: int) -> ChangeShard:
        shard = stream.shards.get(shard_id)
        if shard is None:
            raise no_shard()
        stream.trim(shard, now_ms)
        return shard

    @staticmethod
    def _find_number(shard: ChangeShard, number: str, *, after: bool) -> int:
        found = shard.count_of(int(number))
        if found is None:
            raise malformed(f"Invalid SequenceNumber: {number} does not belong to shard {shard.shard_id}")
        if found < shard.first_count and shard.first_count > 1:
            raise trimmed(f"{number} is older than the oldest record of shard {shard.shard_id}")
        return max(found + after, 1)

    def _go_on(self, iterator: ChangeIterator, position: int, hops: int, now_ms: int) -> str:
        serial = next(self._serials)
        return self._seal(iterator._replace(position=position, hops=hops, issued_ms=now_ms, serial=serial))

    def _seal(self, iterator: ChangeIterator) -> str:
        return self._engine.sealer.seal("changes", iterator)
