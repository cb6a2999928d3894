# SPDX-License-Identifier: Apache-2.0
"""Whether rows stand still: the one loop that decides that an owner, or an application, shows no life.

The race, step by step (PROTOCOL E, D3):

1. A live owner writes its row again within ``silence`` seconds; every write raises the row's counter.
2. We saw the row with counter *c*. Our clock starts *after* that look, and only runs forward. No time that another
   machine wrote down is used: clocks of machines differ.
3. We look again. The time that counts is taken *before* that look. If the counter is still *c*, nothing was written
   from our first look to the second, so for ``silence`` at least. A slow answer makes this time longer, never shorter.
4. A write between the second look and what our caller does with the row is not seen here. So the caller changes the
   row by compare-and-set with counter *c*: then that fails, and nothing is taken from the writer.
5. An owner that was asleep and wakes up later compares with *c* too. Its write fails, and it learns that it lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from shardbatch.core.ports import Clock, LeaseStore
from shardbatch.core.rows import Row

#: How often a row is looked at in the time that it may be silent, and the bounds of the seconds in between.
LOOKS = 20
SHORTEST_PAUSE = 0.05
LONGEST_PAUSE = 5.0


@dataclass(frozen=True)
class Watched:
    """A row as it was seen, and the longest time in seconds between writes of a live owner."""

    row: Row
    silence: float


def _done(row: Row | None) -> bool:
    return False


def watch(
    store: LeaseStore,
    clock: Clock,
    rows: Mapping[str, Watched],
    *,
    moved: Callable[[Row | None], bool] = _done,
    limit: float | None = None,
) -> set[str]:
    """The names of the rows that stood still; it waits until it is known of each.

    :param moved: is told a row that moved, or ``None`` if it is gone; whether to watch it anew, as it is then.
    :param limit: seconds after which those that have moved again and again are given up, default: never.
    """
    began = clock.monotonic()
    waiting, since, still = dict(rows), dict.fromkeys(rows, began), set()
    shortest = min((one.silence for one in rows.values()), default=0.0)
    pause = min(max(shortest / LOOKS, SHORTEST_PAUSE), LONGEST_PAUSE)
    while waiting and (limit is None or clock.monotonic() - began < limit):
        nearest = min(since[name] + one.silence for name, one in waiting.items())
        clock.sleep(min(pause, max(nearest - clock.monotonic(), 0.01)))
        looked = clock.monotonic()
        for name, one in list(waiting.items()):
            row = store.get(one.row.key)
            if row is None or row.counter != one.row.counter:
                del waiting[name]
                if moved(row) and row is not None:
                    waiting[name], since[name] = replace(one, row=row), clock.monotonic()
            elif looked - since[name] >= one.silence:
                still.add(name)
                del waiting[name]
    return still
