# SPDX-License-Identifier: Apache-2.0
"""The stream's own time at moments of a read task, never later than it was (PROTOCOL C2)."""

from __future__ import annotations

import threading

from shardbatch.core.interval import CLOCKS_APART_MS
from shardbatch.errors import SourceError, StreamNotFound
from shardbatch.masking import masked
from shardbatch.run.consumer import Consumer


class StreamClock:
    """Asks the stream for its time once, before the task's first read, and goes on by the monotonic clock.

    That clock may stand still while a machine sleeps. Then the time told is too early, and nothing more is promised
    than is true.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._lock = threading.Lock()
        self._asked = False
        self._told: tuple[int, float] | None = None

    def begin(self) -> None:
        """Ask, unless another read of the task has. Without an answer, the worker's clock counts, less what clocks may
        differ."""
        with self._lock:
            if not self._asked:
                self._ask()
                self._asked = True

    def _ask(self) -> None:
        try:
            there = self._consumer.source.clock_ms()
        except StreamNotFound:
            raise
        except SourceError as error:
            self._consumer.say(f"The stream does not tell its time, so this worker's counts: {masked(str(error))}")
            return
        if there is not None:
            self._told = there, self._consumer.clock.monotonic()

    def at(self, monotonic: float, now_ms: int) -> int:
        """The stream's time at a moment of this task, of which both of the worker's clocks are given."""
        if self._told is None:
            return now_ms - CLOCKS_APART_MS
        there, then = self._told
        return there + int((monotonic - then) * 1000)
