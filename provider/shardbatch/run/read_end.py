# SPDX-License-Identifier: Apache-2.0
"""Where the read of one shard ends, and what cut it short of that."""

from __future__ import annotations

from collections.abc import Callable

from shardbatch.core.idle import Idle
from shardbatch.core.interval import MARGIN_MS, Interval
from shardbatch.core.limits import Budget
from shardbatch.core.ports import Clock, Page
from shardbatch.errors import SourceError, Throttled

#: How often a shard is asked that answers nothing when its time is over already.
LEAST_ASKED = 3


def told_lag(lag_ms: int | None) -> str:
    """How far behind the tip a place is said to be, in words."""
    return "how far behind it is, is not said" if lag_ms is None else "it is said to be {} ms behind".format(lag_ms)


class ReadEnd:
    """Looks at every answer of a shard: whether the read ends behind it.

    An incremental read ends at the tip as of the run's start, or at a limit; an interval's once all of it is read.
    ``seen_ms`` is up to when a place that never comes to the tip was read when it passed the run's start. ``cut`` is
    the error of a read that ended too early.

    :param ahead_ms: by how much the stream's clock is ahead of this machine's; asked for an interval, if at all.
    """

    def __init__(
        self, shard_id: str, budget: Budget, interval: Interval | None, clock: Clock, ahead_ms: Callable[[], int]
    ) -> None:
        self._shard_id = shard_id
        self._budget = budget
        self._interval = interval
        self._clock = clock
        self._ahead_ms = ahead_ms
        self._began = clock.monotonic()
        self._idle = Idle(self._began)
        self._asked = 0
        self._answered = False
        self._lag: int | None = None
        self.interval_over = False
        self.seen_ms: int | None = None
        self.cut: Exception | None = None

    def add(self, page: Page, now_ms: int, *, moved: bool) -> None:
        """Count an answer; ``moved``: its place is another than that of the answer before."""
        self._asked += 1
        self._answered |= moved or not page.silent
        self._lag = self._lag if page.lag_ms is None else page.lag_ms
        self._idle.add(page.records.num_rows, page.lag_ms, now_ms, self._clock.monotonic(), silent=page.silent)

    def here(self, page: Page, last_arrival_ms: int | None) -> bool:
        """Whether to stop after this answer; ``last_arrival_ms`` is the arrival of its last record."""
        if page.ended:
            return True
        if self._interval is not None:
            passed = last_arrival_ms is not None and self._interval.passed(last_arrival_ms)
            try:
                self.interval_over = passed or page.at_tip or self._has_passed(self._interval)
            except SourceError as error:  # the question for the stream's clock: what was read is kept
                self.cut = error
                return True
            return self.interval_over or self.late()
        if self._budget.reached(last_arrival_ms, at_tip=page.at_tip):
            return True
        if self._idle.reached(self._budget.tip_ms):
            # As of then, not as of now: what arrived since is unread. Arrival times may go backwards a little.
            self.seen_ms = (self._idle.read_up_to_ms or 0) - MARGIN_MS
            return True
        return self._idle.still or self.late() or self._budget.full

    def late(self) -> bool:
        """Whether the time is over; an interval, which has no other end, also if its place stands still."""
        over = self._clock.monotonic() >= self._budget.deadline
        if self._interval is None:
            return over and (self._answered or self._asked >= LEAST_ASKED)
        if over:
            self.cut = SourceError(
                "The task's time was over before the interval of {} was read.".format(self._shard_id),
                remedy="A retry goes on from there. If all its retries do not suffice, give the task a longer "
                "execution_timeout or more retries, or read shorter intervals.",
            )
        elif self._idle.still:
            self.cut = SourceError(
                "Shard {} does not show whether the interval is read to its end: {}, and many answers without records "
                "brought it no nearer.".format(self._shard_id, told_lag(self._lag)),
                remedy="What was read is kept, and a retry goes on from there: try later. If it stays so, put any "
                "record to the shard: once one has arrived after the interval, that ends it.",
            )
        return self.cut is not None

    def require_answer(self, busy: str) -> None:
        """See that anything was heard of the shard: if not, nobody knows whether it has records.

        :param busy: the source's words for limits that others share.
        """
        if self.cut is None and not self._answered:
            seconds = self._clock.monotonic() - self._began
            self.cut = Throttled(
                "No answer came in {:.0f} s: every call was refused, or nothing was said.".format(seconds),
                remedy="A retry, or the next run, begins at the same place. {}, or give a run more time "
                "(ReadLimits.duration).".format(busy),
            )

    def _has_passed(self, interval: Interval) -> bool:
        """Whether the place has passed it, by the stream's own clock: a worker's may be ahead of that."""
        if self._idle.read_up_to_ms is None:
            return False
        return self._idle.reached(interval.to_ms + MARGIN_MS - self._ahead_ms())
