# SPDX-License-Identifier: Apache-2.0
"""Places in a shard, their order and their text form.

Each record has a sequence number: one integer that rises from record to record of its shard, as decimal text of any
length. Where a service counts in parts, as ``ms-seq``, its source folds them into one integer (``ms * 2**64 + seq``)
and takes that apart again. Several records that were sent as one share its number and are told apart by their
sub-sequence numbers, from zero on; elsewhere that is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import total_ordering


class Kind(IntEnum):
    """What a position is; the values give the order of kinds."""

    AT_TIMESTAMP = -3
    TRIM_HORIZON = -2
    LATEST = -1
    AFTER_SEQUENCE_NUMBER = 0
    SHARD_END = 1


@total_ordering
@dataclass(frozen=True)
class Position:
    """A place in a shard.

    ``AFTER_SEQUENCE_NUMBER`` stands after the record ``sequence_number`` (and, of several in one, after its record
    ``sub_sequence_number``). Sequence numbers are decimal text of any length and compare as integers.

    Such a place may carry an instant, too (``timestamp_ms``): what follows is wanted from the first record on that
    arrived then or later, and all up to the place arrived before. A search for an instant has come so far (PROTOCOL
    F8). Places compare without it.
    """

    kind: Kind
    sequence_number: str | None = None
    sub_sequence_number: int = 0
    timestamp_ms: int | None = None

    def __post_init__(self) -> None:
        if self.kind is Kind.AFTER_SEQUENCE_NUMBER:
            number = self.sequence_number
            if number is None or not (number.isascii() and number.isdigit()):
                raise ValueError(f"a sequence number is decimal digits, not {number!r}")
            if self.sub_sequence_number < 0:
                raise ValueError("a sub-sequence number is zero or more")
        if self.kind is Kind.AT_TIMESTAMP and self.timestamp_ms is None:
            raise ValueError("AT_TIMESTAMP needs an instant")

    @property
    def exact(self) -> bool:
        """Whether it names a record or the shard's end, rather than a rule for finding a place."""
        return self.kind in (Kind.AFTER_SEQUENCE_NUMBER, Kind.SHARD_END)

    @property
    def searching(self) -> bool:
        """Whether it is a place on the way to the first record of an instant."""
        return self.kind is Kind.AFTER_SEQUENCE_NUMBER and self.timestamp_ms is not None

    def ahead_of(self, now_ms: int) -> bool:
        """Whether it is an instant that a clock has not reached. A place that carries one was reached after it."""
        return self.kind is Kind.AT_TIMESTAMP and self.timestamp_ms is not None and self.timestamp_ms > now_ms

    def _order(self) -> tuple[int, int, int]:
        if self.kind is Kind.AFTER_SEQUENCE_NUMBER:
            return (0, int(self.sequence_number or "0"), self.sub_sequence_number)
        return (int(self.kind), self.timestamp_ms or 0, 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Position) and self._order() == other._order()

    def __hash__(self) -> int:
        return hash(self._order())

    def __lt__(self, other: Position) -> bool:
        return self._order() < other._order()

    def __str__(self) -> str:
        if self.kind is Kind.AT_TIMESTAMP:
            return f"AT_TIMESTAMP:{self.timestamp_ms}"
        if self.kind is not Kind.AFTER_SEQUENCE_NUMBER:
            return self.kind.name
        sub = f"/{self.sub_sequence_number}" if self.sub_sequence_number else ""
        instant = "" if self.timestamp_ms is None else f"@{self.timestamp_ms}"
        return f"{self.sequence_number}{sub}{instant}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """The position of a text that ``str`` made.

        :raises ValueError: if it is not a position.
        """
        if text in ("TRIM_HORIZON", "LATEST", "SHARD_END"):
            return cls(Kind[text])
        if text.startswith("AT_TIMESTAMP:"):
            return cls(Kind.AT_TIMESTAMP, timestamp_ms=int(text.partition(":")[2]))
        place, _, instant = text.partition("@")
        number, _, sub = place.partition("/")
        return cls(Kind.AFTER_SEQUENCE_NUMBER, number, int(sub) if sub else 0, int(instant) if instant else None)


TRIM_HORIZON = Position(Kind.TRIM_HORIZON)
LATEST = Position(Kind.LATEST)
SHARD_END = Position(Kind.SHARD_END)


def after(sequence_number: str, sub_sequence_number: int = 0, instant_ms: int | None = None) -> Position:
    """The position after a record; with an instant, as far as the search for its first record has come."""
    return Position(Kind.AFTER_SEQUENCE_NUMBER, sequence_number, sub_sequence_number, instant_ms)


def at_timestamp(instant_ms: int) -> Position:
    """The position before the first record that arrived at or after an instant (ms since the epoch, UTC)."""
    return Position(Kind.AT_TIMESTAMP, timestamp_ms=instant_ms)


def acceptable(checkpoint: Position, new: Position, delivered: Position, *, ended: bool) -> bool:
    """Whether ``new`` may follow ``checkpoint`` when records up to ``delivered`` were landed (K-45, KV-8).

    ``SHARD_END`` is acceptable only for a shard that has ended; a position never moves back and never passes what
    was delivered; a rule such as ``LATEST`` may stand only where it stood before. A search for an instant passes
    records that are not wanted, so it moves on without any, and carries the same instant as before.
    """
    if new == checkpoint:
        return True
    if new.kind is Kind.SHARD_END:
        return ended
    if new.searching:
        return checkpoint.timestamp_ms == new.timestamp_ms and checkpoint <= new
    return new.exact and checkpoint <= new <= delivered


def lowest(one: Position, other: Position) -> Position:
    """A position that is certainly not behind either; ``TRIM_HORIZON`` if it is unknown which comes first."""
    if one.exact == other.exact and TRIM_HORIZON not in (one, other):
        return min(one, other, key=lambda place: (place, place.searching))
    return TRIM_HORIZON
