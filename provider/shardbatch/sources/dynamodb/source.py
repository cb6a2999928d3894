# SPDX-License-Identifier: Apache-2.0
"""The stream of a DynamoDB table as a source."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from shardbatch.core.ports import SYSTEM_CLOCK, Capabilities, Clock, Page
from shardbatch.core.position import SHARD_END, Kind, Position, at_timestamp
from shardbatch.core.shard import Shard
from shardbatch.sources.aws.calls import date_of
from shardbatch.sources.aws.pace import Pace
from shardbatch.sources.dynamodb.calls import Caller
from shardbatch.sources.dynamodb.decoder import empty
from shardbatch.sources.dynamodb.listing import StreamListing
from shardbatch.sources.dynamodb.options import DynamoDBOptions, TableName
from shardbatch.sources.dynamodb.pace import UNMETERED
from shardbatch.sources.dynamodb.reader import ShardReader
from shardbatch.sources.dynamodb.words import WORDS

#: The service keeps each change for a day, and there is no setting for it.
RETENTION = timedelta(hours=24)
#: Seconds for which two listings are good enough to agree that a shard has left the stream.
LISTING_LIVES = 60.0


class DynamoDBSource:
    """Reads the stream of a table; several shards at once from several threads.

    :param tables: a boto3 client of ``dynamodb``, which is asked for a table's stream; ``None`` where ``table`` is the
        ARN of a stream.
    :param streams: a boto3 client of ``dynamodbstreams``. Both are closed by :meth:`close`. Build them with
        ``Config(retries={"total_max_attempts": 1})``: retries are made here.
    :param table: the table's name or ARN, whose latest stream is read; or the ARN of a stream.
    :param clock: time and sleep, default this machine's.
    :param options: pace, page size, images and patience.
    :raises ConfigurationError: for a text that names no table.
    """

    capabilities = Capabilities(
        lineage=True,
        instants=True,
        arrival_times=True,
        place_lives=timedelta(minutes=15),  # an iterator's (DynamoDB API reference, GetShardIterator)
        # A stream keeps 24 hours, which cannot be set; an hour is far below that, whatever clocks differ by.
        least_retention=timedelta(hours=1),
    )
    words = WORDS

    def __init__(
        self,
        tables: Any,
        streams: Any,
        table: str,
        *,
        clock: Clock | None = None,
        options: DynamoDBOptions | None = None,
    ) -> None:
        named, clock, options = TableName.parse(table), clock or SYSTEM_CLOCK, options or DynamoDBOptions()
        self.name = named.name
        self._clients = [client for client in (tables, streams) if client is not None]
        self._caller = Caller(streams, "dynamodb-streams", named, clock, options)
        of_tables = None if named.stream_arn else Caller(tables, "dynamodb", named, clock, options)
        self._callers = [self._caller, *([of_tables] if of_tables else [])]
        self._stream = StreamListing(of_tables, self._caller)
        self._paces: dict[str, Pace] = {}
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._seen: tuple[float, frozenset[str]] | None = None

    @property
    def calls(self) -> Mapping[str, int]:
        """HTTP requests sent so far by the service's operation name (``GetRecords``), retries included."""
        return sum((caller.calls for caller in self._callers), Counter[str]())

    def identity(self) -> str:
        """The stream's ARN. It ends with the time at which the stream was enabled, so one that is enabled again is
        another.

        :raises StreamNotFound: if there is no such table, it has no stream, or the stream is gone.
        :raises ConfigurationError: if the stream does not carry the images that the options ask for.
        """
        return str(self._stream.describe()["StreamArn"])

    def list_shards(self) -> Sequence[Shard]:
        """Every shard that the service lists, closed ones too, the oldest first. Parents leave it before children.

        :raises StreamNotFound: if there is no such stream.
        :raises InvalidAnswer: if the pages run in a circle.
        """
        return self._stream.shards()

    def missing(self, listing: Sequence[Shard]) -> str:
        """Nothing: shards have no ranges, and a closed shard may have no child."""
        return ""

    def open_at(self, instant_ms: int) -> Sequence[Shard] | None:
        """Unknown: a listing does not say when a shard was opened or closed."""
        return None

    def clock_ms(self) -> int | None:
        """The ``Date`` of one answer, in whole seconds, cut off; ``None`` for a server that sends none.

        :raises StreamNotFound: if there is no such stream.
        """
        return date_of(self._stream.describe())

    def resolve(self, start: Position, shard_id: str | None = None) -> Position:
        """``LATEST`` as the instant at which the service answers, for all shards; every other position as it is.

        Records of the second before may come along, none is left out. Where the server tells no time, it is this
        machine's.
        """
        if start.kind is not Kind.LATEST:
            return start
        there = self.clock_ms()
        return at_timestamp(self._caller.clock.now_ms() if there is None else there)

    def retention_ms(self) -> int | None:
        """A day: the service has no other."""
        return int(RETENTION.total_seconds() * 1000)

    def read(self, shard_id: str, after: Position) -> Iterator[Page]:
        """Pages of a shard, as :meth:`shardbatch.core.ports.Source.read` says.

        From an instant on, it begins with the first record that shows the instant's second or a later one.

        :raises StreamNotFound: if the stream is gone.
        :raises Throttled: if the service refuses calls for minutes.
        :raises InvalidAnswer: if answers stay incomplete or contradictory.
        :raises SourceError: if the service cannot be asked, or refuses.
        """
        if after == SHARD_END:
            yield Page(empty(), SHARD_END, ended=True, requests=0)
            return
        start = self.resolve(after)
        yield from ShardReader(self._caller, self._stream, shard_id, start, self._pace, self._listed).pages()

    def end_reading(self, others: Callable[[], bool]) -> None:
        """Nothing was set up."""

    def close(self) -> None:
        """Close the clients."""
        for client in self._clients:
            client.close()

    def _pace(self, shard_id: str) -> Pace:
        options = self._caller.options
        with self._lock:
            if shard_id not in self._paces:
                idle = options.idle_interval.total_seconds()
                self._paces[shard_id] = Pace(self._caller.clock, 1 / options.calls_per_second, idle, UNMETERED)
            return self._paces[shard_id]

    def _listed(self, shard_id: str) -> bool:
        """Whether one of two listings in a row has a shard (W11). They answer for all shards that leave the stream at a
        time, but not for one that was seen as a child since.

        :raises StreamNotFound: if it is the stream that is gone.
        """
        with self._looking:
            self._stream.describe()
            now, seen = self._caller.clock.monotonic(), self._seen
            old = seen is None or now - seen[0] > LISTING_LIVES or seen[0] <= self._stream.child_seen(shard_id)
            if seen is None or old or shard_id in seen[1]:
                both = (shard.shard_id for _ in range(2) for shard in self._stream.shards())
                self._seen = seen = now, frozenset(both)
            return shard_id in seen[1]
