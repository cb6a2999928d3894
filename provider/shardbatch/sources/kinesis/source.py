# SPDX-License-Identifier: Apache-2.0
"""A Kinesis data stream as a source."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from shardbatch.core.ports import SYSTEM_CLOCK, Capabilities, Clock, Page
from shardbatch.core.position import SHARD_END, Kind, Position, at_timestamp
from shardbatch.core.shard import KeyRange, Shard
from shardbatch.sources.aws.calls import date_of
from shardbatch.sources.aws.pace import Pace
from shardbatch.sources.kinesis.calls import Caller
from shardbatch.sources.kinesis.fan_out import Choosing, Deadline, Progress
from shardbatch.sources.kinesis.hash_space import HASH_KEYS, missing
from shardbatch.sources.kinesis.listing import describe, list_all, open_at
from shardbatch.sources.kinesis.options import FanOut, KinesisOptions, StreamName
from shardbatch.sources.kinesis.pace import RATE
from shardbatch.sources.kinesis.polling import Polling, Way
from shardbatch.sources.kinesis.reader import ShardReader
from shardbatch.sources.kinesis.registration import Registration, consumer_name
from shardbatch.sources.kinesis.subscription import Subscribing
from shardbatch.sources.kinesis.words import WORDS
from shardbatch.sources.records import empty

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient


class KinesisSource:
    """Reads a Kinesis stream by polling or by enhanced fan-out; several shards at once from several threads.

    :param client: a boto3 client of ``kinesis``, with its endpoint, region and role; closed by :meth:`close`. Build it
        with ``Config(retries={"total_max_attempts": 1})``: retries are made here. Others do no harm, for every HTTP
        attempt keeps the shard's pace, but failures take longer to show.
    :param stream: the stream's name, or its ARN, which then stands in every call (streams of other accounts).
    :param clock: time and sleep, default this machine's.
    :param options: pace, page size and patience.
    :raises ConfigurationError: for a text that names no stream.
    """

    capabilities = Capabilities(
        lineage=True,
        instants=True,
        arrival_times=True,
        place_lives=timedelta(minutes=5),  # an iterator's (Kinesis API reference, GetShardIterator)
        # No stream can be set to less than 24 hours; an hour is far below that, whatever clocks differ by, and spares
        # runs that follow one another closely the question for the retention.
        least_retention=timedelta(hours=1),
        key_space=HASH_KEYS,
    )
    words = WORDS

    def __init__(
        self,
        client: KinesisClient,
        stream: str,
        *,
        clock: Clock | None = None,
        options: KinesisOptions | None = None,
    ) -> None:
        named = StreamName.parse(stream)
        self.name = named.name
        self._caller = Caller(client, named, clock or SYSTEM_CLOCK, options or KinesisOptions())
        self._paces: dict[str, Pace] = {}
        self._ranges: dict[str, KeyRange | None] = {}
        self._lock = threading.Lock()
        self._listing = threading.Lock()
        self._registration = self._fan_out()
        self._deadline = Deadline(self._caller.clock, self._caller.options.budget)
        self._consumers = 0

    @property
    def calls(self) -> Mapping[str, int]:
        """HTTP requests sent so far by the service's operation name (``GetRecords``), retries included."""
        return self._caller.calls

    def identity(self) -> str:
        """``ARN@creation time in ms``; ``ARN@unknown`` where the server tells no creation time.

        :raises StreamNotFound: if there is no such stream, or it is being deleted.
        """
        summary = describe(self._caller)
        self._consumers = summary.get("ConsumerCount", 0)
        created = summary.get("StreamCreationTimestamp")
        return f"{summary['StreamARN']}@{round(created.timestamp() * 1000) if created else 'unknown'}"

    def list_shards(self) -> Sequence[Shard]:
        """Every shard that the service lists, closed ones too, by starting sequence number.

        :raises StreamNotFound: if there is no such stream.
        """
        return list_all(self._caller)

    def missing(self, listing: Sequence[Shard]) -> str:
        """The hash keys that no open shard of a listing covers, and its closed shards without children."""
        return missing(listing)

    def open_at(self, instant_ms: int) -> Sequence[Shard] | None:
        """The shards that were open at an instant, of those that are still listed.

        :raises StreamNotFound: if there is no such stream.
        """
        return open_at(self._caller, instant_ms)

    def clock_ms(self) -> int | None:
        """The ``Date`` of one answer, in whole seconds, cut off; ``None`` for a server that sends none.

        :raises StreamNotFound: if there is no such stream.
        """
        return date_of(describe(self._caller))

    def resolve(self, start: Position, shard_id: str | None = None) -> Position:
        """``LATEST`` as the instant at which the service answers, for all shards; every other position as it is.

        The instant is the service's own, because records carry the service's time and this machine's clock may differ.
        Records of the second before may come along, none is left out. Where the server tells no time, it is this
        machine's.
        """
        if start.kind is not Kind.LATEST:
            return start
        there = self.clock_ms()
        return at_timestamp(self._caller.clock.now_ms() if there is None else there)

    def retention_ms(self) -> int | None:
        """How long the stream keeps a record, or ``None`` if the server does not say.

        :raises StreamNotFound: if there is no such stream.
        """
        hours = describe(self._caller).get("RetentionPeriodHours")
        return None if hours is None else int(hours) * 3_600_000

    def read(self, shard_id: str, after: Position) -> Iterator[Page]:
        """Pages of a shard, as :meth:`shardbatch.core.ports.Source.read` says.

        :raises StreamNotFound: if the stream is gone.
        :raises Throttled: if the service refuses calls for minutes.
        :raises InvalidAnswer: if answers stay incomplete or contradictory.
        :raises SourceError: if the service cannot be asked, or refuses.
        """
        if after == SHARD_END:
            yield Page(empty(), SHARD_END, ended=True, requests=0)
            return
        ask_range = partial(self._range, shard_id)
        # More than one record, so that an answer can show one that follows the place it was asked for.
        probe = Polling(self._caller, self._pace(shard_id), shard_id, max(2, self._caller.options.page_records))
        way = self._way(shard_id)
        yield from ShardReader(self._caller, way, probe, shard_id, self.resolve(after), ask_range).pages()

    def end_reading(self, others: Callable[[], bool]) -> None:
        """Remove the consumer that fan-out needed, unless others of the application still read.

        A source that has used none looks only if the stream's description, asked for before, counts any: a run that
        died may have left it.
        """
        registration = self._registration
        if registration is not None and (registration.used or self._consumers) and not others():
            registration.remove()

    def close(self) -> None:
        """Close the client."""
        self._caller.client.close()

    def _fan_out(self) -> Registration | None:
        options = self._caller.options
        if options.fan_out is FanOut.NEVER or not options.app_name:
            return None
        return Registration(self._caller, consumer_name(options.app_name))

    def _way(self, shard_id: str) -> Way:
        polling = Polling(self._caller, self._pace(shard_id), shard_id)
        if self._registration is None:
            return polling
        subscribing = Subscribing(self._caller, self._registration, shard_id)
        if self._caller.options.fan_out is FanOut.ALWAYS:
            return subscribing
        self._deadline.left()  # it begins with the first read
        progress = Progress(self._deadline)
        return Choosing(self._caller.clock, polling, subscribing, self._registration, progress)

    def _pace(self, shard_id: str) -> Pace:
        options: Any = self._caller.options
        with self._lock:
            if shard_id not in self._paces:
                idle = options.idle_interval.total_seconds()
                self._paces[shard_id] = Pace(self._caller.clock, 1 / options.calls_per_second, idle, RATE)
            return self._paces[shard_id]

    def _range(self, shard_id: str) -> KeyRange | None:
        """The hash range of a shard, which never changes; ``None`` if it is not listed (any more)."""
        with self._listing:
            if shard_id not in self._ranges:
                self._ranges.update((shard.shard_id, shard.hash_range) for shard in list_all(self._caller))
            return self._ranges.setdefault(shard_id, None)
