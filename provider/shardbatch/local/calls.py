# SPDX-License-Identifier: Apache-2.0
"""A log of calls as the server saw them, so that a test can count them and measure their spacing."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

MOST_CALLS = 500_000


@dataclass(frozen=True)
class Call:
    """One call."""

    operation: str
    stream: str | None
    shard: str | None
    monotonic: float
    """Seconds on the server's monotonic clock when the request was read."""
    clock_ms: int
    """The server's clock, in milliseconds since the epoch."""
    status: int
    """HTTP status of the answer; 0 if the connection was reset."""
    error: str | None
    """Error name, or None."""
    records: int
    """Records read or written."""
    shards: int
    """Shards listed."""

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


class Calls:
    """The latest 500,000 calls, oldest first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: deque[Call] = deque(maxlen=MOST_CALLS)

    def add(self, call: Call) -> None:
        """Note a call."""
        with self._lock:
            self._calls.append(call)

    def list(self, operation: str | None = None, stream: str | None = None, shard: str | None = None) -> list[Call]:
        """Calls of an operation, a stream, a shard; default all."""
        with self._lock:
            calls = list(self._calls)
        return [
            call
            for call in calls
            if operation in (None, call.operation) and stream in (None, call.stream) and shard in (None, call.shard)
        ]

    def count(self, operation: str | None = None, stream: str | None = None, shard: str | None = None) -> int:
        """How many calls there were."""
        return len(self.list(operation, stream, shard))

    def clear(self) -> None:
        """Forget all calls."""
        with self._lock:
            self._calls.clear()
