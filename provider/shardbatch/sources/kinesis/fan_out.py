# SPDX-License-Identifier: Apache-2.0
"""Whether a shard is read by polling or by enhanced fan-out, and going over from one to the other."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from typing import Any

from shardbatch.core.ports import Clock
from shardbatch.errors import InvalidAnswer, IteratorExpired, ShardNotFound, SourceError, StreamNotFound, Throttled
from shardbatch.sources.aws.pace import LONGEST_REFUSAL
from shardbatch.sources.aws.refusals import Unreachable
from shardbatch.sources.kinesis.decoder import Decoded
from shardbatch.sources.kinesis.pace import RATE
from shardbatch.sources.kinesis.polling import Polling, Wait
from shardbatch.sources.kinesis.refusals import PlaceRefused
from shardbatch.sources.kinesis.registration import Registration
from shardbatch.sources.kinesis.subscription import Subscribing

log = logging.getLogger("shardbatch")

#: A smaller backlog is not worth a consumer, whatever the estimate says: a shard gives as much in half a minute.
LEAST_BACKLOG = 64 * 1024 * 1024
#: A consumer takes about as long to be created.
LEAST_LEFT = 30.0
#: Part of the shard's rate above which fan-out, whose rate is the same, would not be faster.
FULL_SHARE = 0.75
#: Part of the time that must have gone by before an estimate counts.
EVIDENCE = 0.05
#: Failures in a row after which a subscription is given up for polling; one that is not asked for again counts for all.
MOST_FAILURES = 3
ASKED_AGAIN = (InvalidAnswer, IteratorExpired, PlaceRefused, ShardNotFound, Throttled, Unreachable)


class Deadline:
    """The time that all reads of a task have together; it begins with the first."""

    def __init__(self, clock: Clock, budget: timedelta) -> None:
        self._clock = clock
        self.budget = budget.total_seconds()
        self._began: float | None = None
        self._lock = threading.Lock()

    def left(self) -> float:
        """Seconds left."""
        with self._lock:
            now = self._clock.monotonic()
            self._began = now if self._began is None else self._began
            return self._began + self.budget - now


class Progress:
    """How far polling has come on one shard, measured: what remains by the service's lag and by the bytes that stood
    in a second of the stream so far, the rate by what came in a second of polling. The rate is thus this reader's share
    of the shard's 2 MiB/s, however many others poll it; time in which other shards had their turn does not count."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._seconds = 0.0
        self._bytes = 0
        self._lag_ms = 0
        self._arrivals: tuple[int, int] | None = None

    def add(self, answer: Decoded, seconds: float) -> None:
        """Count an answer, and how long it took, refusals and the waits after them included."""
        self._seconds += seconds
        self._bytes += answer.metered_bytes
        self._lag_ms = answer.millis_behind_latest
        if answer.records.num_rows:
            known = answer.records.column("arrival_time").drop_null()  # a server may tell no time of a record
            if len(known):
                first = self._arrivals[0] if self._arrivals else known[0].value // 1000
                self._arrivals = (first, known[-1].value // 1000)

    def too_slow(self) -> bool:
        """Whether polling will not reach the tip in the time that is left, and fan-out would be faster."""
        left = self._deadline.left()
        span_ms = self._arrivals[1] - self._arrivals[0] if self._arrivals else 0
        if span_ms <= 0 or left < LEAST_LEFT or self._seconds < EVIDENCE * self._deadline.budget:
            return False
        backlog, rate = self._bytes * self._lag_ms / span_ms, self._bytes / self._seconds
        return backlog > LEAST_BACKLOG and backlog > rate * left and rate < FULL_SHARE * RATE.bytes_per_second


class Choosing:
    """Polls, and goes over to fan-out once polling turns out too slow and there is a consumer; back if that fails."""

    def __init__(
        self,
        clock: Clock,
        polling: Polling,
        subscribing: Subscribing,
        registration: Registration,
        progress: Progress,
    ) -> None:
        self._clock = clock
        self._polling = polling
        self._subscribing = subscribing
        self._registration = registration
        self._progress = progress
        self._wanted = False
        self._way: Polling | Subscribing = polling
        self._refused_at: float | None = None
        self._spent = 0.0
        self._failures = 0
        self._given_up = False

    def ask(self, place: dict[str, Any]) -> Decoded | Wait:
        """The next answer, of whichever way is chosen now."""
        if self._wanted and self._way is self._polling and self._ready():
            self.drop()
            self._way = self._subscribing
        if self._way is self._polling:
            return self._poll(place)
        try:
            return self._subscribing.ask(place)
        except StreamNotFound:
            raise
        except SourceError as error:
            self._failures += 1
            if isinstance(error, ASKED_AGAIN) and self._failures < MOST_FAILURES:
                raise
            self._give_up(error)
            return Wait(0.0)

    def accept(self, answer: Decoded) -> None:
        """Count what polling achieves."""
        self._failures = 0
        self._way.accept(answer)
        if self._way is self._polling and not self._given_up:
            self._wanted = self._wanted or self._progress.too_slow()

    def reject(self) -> None:
        """The answer was not believed."""
        self._way.reject()

    def drop(self) -> None:
        """Begin anew."""
        self._way.drop()

    def _poll(self, place: dict[str, Any]) -> Decoded:
        began = self._clock.monotonic()
        if self._refused_at is not None:  # the wait after it counts; what is longer were turns of other shards
            self._spent += min(began - self._refused_at, LONGEST_REFUSAL)
        try:
            answer = self._polling.ask(place)
        except SourceError:
            self._refused_at = self._clock.monotonic()
            self._spent += self._refused_at - began
            raise
        self._progress.add(answer, self._spent + self._clock.monotonic() - began)
        self._refused_at, self._spent = None, 0.0
        return answer

    def _ready(self) -> bool:
        try:
            return self._registration.arn() is not None
        except StreamNotFound:
            raise
        except SourceError as error:
            self._give_up(error)
            return False

    def _give_up(self, error: SourceError) -> None:
        log.warning("Enhanced fan-out cannot be used, so polling goes on: %s", error)
        self.drop()
        self._way, self._wanted, self._given_up = self._polling, False, True
