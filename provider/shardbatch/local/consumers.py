# SPDX-License-Identifier: Apache-2.0
"""Registered consumers of streams: those that enhanced fan-out sends records to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from weakref import WeakKeyDictionary

from shardbatch.local.engine import Engine
from shardbatch.local.failure import ServiceError, in_use, not_found
from shardbatch.local.stream import Stream

CONSUMER_ARN = re.compile(
    r"arn:aws[^:]*:kinesis:([^:]*):(\d{12}):stream/([a-zA-Z0-9_.-]{1,128})/consumer/([a-zA-Z0-9_.-]{1,128}):\d+"
)
MOST_CONSUMERS = 20
MOST_CREATING = 5


class ConsumerStatus(StrEnum):
    """State of a consumer, as the service names it."""

    CREATING = "CREATING"
    ACTIVE = "ACTIVE"
    DELETING = "DELETING"


@dataclass
class Consumer:
    """A registered consumer; it leaves its state at ``due_ms``."""

    name: str
    arn: str
    created_ms: int
    status: ConsumerStatus
    due_ms: int


class Consumers:
    """The consumers of an engine's streams."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._by_stream: WeakKeyDictionary[Stream, dict[str, Consumer]] = WeakKeyDictionary()

    def list(self, stream: Stream) -> list[Consumer]:
        """A stream's consumers by name, brought to the present."""
        now_ms = self._engine.clock.now_ms()
        consumers = self._by_stream.setdefault(stream, {})
        for consumer in [consumer for consumer in consumers.values() if consumer.due_ms <= now_ms]:
            if consumer.status is ConsumerStatus.DELETING:
                del consumers[consumer.name]
            else:
                consumer.status = ConsumerStatus.ACTIVE
        return [consumer for _, consumer in sorted(consumers.items())]

    def register(self, stream: Stream, name: str) -> Consumer:
        """Add a consumer; it is CREATING for ``Options.consumer_seconds``.

        :raises ServiceError: ResourceInUseException if the name is taken, LimitExceededException above 20 consumers of
            the stream, or 5 in creation
        """
        present = self.list(stream)
        if any(consumer.name == name for consumer in present):
            raise in_use(f"consumer {name} of stream {stream.name} exists already")
        creating = sum(consumer.status is ConsumerStatus.CREATING for consumer in present)
        if len(present) >= MOST_CONSUMERS or creating >= MOST_CREATING:
            raise ServiceError(
                "LimitExceededException",
                f"stream {stream.name} has {len(present)} consumers, {creating} of them in creation; "
                f"it may have {MOST_CONSUMERS} and {MOST_CREATING}",
            )
        now_ms = self._engine.clock.now_ms()
        consumer = Consumer(
            name, f"{stream.arn}/consumer/{name}:{now_ms // 1000}", now_ms, ConsumerStatus.CREATING, self._due(now_ms)
        )
        self._by_stream[stream][name] = consumer
        self.list(stream)
        return consumer

    def deregister(self, stream: Stream, consumer: Consumer) -> None:
        """Remove a consumer; it is DELETING for ``Options.consumer_seconds``, and its subscriptions end at once."""
        consumer.status, consumer.due_ms = ConsumerStatus.DELETING, self._due(self._engine.clock.now_ms())
        self.list(stream)

    def named(self, stream: Stream, name: str) -> Consumer:
        """The stream's consumer of that name.

        :raises ServiceError: ResourceNotFoundException
        """
        for consumer in self.list(stream):
            if consumer.name == name:
                return consumer
        raise not_found(f"no consumer {name} of stream {stream.name}")

    def find(self, arn: str) -> tuple[Stream, Consumer]:
        """The consumer of that ARN, which also tells when it was registered, and its stream.

        :raises ServiceError: ResourceNotFoundException
        """
        match = CONSUMER_ARN.fullmatch(arn)
        assert match is not None
        region, account, stream_name, name = match.groups()
        stream = self._engine.find(self._engine.home(account, region), stream_name)
        consumer = self.named(stream, name)
        if consumer.arn != arn:
            raise not_found(f"consumer {name} of stream {stream_name} has another ARN: {consumer.arn}")
        return stream, consumer

    def _due(self, now_ms: int) -> int:
        return now_ms + int(self._engine.options.consumer_seconds * 1000)
