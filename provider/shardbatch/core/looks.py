# SPDX-License-Identifier: Apache-2.0
"""Two looks at rows, between which the task is deferred: what was seen, and at least how long ago (PROTOCOL T8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: How often one claim is deferred; what it has not seen by then is left to the next run.
MOST_TIMES = 3
#: Shorter waits than this, in seconds, are made without deferring: that takes about as long.
SHORTEST_S = 10.0


@dataclass(frozen=True)
class Looks:
    """Rows that earlier passes of this claim saw: of each the counter, and the seconds that have passed at least.

    The time must have been measured by one clock that only runs forward, from after the look.
    """

    seen: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    times: int = 0

    def knows(self, name: str) -> bool:
        """Whether the row was seen before."""
        return name in self.seen

    def stood_still(self, name: str, counter: int, seconds: float) -> bool:
        """Whether the row has not changed for that long."""
        before, passed = self.seen.get(name, (None, 0.0))
        return before == counter and passed >= seconds

    def go_away(self, counters: Mapping[str, int], seconds: float) -> LookAgain | None:
        """The exception that asks for another look after that time; ``None`` if the wait is too short for that."""
        if seconds < SHORTEST_S:
            return None
        seen = {name: (counter, passed + seconds) for name, (counter, passed) in self.seen.items()}
        seen.update((name, (counter, seconds)) for name, counter in counters.items())
        return LookAgain(Looks(seen, self.times + 1), seconds)

    def pause(self, seconds: float) -> LookAgain | None:
        """The exception that asks to be called again after that time, with nothing to compare; ``None`` if the wait is
        too short for that."""
        return None if seconds < SHORTEST_S else LookAgain(self, seconds)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {"seen": {name: list(look) for name, look in self.seen.items()}, "times": self.times}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Looks:
        """What :meth:`to_json` gave."""
        return cls({name: (int(look[0]), float(look[1])) for name, look in found["seen"].items()}, found["times"])


class LookAgain(Exception):
    """The use-case has to see whether rows stand still, or to wait for the end of an interval. It has changed nothing
    that the next pass does not do again.

    Call it again with ``looks``, ``seconds`` from now at the earliest.
    """

    def __init__(self, looks: Looks, seconds: float) -> None:
        super().__init__(f"Look again after {seconds:.0f} s.")
        self.looks = looks
        self.seconds = seconds
