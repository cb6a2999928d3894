# SPDX-License-Identifier: Apache-2.0
"""When a shard may be asked again, how long a refused call waits, and when patience ends."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from shardbatch.core.ports import Clock
from shardbatch.errors import InvalidAnswer, SourceError, Throttled

#: Longest wait after a call that was refused for its rate.
LONGEST_REFUSAL = 5.0


@dataclass(frozen=True)
class Rate:
    """What a shard gives: bytes a second, as the service meters them. After an answer of ``full_answer`` bytes or more
    it refuses reads for ``full_answer_rest`` seconds."""

    bytes_per_second: int
    full_answer: int
    full_answer_rest: float


class Pace:
    """The service's limits of one shard: calls a second, and bytes a second counted from the end of an answer.

    Shared by all reads of the shard in this process.

    :param interval: seconds between two calls, at least.
    :param idle_interval: seconds between two calls where there is nothing new.
    """

    def __init__(self, clock: Clock, interval: float, idle_interval: float, rate: Rate) -> None:
        self._clock = clock
        self._rate = rate
        self._interval = interval
        self._idle_interval = idle_interval
        self._free_at = float("-inf")
        self._idle_until = float("-inf")
        self._lock = threading.Lock()

    def remaining(self) -> float:
        """Seconds until the shard may be asked again."""
        return max(0.0, max(self._free_at, self._idle_until) - self._clock.monotonic())

    def wait(self) -> float:
        """Sleep until the shard may be asked, without asking; seconds of that for the service's limits."""
        return self._sleep(self.remaining(), self._free_at)

    def take(self) -> float:
        """Sleep until the shard may be asked, and count a call that is sent right then; seconds of the sleep for the
        service's limits."""
        with self._lock:
            remaining, free_at = self.remaining(), self._free_at
            self._free_at = self._clock.monotonic() + remaining + self._interval
        return self._sleep(remaining, free_at)

    def answered(self, metered_bytes: int, *, idle: bool) -> None:
        """Charge an answer that has just come in whole."""
        rest = metered_bytes / self._rate.bytes_per_second
        if metered_bytes >= self._rate.full_answer:
            rest = max(rest, self._rate.full_answer_rest)
        with self._lock:
            now = self._clock.monotonic()
            self._free_at = max(self._free_at, now + rest)
            if idle:
                self._idle_until = now + self._idle_interval

    def _sleep(self, remaining: float, free_at: float) -> float:
        limited = min(remaining, max(0.0, free_at - self._clock.monotonic()))
        if remaining > 0:
            self._clock.sleep(remaining)
        return limited


class Patience:
    """Consecutive failures of one conversation, and the growing, jittered waits between them.

    Each method counts one failure and returns the seconds to wait, or raises the error when it is one too many.
    """

    def __init__(self, attempts: int, throttles: int, draw: Callable[[], float] = random.random) -> None:
        self._attempts = attempts
        self._throttles = throttles
        self._draw = draw
        self.reset()

    def reset(self) -> None:
        """An answer was good: begin anew."""
        self._throttled = 0
        self._failed = 0
        self._expired = 0

    def heard(self) -> None:
        """The service answered, whatever the answer is worth: refused calls are no longer in a row."""
        self._throttled = 0

    def throttled(self, error: Throttled) -> float:
        """The service refused a call for its rate."""
        self._throttled += 1
        if self._throttled > self._throttles:
            raise error
        return self._delay(self._throttled, 0.25, LONGEST_REFUSAL)

    def failed(self, error: SourceError) -> float:
        """A call failed, or its answer must not be believed."""
        self._failed += 1
        if self._failed >= self._attempts:
            raise error
        return self._delay(self._failed, 0.1, 3.0)

    def expired(self, error: SourceError) -> float:
        """An iterator or a token was too old; a new one is asked for at once."""
        self._expired += 1
        if self._expired >= self._attempts:
            raise InvalidAnswer(
                f"{self._expired} iterators or tokens in a row were expired or unknown when used."
            ) from error
        return 0.0

    def _delay(self, failures: int, first: float, most: float) -> float:
        ceiling: float = min(most, first * 2 ** (failures - 1))
        return ceiling * (0.5 + 0.5 * self._draw())
