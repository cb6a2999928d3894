# SPDX-License-Identifier: Apache-2.0
"""Decides where the read of one shard ends, and records what cut it short."""

from __future__ import annotations

from collections.abc import Callable

from shardbatch.core.archive_plan import ArchivedPage
from shardbatch.core.idle import Idle
from shardbatch.core.interval import MARGIN_MS, Interval
from shardbatch.core.limits import Budget
from shardbatch.core.ports import Clock, Page
from shardbatch.core.stop import Stop
from shardbatch.errors import SourceError, Throttled

#: How often a shard is asked that answers nothing when its time is over already.
LEAST_ASKED = 3


def told_lag(lag_ms: int | None) -> str:
    """How far behind the tip a place is said to be, in words."""
    return "the service does not say how far behind it is" if lag_ms is None else f"it is said to be {lag_ms} ms behind"


class ReadEnd:
    """Checks after every answer of a shard whether the read ends there, and why; then ``stop`` says it.

    An incremental read ends at the tip as of the run's start, or at a limit. A read of an interval ends when all of it
    is read. ``seen_ms`` is the time up to which a shard that never reports its tip was read, when it passed the run's
    start. ``cut`` is the error of a read that ended too early.

    :param ahead_ms: by how much the stream's clock is ahead of this machine's; called only for an interval.
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
        self.stop: Stop | None = None

    def add(self, page: Page, now_ms: int, *, moved: bool) -> None:
        """Count an answer; ``moved``: its place differs from that of the answer before."""
        self._asked += 1
        self._answered |= moved or not page.silent
        self._lag = self._lag if page.lag_ms is None else page.lag_ms
        self._idle.add(page.records.num_rows, page.lag_ms, now_ms, self._clock.monotonic(), silent=page.silent)

    def here(self, page: Page, last_arrival_ms: int | None) -> bool:
        """Whether to stop after this answer; ``last_arrival_ms`` is the arrival of its last record."""
        self.stop = self._stop(page, last_arrival_ms)
        return self.stop is not None

    def _stop(self, page: Page, last_arrival_ms: int | None) -> Stop | None:
        if page.ended:
            return Stop.SHARD_END
        if self._interval is not None:
            passed = last_arrival_ms is not None and self._interval.passed(last_arrival_ms)
            try:
                over = isinstance(page, ArchivedPage) and page.over
                self.interval_over = passed or over or page.at_tip or self._has_passed(self._interval)
            except SourceError as error:  # the question for the stream's clock: what was read is kept
                self.cut = error
                return Stop.ERROR
            if self.interval_over:
                return Stop.INTERVAL_END
            return self._too_late() if self.late() else None
        if self._budget.reached(last_arrival_ms, at_tip=page.at_tip):
            return Stop.TIP
        if self._idle.reached(self._budget.tip_ms):
            # As of then, not as of now: what arrived since is unread. Arrival times may go backwards a little.
            self.seen_ms = (self._idle.read_up_to_ms or 0) - MARGIN_MS
            return Stop.TIP
        if self._idle.still or self.late():
            return self._too_late()
        return self._budget.full

    def _too_late(self) -> Stop:
        """Why there is no time for more: it is over, or nothing comes of it."""
        over = self._clock.monotonic() >= self._budget.deadline
        return Stop.STANDSTILL if self._idle.still and not over else self._budget.timed_by

    def after_turns(self) -> bool:
        """Whether to stop before the next answer, since the time was over while others had their turn."""
        if not self.late():
            return False
        self.stop = Stop.TURN if self._interval is None else self._too_late()  # an interval ends for no turn of others
        return True

    def late(self) -> bool:
        """Whether the time is over. An interval, which has no other end, also stops if its place does not move."""
        over = self._clock.monotonic() >= self._budget.deadline
        if self._interval is None:
            return over and (self._answered or self._asked >= LEAST_ASKED)
        if over:
            self.cut = SourceError(
                f"The task's time was over before the interval of {self._shard_id} was read.",
                remedy="A retry goes on from there. If all its retries do not suffice, give the task a longer "
                "execution_timeout or more retries, or read shorter intervals.",
            )
        elif self._idle.still:
            self.cut = SourceError(
                f"Shard {self._shard_id} does not show whether the interval is read to its end: "
                f"{told_lag(self._lag)}, and many answers without records brought it no nearer.",
                remedy="What was read is kept, and a retry goes on from there: try later. If it stays so, put any "
                "record to the shard: once one has arrived after the interval, that ends it.",
            )
        return self.cut is not None

    def require_answer(self, busy: str) -> None:
        """Check that the shard answered at least once: otherwise it is unknown whether it has records.

        :param busy: the source's words for limits that others share.
        """
        if self.cut is None and not self._answered:
            seconds = self._clock.monotonic() - self._began
            self.cut = Throttled(
                f"No answer came in {seconds:.0f} s: every call was refused, or nothing was said.",
                remedy=f"A retry, or the next run, begins at the same place. {busy}, or give a run more time "
                "(ReadLimits.duration).",
            )

    def _has_passed(self, interval: Interval) -> bool:
        """Whether the place has passed it, by the stream's own clock: a worker's may be ahead of that."""
        if self._idle.read_up_to_ms is None:
            return False
        return self._idle.reached(interval.to_ms + MARGIN_MS - self._ahead_ms())
