# SPDX-License-Identifier: Apache-2.0
"""How far a read task has come: one line for all of its shards, often enough that a person sees it move."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from shardbatch.core.waiting import NO_WAITING, Waiting
from shardbatch.run.consumer import Consumer

#: Seconds between two lines: with the time that saying one takes, never more than 15.
EVERY = 14.0
MB = 1_000_000
#: Shards at work that are shown by name, those furthest behind; more are in the sums only.
MOST_SHOWN = 50


@dataclass(frozen=True)
class _Seen:
    """What was read of one shard. ``behind_ms`` is how far its place was from the end of the read when it was told;
    ``None`` if the service tells none."""

    records: int = 0
    bytes: int = 0
    behind_ms: int | None = None
    waiting: Waiting = NO_WAITING
    begun: bool = False
    over: bool = False


class Progress:
    """Adds up what the threads of a read task tell of their shards.

    What remains is told by the shard that is furthest behind: behind the tip as of the run's start, or the end of the
    interval, where the reads end.
    """

    def __init__(self, consumer: Consumer, group: str, tip_ms: int) -> None:
        self._consumer = consumer
        self._group = group
        interval = consumer.interval
        self._end = "the tip as of the run's start" if interval is None else "the end of the interval"
        self._since_end_ms = consumer.now_ms() - (tip_ms if interval is None else interval.to_ms)
        self._began = self._told_at = consumer.clock.monotonic()
        self._told = (0, 0)
        self._shards: dict[str, _Seen] = {}
        self._lock = threading.Lock()

    def add(self, shard_id: str) -> None:
        """Note a shard that is to be read."""
        with self._lock:
            self._shards[shard_id] = _Seen()

    def came(self, shard_id: str, records: int, size: int, lag_ms: int | None, waiting: Waiting) -> None:
        """Note what was read of a shard so far: records, bytes, how far behind the stream's tip it says it is now, and
        what it waited for."""
        behind = None if lag_ms is None else max(0, lag_ms - self._ms_since_end())
        with self._lock:
            self._shards[shard_id] = _Seen(records, size, behind, waiting, begun=True)

    def over(self, shard_id: str) -> None:
        """Note that no more is read of a shard."""
        with self._lock:
            self._shards[shard_id] = replace(self._shards[shard_id], over=True)

    def tell(self) -> None:
        """Say how far the task has come, and how fast since it was said before; and show the same numbers."""
        self._consumer.say(self._line())
        self._consumer.show(self._numbers())

    @contextmanager
    def running(self) -> Iterator[None]:
        """Tell it again and again, in a thread of its own, while the block runs."""
        stop = threading.Event()

        def run() -> None:
            while not stop.wait(EVERY):
                self.tell()

        thread = threading.Thread(target=run, name="shardbatch-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _ms_since_end(self) -> int:
        """How long ago the tip was where the reads end."""
        return self._since_end_ms + round((self._consumer.clock.monotonic() - self._began) * 1000)

    def _line(self) -> str:
        now = self._consumer.clock.monotonic()
        with self._lock:
            shards = dict(self._shards)
        seen = shards.values()
        records, size = sum(one.records for one in seen), sum(one.bytes for one in seen)
        seconds = max(now - self._told_at, 0.001)
        rate, speed = (records - self._told[0]) / seconds, (size - self._told[1]) / seconds
        self._told, self._told_at = (records, size), now
        waiting = sum((one.waiting for one in seen), NO_WAITING)
        return (
            "Read task {}: {} records ({:.1f} MB) in {:.0f} s, now {:.0f} records and {:.2f} MB a second{}. {}".format(
                self._group,
                records,
                size / MB,
                now - self._began,
                rate,
                speed / MB,
                f"; {waiting}" if waiting else "",
                self._rest(shards),
            )
        )

    def _numbers(self) -> dict[str, object]:
        """The same as plain JSON. Of each shard at work: records, bytes, and how far it is from its end in ms."""
        with self._lock:
            shards = dict(self._shards)
        at_work = [(name, one) for name, one in shards.items() if one.begun and not one.over]
        at_work.sort(key=lambda item: -1 if item[1].behind_ms is None else item[1].behind_ms, reverse=True)
        return {
            "group": self._group,
            "at_ms": self._consumer.now_ms(),
            "records": sum(one.records for one in shards.values()),
            "bytes": sum(one.bytes for one in shards.values()),
            "shards": len(shards),
            "over": sum(one.over for one in shards.values()),
            "reading": {name: [one.records, one.bytes, one.behind_ms] for name, one in at_work[:MOST_SHOWN]},
        }

    def _rest(self, shards: dict[str, _Seen]) -> str:
        """What remains."""
        over = sum(one.over for one in shards.values())
        at_work = {name: one for name, one in shards.items() if one.begun and not one.over}
        waiting = len(shards) - over - len(at_work)
        known = {name: one.behind_ms for name, one in at_work.items() if one.behind_ms is not None}
        parts = [f"{over} of {len(shards)} shards are read" + (f", {waiting} have not begun" if waiting else "")]
        if known:
            furthest = max(known, key=lambda name: known[name])
            parts.append(
                f"the furthest from {self._end} is {furthest}, by {known[furthest] / 1000:.0f} s of the stream"
            )
        if len(known) < len(at_work):
            parts.append(f"{len(at_work) - len(known)} do not say how much they have left")
        return "; ".join(parts) + "."
