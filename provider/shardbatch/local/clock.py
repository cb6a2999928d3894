# SPDX-License-Identifier: Apache-2.0
"""The clock of the stream server: real or fixed, and it can be moved forward."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Clock:
    """Time as the stream server sees it.

    :param source: seconds since the epoch; default the system's clock. A test that wants to own the time passes a
        constant, for example ``Clock(lambda: 1_700_000_000.0)``, and moves it by :meth:`advance`.
    """

    def __init__(self, source: Callable[[], float] = time.time) -> None:
        self._source = source
        self._offset_ms = 0.0
        self._last_ms = 0
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        """Milliseconds since the epoch; never less than an earlier answer."""
        with self._lock:
            self._last_ms = max(self._last_ms, round(self._source() * 1000 + self._offset_ms))
            return self._last_ms

    def now(self) -> float:
        """Seconds since the epoch; never less than an earlier answer."""
        return self.now_ms() / 1000

    def advance(self, seconds: float) -> float:
        """Move the clock forward by ``seconds`` (0 or more) and return the new time in seconds since the epoch.

        Iterators and tokens expire, records past the retention disappear and delayed stream states are reached
        as if that time had gone by.

        :raises ValueError: ``seconds`` is negative: records already carry later times.
        """
        if not seconds >= 0:
            raise ValueError(f"the clock only moves forward, got {seconds!r} seconds; pass 0 or more")
        with self._lock:
            self._offset_ms += seconds * 1000
        return self.now()
