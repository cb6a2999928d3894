# SPDX-License-Identifier: Apache-2.0
"""The shards of one task take turns on its few threads, so that none of them uses up the time of the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from shardbatch.core.ports import Clock
from shardbatch.core.slice import Slice
from shardbatch.run.hold import Held

#: A read that stops after every page. Sent true, it makes ready to wait for a while, and stops once more.
Pages = Generator[None, bool | None, Slice | None]


@dataclass
class Reading:
    """One shard that is being read; ``landed`` is the result, once it is known."""

    held: Held
    pages: Pages
    landed: Slice | None = None


#: Takes a reading that is done, or the error that ended it; readings that follow from it.
Finished = Callable[[Reading, BaseException | None], Iterable[Reading]]


class _Here(Executor):
    """Runs each submitted call immediately, for tasks that read one shard at a time."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(call(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - it is the future's to tell
            future.set_exception(error)
        return future


class Turns:
    """Lets ``concurrency`` shards be read at once, until ``deadline`` on the clock.

    While others wait, a turn lasts for a shard's equal share of the time that is left. A shard that finishes early, as
    most do, leaves its share to the rest, and a large one goes on after they have had their turn.
    """

    def __init__(self, clock: Clock, concurrency: int, deadline: float, longest_wait: Callable[[], float]) -> None:
        """:param longest_wait: seconds within which a shard that waits has its next turn, or it has to begin anew. It
        is called once a shard has been read and others wait; what it raises is the error of that shard."""
        self._longest_wait = longest_wait
        self._clock = clock
        self._concurrency = concurrency
        self._deadline = deadline
        self._waiting: deque[Reading] = deque()
        self._running: dict[Future[bool], Reading] = {}

    def run(self, readings: Iterable[Reading], finished: Finished, stop: Callable[[], None]) -> None:
        """Read all shards, and those that follow them. An error that ``finished`` does not accept ends all reads;
        ``stop`` makes running reads stop at their next page."""
        self._waiting.extend(readings)
        many = self._concurrency > 1
        try:
            with ThreadPoolExecutor(self._concurrency, "shardbatch-read") if many else _Here() as pool:
                try:
                    while self._waiting or self._running:
                        self._start(pool)
                        self._collect(finished)
                except BaseException:
                    stop()
                    raise
        finally:
            for reading in [*self._waiting, *self._running.values()]:
                reading.pages.close()

    def _start(self, pool: Executor) -> None:
        while self._waiting and len(self._running) < self._concurrency:
            part = self._part()
            reading = self._waiting.popleft()
            self._running[pool.submit(self._turn, reading, part)] = reading

    def _collect(self, finished: Finished) -> None:
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        for future in done:
            reading, error = self._running.pop(future), future.exception()
            goes_on = error is None and not future.result()
            self._waiting.extend([reading] if goes_on else finished(reading, error))

    def _part(self) -> float:
        """A shard's equal part of the time that all of them have."""
        return self._concurrency / (len(self._waiting) + len(self._running))

    def _turn(self, reading: Reading, part: float) -> bool:
        """Read on until the shard is done, or its part of the time is used up while others wait; returns whether it is
        done."""
        began = self._clock.monotonic()
        try:
            while True:
                next(reading.pages)
                if self._waiting and self._clock.monotonic() >= began + part * self._left(began):
                    reading.pages.send(True)
                    return False
        except StopIteration as done:
            reading.landed = done.value
            return True

    def _left(self, began: float) -> float:
        """Seconds that the shards of a task share from a moment on."""
        return min(self._deadline - began, self._longest_wait())
