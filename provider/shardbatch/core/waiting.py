# SPDX-License-Identifier: Apache-2.0
"""What a read waited for, so that a slow shard can be told from a refused one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Waiting:
    """What the service's limits cost a read.

    ``seconds`` is the time waited for them: pauses that keep within them, and pauses after refused calls. ``refused``
    counts calls that were refused for their rate, ``resubscribed`` lasting answers that had to be asked for
    anew. Waiting for new records does not count. Sums are rounded to milliseconds.
    """

    seconds: float = 0.0
    refused: int = 0
    resubscribed: int = 0

    def __add__(self, other: Waiting) -> Waiting:
        return Waiting(
            round(self.seconds + other.seconds, 3),
            self.refused + other.refused,
            self.resubscribed + other.resubscribed,
        )

    def __sub__(self, other: Waiting) -> Waiting:
        return Waiting(
            round(self.seconds - other.seconds, 3),
            self.refused - other.refused,
            self.resubscribed - other.resubscribed,
        )

    def __bool__(self) -> bool:
        """Whether there is anything worth telling: a pause below a tenth of a second is not."""
        return self.seconds >= 0.1 or self.refused > 0 or self.resubscribed > 0

    def __str__(self) -> str:
        waited = (f"waited {self.seconds:.1f} s for the service's limits",) if self.seconds >= 0.1 else ()
        counts = ((self.refused, "calls refused"), (self.resubscribed, "lasting answers renewed"))
        return ", ".join((*waited, *(f"{count} {what}" for count, what in counts if count)))

    @property
    def ms(self) -> int:
        """The time waited, in whole milliseconds."""
        return round(self.seconds * 1000)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {"waited_s": self.seconds, "refused": self.refused, "resubscribed": self.resubscribed}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Waiting:
        """Back from plain JSON; what is missing is zero."""
        return cls(float(value.get("waited_s", 0.0)), int(value.get("refused", 0)), int(value.get("resubscribed", 0)))


NO_WAITING = Waiting()
