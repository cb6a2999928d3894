# SPDX-License-Identifier: Apache-2.0
"""The service's limits of one shard, on the server's clock."""

from __future__ import annotations

from collections import deque

MIB = 1024 * 1024
READ_CALLS = 5
ITERATOR_CALLS = 5
READ_BYTES = 2 * MIB
FULL_PAGE = 10 * MIB
FULL_PAGE_REST_MS = 5_000
WRITE_RECORDS = 1_000
WRITE_BYTES = MIB


class Meter:
    """Bytes read, worked off at 2 MiB a second."""

    def __init__(self) -> None:
        self._debt = 0.0
        self._at_ms = 0

    def rested(self, now_ms: int) -> bool:
        """Whether the next read may begin."""
        self._debt = max(0.0, self._debt - (now_ms - self._at_ms) * READ_BYTES / 1000)
        self._at_ms = now_ms
        return self._debt < READ_BYTES

    def charge(self, size: int) -> None:
        """Count bytes that were read."""
        self._debt += size


class Throttle:
    """What was read from and written to one shard lately. Refused calls cost nothing."""

    def __init__(self) -> None:
        self._calls: deque[int] = deque(maxlen=READ_CALLS)
        self._iterators: deque[int] = deque(maxlen=ITERATOR_CALLS)
        self._meter = Meter()
        self._rest_until_ms = 0
        self._second = -1
        self._written_records = 0
        self._written_bytes = 0

    def admit_read(self, now_ms: int) -> bool:
        """Whether the shard answers a read now; if so, the call is counted."""
        rested = self._meter.rested(now_ms)
        return rested and now_ms >= self._rest_until_ms and admit(self._calls, now_ms)

    def count_read(self, size: int, full: bool, now_ms: int) -> None:
        """Charge an answer of ``size`` bytes; a ``full`` one (cut at 10 MiB) makes the shard refuse for 5 s."""
        self._meter.charge(size)
        if full or size >= FULL_PAGE:
            self._rest_until_ms = now_ms + FULL_PAGE_REST_MS

    def admit_iterator(self, now_ms: int) -> bool:
        """Whether the shard gives an iterator now; if so, the call is counted."""
        return admit(self._iterators, now_ms)

    def admit_write(self, size: int, now_ms: int) -> bool:
        """Whether the shard takes a record of ``size`` bytes now; if so, it is counted."""
        second = now_ms // 1000
        if second != self._second:
            self._second, self._written_records, self._written_bytes = second, 0, 0
        if self._written_records >= WRITE_RECORDS or (self._written_bytes and self._written_bytes + size > WRITE_BYTES):
            return False
        self._written_records += 1
        self._written_bytes += size
        return True


def admit(calls: deque[int], now_ms: int) -> bool:
    """Whether a second has passed since the oldest of the calls that one second may have; if so, this one counts."""
    if len(calls) == calls.maxlen and now_ms - calls[0] < 1000:
        return False
    calls.append(now_ms)
    return True
