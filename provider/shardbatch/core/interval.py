# SPDX-License-Identifier: Apache-2.0
"""A span of arrival times, for runs that read an interval beside the live application."""

from __future__ import annotations

from dataclasses import dataclass

from shardbatch.errors import ConfigurationError

#: How long before an interval its read begins, and how far it goes on after the first record that arrived too late:
#: arrival times may go backwards a little, for they are neither accurate nor monotonic.
MARGIN_MS = 60_000
#: How much the clocks of two workers, or of a worker and a stream, may differ.
CLOCKS_APART_MS = 300_000


@dataclass(frozen=True)
class Interval:
    """Arrival times from ``from_ms``, included, to ``to_ms``, not included; milliseconds since the epoch, UTC.

    :raises ConfigurationError: if it is empty or runs backwards.
    """

    from_ms: int
    to_ms: int

    def __post_init__(self) -> None:
        if self.to_ms <= self.from_ms:
            raise ConfigurationError(
                f"The interval from {self.from_ms} to {self.to_ms} (ms) is empty.",
                remedy="Give 'to' after 'from', or schedule the DAG with CronDataIntervalTimetable: a plain cron "
                "string gives runs an interval of zero length.",
            )

    def __contains__(self, arrival_ms: int) -> bool:
        return self.from_ms <= arrival_ms < self.to_ms

    @property
    def begin_ms(self) -> int:
        """Where its read begins."""
        return max(0, self.from_ms - MARGIN_MS)

    def passed(self, arrival_ms: int) -> bool:
        """Whether a record that arrived then shows that no record of the interval follows."""
        return arrival_ms >= self.to_ms + MARGIN_MS
