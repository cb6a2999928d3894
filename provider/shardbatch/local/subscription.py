# SPDX-License-Identifier: Apache-2.0
"""Subscriptions to shards: what enhanced fan-out sends, event by event."""

from __future__ import annotations

import json
from dataclasses import dataclass
from time import monotonic

from shardbatch.local.calls import Call, Calls
from shardbatch.local.consumers import Consumer, Consumers, ConsumerStatus
from shardbatch.local.engine import Engine
from shardbatch.local.event_stream import frame_error, frame_event
from shardbatch.local.failure import ServiceError, in_use, status_of
from shardbatch.local.faults import Fault, FaultKind, Faults
from shardbatch.local.shard import Shard
from shardbatch.local.stream import Stream
from shardbatch.local.throttle import Meter

#: Under this name the log of calls has events, and faults hit them.
EVENT = "SubscribeToShardEvent"
MOST_RECORDS = 10_000
MOST_BYTES = 1024 * 1024
RENEW_MS = 5_000
CALL_MS = 1_000
LEAST_HEARTBEAT = 0.01


@dataclass(frozen=True)
class Event:
    """Bytes to send, and what shall go wrong with them; nothing comes after the ``last`` one."""

    body: bytes
    last: bool = False
    delay: float = 0.0
    keep: float | None = None
    reset: bool = False


class Subscription:
    """One consumer's subscription to one shard."""

    def __init__(self, owner: Subscriptions, stream: Stream, consumer: Consumer, shard: Shard, position: int) -> None:
        self._owner = owner
        self._stream = stream
        self._consumer = consumer
        self._shard = shard
        self._position = position
        self._started_ms = owner.engine.clock.now_ms()
        self._sent_at = float("-inf")
        self._meter = Meter()

    def next_event(self) -> Event | None:
        """What is to be sent now, or ``None``."""
        with self._owner.engine.lock:
            now_ms = self._owner.engine.clock.now_ms()
            over = self._over(now_ms)
            return over if over is not None else self._read(now_ms)

    def close(self) -> None:
        """The client does not listen any more."""
        with self._owner.engine.lock:
            self._owner.forget(self)

    @property
    def key(self) -> tuple[str, str]:
        """Of a consumer and a shard there is one subscription."""
        return self._consumer.arn, self._shard.shard_id

    def _over(self, now_ms: int) -> Event | None:
        """How the subscription ends, if it does."""
        if self._owner.current(self.key) is not self:
            return self._fail("ResourceInUseException", "another call took the subscription over")
        try:
            stream, consumer = self._owner.consumers.find(self._consumer.arn)
        except ServiceError as error:
            return self._fail(error.code, error.message)
        if stream is not self._stream or consumer.status is ConsumerStatus.DELETING:
            return self._fail("ResourceNotFoundException", f"consumer {consumer.arn} is gone")
        if now_ms - self._started_ms >= self._owner.engine.options.subscription_seconds * 1000:
            self._owner.forget(self)
            return Event(b"", last=True)
        return None

    def _read(self, now_ms: int) -> Event | None:
        options, shard = self._owner.engine.options, self._shard
        if options.limits and not self._meter.rested(now_ms):
            return None
        self._stream.trim(shard, now_ms)
        page = shard.read(self._position, MOST_RECORDS, MOST_BYTES)
        drained = shard.closed and page.next_count >= shard.next_count
        ended = drained and (options.end_with_records or not page.records)
        quiet = monotonic() - self._sent_at < max(options.heartbeat_seconds, LEAST_HEARTBEAT)
        if quiet and not page.records and not ended:
            return None
        fault = self._owner.take_fault(self._stream, shard)
        if fault is not None and fault.kind is FaultKind.ERROR:
            return self._fail(fault.error, fault.message)
        placeless = fault is not None and fault.kind is FaultKind.NO_ITERATOR
        event = self._event(page.records, page.next_count, now_ms, ended=ended, placeless=placeless)
        self._owner.log(self._stream, shard, now_ms, len(page.records))
        self._position, self._sent_at = page.next_count, monotonic()
        self._meter.charge(page.size)
        if ended:
            self._owner.forget(self)
        if fault is None:
            return Event(event, last=ended)
        cut, reset = fault.kind is FaultKind.CUT, fault.kind is FaultKind.RESET
        delay = fault.seconds if fault.kind is FaultKind.LATENCY else 0.0
        return Event(event, ended, delay, fault.keep if cut else None, reset)

    def _event(self, records: list[bytes], position: int, now_ms: int, *, ended: bool, placeless: bool) -> bytes:
        shard = self._shard
        arrival_ms = shard.arrival_ms(position)
        behind_ms = 0 if arrival_ms is None else max(now_ms - arrival_ms, 0)
        tail = b'],"MillisBehindLatest":%d' % behind_ms
        if not ended and not placeless:
            tail += b',"ContinuationSequenceNumber":"%d"' % shard.number_before(position, now_ms)
        elif ended and self._owner.engine.options.name_children:
            tail += b',"ChildShards":' + json.dumps([child.describe_child() for child in shard.children]).encode()
        return frame_event("SubscribeToShardEvent", b"".join((b'{"Records":[', b",".join(records), tail, b"}")))

    def _fail(self, code: str, message: str) -> Event:
        self._owner.forget(self)
        self._owner.log(self._stream, self._shard, self._owner.engine.clock.now_ms(), 0, code)
        return Event(frame_error(code, message), last=True)


class Subscriptions:
    """The subscriptions of an engine's streams."""

    def __init__(self, engine: Engine, consumers: Consumers, faults: Faults, calls: Calls) -> None:
        self.engine = engine
        self.consumers = consumers
        self._faults = faults
        self._calls = calls
        self._current: dict[tuple[str, str], Subscription] = {}
        self._called_ms: dict[tuple[str, str], int] = {}
        self._opened_ms: dict[tuple[str, str], int] = {}

    def open(self, stream: Stream, consumer: Consumer, shard: Shard, position: int) -> Subscription:
        """A new subscription; it takes an older one over.

        :raises ServiceError: ResourceInUseException while the consumer is not ACTIVE, or within 5 s of the last one;
            with ``Options.limits`` also LimitExceededException within 1 s of the last call
        """
        if consumer.status is not ConsumerStatus.ACTIVE:
            raise in_use(f"consumer {consumer.name} of stream {stream.name} is {consumer.status.value}")
        subscription = Subscription(self, stream, consumer, shard, position)
        key, now_ms = subscription.key, self.engine.clock.now_ms()
        called_ms, opened_ms = self._called_ms.get(key), self._opened_ms.get(key)
        self._called_ms[key] = now_ms
        if self.engine.options.limits and called_ms is not None and now_ms - called_ms < CALL_MS:
            raise ServiceError("LimitExceededException", f"{shard.shard_id} may be subscribed to once a second")
        if opened_ms is not None and now_ms - opened_ms < RENEW_MS:
            raise in_use(f"consumer {consumer.name} subscribed to {shard.shard_id} less than 5 s ago")
        self._opened_ms[key] = now_ms
        self._current[key] = subscription
        return subscription

    def current(self, key: tuple[str, str]) -> Subscription | None:
        """The subscription that stands."""
        return self._current.get(key)

    def forget(self, subscription: Subscription) -> None:
        """It is over."""
        if self._current.get(subscription.key) is subscription:
            del self._current[subscription.key]

    def take_fault(self, stream: Stream, shard: Shard) -> Fault | None:
        """The fault that hits the next event."""
        return next(iter(self._faults.take(EVENT, stream.name, shard.shard_id)), None)

    def log(self, stream: Stream, shard: Shard, now_ms: int, records: int, error: str | None = None) -> None:
        """Note an event beside the calls."""
        status = 200 if error is None else status_of(error)
        self._calls.add(Call(EVENT, stream.name, shard.shard_id, monotonic(), now_ms, status, error, records, 0))
