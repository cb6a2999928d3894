# SPDX-License-Identifier: Apache-2.0
"""What several empty answers in a row say about a place in a shard whose lag does not become zero."""

from __future__ import annotations

from collections import deque

#: Empty answers in a row after which their lag is believed, if it fell no more: a lag is a count or a flag in some
#: services, a single answer may say anything, and a lag that falls will reach zero.
BELIEVED = 5
#: A place stands still if so many empty answers, over so many seconds, brought it no nearer to the tip. A sparse old
#: stretch that is being scanned comes nearer with every answer, by minutes.
STILL_ANSWERS = 30
STILL_SECONDS = 120.0
#: Seconds without any answer after which a read is given up.
SILENT_SECONDS = 600.0


class Idle:
    """Empty answers in a row, the newest last; a record begins them anew.

    The time of a place is the clock's less the lag: all that arrived before it has been read.
    """

    def __init__(self, monotonic: float) -> None:
        self._places: deque[tuple[int, int]] = deque(maxlen=BELIEVED)
        self._mark: tuple[float, int] | None = None
        self._since_mark = 0
        self._unheard = 0
        self._heard = monotonic
        self.still = False

    def add(self, records: int, lag: int | None, now_ms: int, monotonic: float, *, silent: bool = False) -> None:
        """Count an answer; ``silent``: it was none. Without a lag it says nothing of where the place is."""
        if silent:
            self._unheard += 1
            self.still |= self._unheard >= STILL_ANSWERS and monotonic - self._heard >= SILENT_SECONDS
            return
        self._heard, self._unheard = monotonic, 0
        if records or lag is None:
            self._places.clear()
            self._mark, self.still = None, False
            return
        self._places.append((now_ms - lag, lag))
        if self._mark is None:
            self._mark, self._since_mark = (monotonic, lag), 0
            return
        self._since_mark += 1
        began, behind = self._mark
        if self._since_mark < STILL_ANSWERS or monotonic - began < STILL_SECONDS:
            return
        self.still = lag >= behind
        self._mark, self._since_mark = (monotonic, lag), 0

    @property
    def read_up_to_ms(self) -> int | None:
        """Before this instant nothing is unread, by the clock of the reader; ``None`` if there were too few answers."""
        if len(self._places) < BELIEVED or self._places[-1][1] < self._places[0][1]:
            return None
        return min(place for place, _ in self._places)

    def reached(self, instant_ms: int) -> bool:
        """Whether the place is known to have passed an instant."""
        known = self.read_up_to_ms
        return known is not None and known >= instant_ms
