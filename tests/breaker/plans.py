# SPDX-License-Identifier: Apache-2.0
"""What authors and clusters do to a block: its works, what each of them is, and the roots that applications write to.

All of it is read from a tape that is drawn once for a schedule. Where the tape ends, things are as plain as they can
be: one work, our own operator, one block, one root.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TypeVar

Any_ = TypeVar("Any_")

#: A root that belongs to another application, which may share it.
TAKEN = "taken"
#: A work that Airflow never runs.
IDLE = "idle"
#: The works of a block; from one pass to the next it may be any other.
BLOCKS: tuple[tuple[str, ...], ...] = (
    ("a",),
    ("a", "b"),
    ("a", "b"),
    ("a", "m[0]", "m[1]"),
    ("m[0]", "b"),
    ("a2", "b"),
    ("a2",),
    ("a", IDLE),
)
_OUT, _BOTH, _EACH, _REJECTS = (("out",),), (("out", "rejects"),), (("out",), ("rejects",)), (("rejects//",),)
#: The blocks of an application, each with its roots.
PLANS: tuple[tuple[tuple[str, ...], ...], ...] = (
    *(_OUT, _BOTH, _EACH, _REJECTS) * 2,
    (("out",), ("out//",)),
    (("rejects",), ()),
    ((),),
    (),
    (),
    ((TAKEN,),),
)
#: What a work may be, the likely more than once.
KINDS = ("OWN", "OWN", "OWN", "ARGS", "ARGS", "BARE", "PLAIN")


class Kind(Enum):
    """What a work is: ``OWN`` our operator, which keeps the token of what it submitted; ``ARGS`` any operator that
    hands down its try's token; ``BARE`` one that hands none down; ``PLAIN`` a task that enters no block."""

    OWN = "own"
    ARGS = "args"
    BARE = "bare"
    PLAIN = "plain"


class Plans:
    """Answers from a tape, byte by byte; the first option where it has ended."""

    def __init__(self, tape: bytes = b"") -> None:
        self._tape = iter(tape)
        self._kinds: dict[str, Kind] = {}
        self._given: dict[str, bool] = {}

    def choose(self, options: Sequence[Any_]) -> Any_:
        """One of the options."""
        return options[next(self._tape, 0) % len(options)]

    def end(self) -> None:
        """From now on all is plain."""
        self._tape = iter(b"")
        self._kinds.clear()

    def block(self, group: str) -> tuple[str, ...]:
        """The works of a block; those of another group have other names."""
        prefix = "" if group == "orders" else f"{group}."
        return tuple(prefix + work for work in self.choose(BLOCKS))

    def blocks(self) -> tuple[tuple[str, ...], ...]:
        """The blocks that an application will enter."""
        return self.choose(PLANS)

    def kind(self, work: str) -> Kind:
        """What a work is, the same for a whole schedule."""
        if work not in self._kinds:
            self._kinds[work] = Kind[self.choose(KINDS)]
        return self._kinds[work]

    def given(self, work: str) -> bool:
        """Whether a work is seen to be given the batch."""
        if work not in self._given:
            self._given[work] = self.kind(work) is not Kind.PLAIN and self.choose((True, True, False))
        return self._given[work]

    def joins(self) -> bool:
        """Whether a try goes on with the application of an earlier one."""
        return self.choose((False, True))

    def skips(self) -> bool:
        """Whether a branch leaves a work out."""
        return self.choose((False, False, False, False, True))

    def clears(self) -> bool:
        """Whether a work is among those that a person clears."""
        return self.choose((True, False))


def runs(work: str) -> bool:
    """Whether Airflow runs a work at all."""
    return not work.endswith(IDLE)
