# SPDX-License-Identifier: Apache-2.0
"""A Kinesis data stream, as a DAG author declares it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from shardbatch.core.policies import StartingPosition
from shardbatch.errors import ConfigurationError
from shardbatch.hooks.arns import region_for, require_one_region
from shardbatch.hooks.connections import aws_client, require_id
from shardbatch.hooks.stream_fields import START, Choices, choose, position_of, rendered, require_ranges, require_zone
from shardbatch.sources.kinesis.options import Deaggregate, FanOut, StreamName, no_stream, service_limits

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

    from shardbatch.core.ports import Source
    from shardbatch.core.position import Position
    from shardbatch.core.registered import Registered
    from shardbatch.sources.kinesis.registration import Registration

CHOICES: Choices = (*START, ("deaggregate", Deaggregate, ""), ("fan_out", FanOut, ""))
TEXTS = ("name", "stream_arn", "aws_conn_id", "region_name", "start", "deaggregate", "fan_out")


@dataclass(frozen=True)
class KinesisStream:
    """A Kinesis data stream. All texts may be templates.

    :param name: the stream's name, or its ARN (for the stream of another account).
    :param stream_arn: the ARN, instead of the name.
    :param aws_conn_id: Airflow's AWS connection, default ``aws_default``; endpoint, role and region are taken from it.
        ``None`` stands for the worker's own credentials.
    :param region_name: default: the ARN's, else the connection's. Another one than the ARN's is refused.
    :param start: where a new application, without checkpoints, begins: ``TRIM_HORIZON`` (default: everything that the
        stream still holds), ``LATEST``, or an aware ``datetime`` (records that arrived then or later; while it lies
        ahead of the stream's clock, runs find nothing to read). It counts only at the first claim.
    :param page_records: the most records in one answer, default 10,000 (1 to 10,000). Records of aggregates are landed
        in pages of at most this size.
    :param calls_per_second: calls that a read makes on one shard, default 4 (above 0, at most 5, which is the service's
        limit for all readers of a shard together).
    :param deaggregate: how to treat a record into which a producer packed several (KPL aggregation). ``on`` (default):
        its records are delivered one by one, each with a ``sub_sequence_number``, even those whose hash key is outside
        the shard's range, as after a reshard. ``strict``: an aggregate with such a record is dropped whole and counted,
        as the Kinesis Client Library does; correct only if every producer sends its records again, as the Kinesis
        Producer Library does. ``off``: it is delivered unchanged, as one record.
    :param fan_out: enhanced fan-out: a consumer of the application's own, which gets the full 2 MiB a second of each
        shard. AWS charges for it by shard and hour while it is registered, and by GB. ``auto`` (default): for a shard
        that polling, as measured, cannot read to its tip within ``ReadLimits.duration``, if the connection's role may;
        ``always``; ``never``. An interval run polls.
    :raises ConfigurationError: for a stream without a name, a text that is neither a name nor an ARN, an unknown
        start, ``deaggregate`` or ``fan_out``, a ``datetime`` without a zone, a number out of its range, or a region
        that is not the ARN's.
    """

    name: str = ""
    stream_arn: str = ""
    aws_conn_id: str | None = "aws_default"
    region_name: str | None = None
    start: StartingPosition | str | datetime = StartingPosition.TRIM_HORIZON
    page_records: int = 10_000
    calls_per_second: float = 4.0
    deaggregate: Deaggregate | str = Deaggregate.ON
    fan_out: FanOut | str = FanOut.AUTO

    def __post_init__(self) -> None:
        if bool(self.name) == bool(self.stream_arn):
            raise ConfigurationError(
                "KinesisStream has neither or both of a name and stream_arn.", remedy="Give one of them."
            )
        require_id("KinesisStream(aws_conn_id)", self.aws_conn_id)
        require_ranges(self, *service_limits(self.page_records, self.calls_per_second))
        require_zone(self.start, "KinesisStream")
        self._require_texts(lambda text: "{{" not in str(text))

    def _require_texts(self, known: Callable[[object], bool]) -> None:
        """Check that texts can be used that are ``known``, because they are not templates any more."""
        if known(self.address):
            self._require_address()
            require_one_region("KinesisStream", self.address, self.region_name)
        choose(self, CHOICES, known)

    def _require_address(self) -> None:
        if StreamName.parse(self.address).arn is None and self.stream_arn:
            raise no_stream(self.address)

    @property
    def address(self) -> str:
        """The name or the ARN, whichever was given."""
        return self.stream_arn or self.name

    @property
    def stream_name(self) -> str:
        """The name that stands in the namespace; of an ARN, its last part."""
        return self.address.rpartition("/")[2]

    @property
    def position(self) -> Position:
        """The start as a position."""
        return position_of(self.start)

    def rendered(self, render: Callable[[str], str]) -> KinesisStream:
        """With its templates rendered.

        :raises ConfigurationError: for a text that rendering left unusable.
        """
        done = replace(self, **rendered(self, render, TEXTS))
        done._require_texts(lambda text: True)
        return done

    def open(self, app_name: str = "", budget: timedelta | None = None) -> Source:
        """The source; no call is made yet.

        :param app_name: the application, whose name a consumer of fan-out has.
        :param budget: time that one task reads; ``None``: without end, so that there is nothing to be too slow for.
        :raises ConfigurationError: if the connection or a library is missing.
        """
        client = self._client()
        from shardbatch.sources.kinesis.options import KinesisOptions
        from shardbatch.sources.kinesis.source import KinesisSource

        options = KinesisOptions(
            page_records=self.page_records,
            calls_per_second=self.calls_per_second,
            deaggregate=Deaggregate(self.deaggregate),
        )
        if budget is not None:
            options = replace(options, fan_out=FanOut(self.fan_out), app_name=app_name, budget=budget)
        return KinesisSource(client, self.address, options=options)

    def registered(self, app_name: str) -> Registered:
        """The consumer of fan-out that an application may have here; no call is made yet."""
        from shardbatch.sources.kinesis.registration import consumer_name

        return LazyConsumer(self, consumer_name(app_name))

    def _client(self) -> KinesisClient:
        """A client of the service.

        :raises ConfigurationError: if the connection or a library is missing.
        """
        made: KinesisClient = aws_client(
            "kinesis",
            self.aws_conn_id,
            region_for(self.address, self.region_name),
            retries={"total_max_attempts": 1, "mode": "standard"},  # the source itself retries, at the shard's pace
            max_pool_connections=64,
        )
        return made


@dataclass(frozen=True)
class LazyConsumer:
    """Implements :class:`shardbatch.core.registered.Registered`; the client is made when it is asked.

    :param stream: the stream that it is registered with.
    :param name: its own name.
    """

    stream: KinesisStream
    name: str

    def stands(self) -> bool:
        """Whether the service has it; not where the stream is gone.

        :raises ShardbatchError: if the service cannot be asked, or refuses.
        """
        with self._opened() as registration:
            return registration.stands()

    def take_away(self) -> bool:
        """Remove it; whether there was one.

        :raises ShardbatchError: if the service cannot be asked, or refuses.
        """
        with self._opened() as registration:
            return registration.take_away()

    @contextmanager
    def _opened(self) -> Iterator[Registration]:
        from shardbatch.core.ports import SYSTEM_CLOCK
        from shardbatch.sources.kinesis.calls import Caller
        from shardbatch.sources.kinesis.options import KinesisOptions
        from shardbatch.sources.kinesis.registration import Registration

        client = self.stream._client()
        with closing(client):
            caller = Caller(client, StreamName.parse(self.stream.address), SYSTEM_CLOCK, KinesisOptions())
            yield Registration(caller, self.name)


def stream_at(arn: str, aws_conn_id: str | None, region_name: str | None) -> KinesisStream:
    """The stream of an ARN."""
    return KinesisStream(stream_arn=arn, aws_conn_id=aws_conn_id, region_name=region_name)
