# SPDX-License-Identifier: Apache-2.0
"""The parts of archived slices that have no gap, by their places (PROTOCOL H10)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Callable

from shardbatch.core.position import SHARD_END, Kind, Position, after
from shardbatch.core.slice import Gap, LandedFile, Slice

#: A place as numbers that compare: kind, sequence number, sub-sequence number; -1 stands before all of a number.
At = tuple[int, int, int]
#: Before the shard's end, behind all of its records.
LAST: At = (1, 0, -1)


@dataclass(frozen=True)
class Archived:
    """A slice of a committed batch, which was frozen at ``created_ms``."""

    batch_id: str
    created_ms: int
    slice: Slice


@dataclass(frozen=True)
class Piece:
    """A part of a slice without a gap: the records behind ``lo``, up to ``hi``.

    ``begins_ms`` and ``ends_ms`` are when its first and last record arrived, if known. ``origin``: it begins at an
    instant or at the oldest record that the stream had.
    """

    archived: Archived
    lo: At
    hi: At
    begins_ms: int | None = None
    ends_ms: int | None = None
    origin: bool = False


def at(place: Position) -> At:
    """An exact place as numbers."""
    if place.kind is Kind.SHARD_END:
        return (1, 0, 0)
    return (0, int(place.sequence_number or "0"), place.sub_sequence_number)


def place_of(numbers: At) -> Position:
    """Back from numbers, where these are a place."""
    return SHARD_END if numbers == at(SHARD_END) else after(str(numbers[1]), max(0, numbers[2]))


def pieces(found: Iterable[Archived], first: Callable[[LandedFile], Position]) -> list[Piece]:
    """The parts without gaps of all slices of a shard, in the order of their places.

    :param first: the place of a file's first record.
    """
    slices = list(found)
    open_at = {at(gap.after) for _, gap in endless(slices) if gap.after.exact}
    made = [piece for item in slices for piece in _parts(item, first, open_at)]
    return sorted(made, key=lambda piece: (piece.lo, piece.hi))


def _parts(item: Archived, first: Callable[[LandedFile], Position], open_at: set[At]) -> Iterable[Piece]:
    landed = item.slice
    if landed.until.timestamp_ms is not None or not (landed.until.exact or landed.records):
        return  # a search that has found no record yet, or only a gap
    exact = landed.after.exact and landed.after.timestamp_ms is None
    lo, origin, begins_ms = LAST, not exact, landed.first_arrival_ms
    if exact and at(landed.after) not in open_at:
        lo = at(landed.after)
    elif landed.files:
        number = first(landed.files[0])
        lo = _before(number.sequence_number, number.sub_sequence_number)
    elif exact:
        lo = at(landed.until) if at(landed.until) < LAST else LAST
    for gap in landed.gaps:
        if gap.until is not None:
            continue  # a person had it passed over, before the slice begins
        if gap.after.exact and lo < at(gap.after):
            yield Piece(item, lo, at(gap.after), begins_ms, gap.from_ms, origin)
        if gap.first_available is not None:
            lo = max(_before(gap.first_available, 0), lo) if gap.after.exact else _before(gap.first_available, 0)
        else:
            lo = LAST if landed.ended else at(landed.until) if landed.until.exact else LAST
        origin, begins_ms = False, gap.to_ms
    hi = at(landed.until) if landed.until.exact else lo
    if lo < hi:
        yield Piece(item, lo, hi, begins_ms, landed.last_arrival_ms, origin)


def _before(number: str | None, sub: int) -> At:
    return (0, int(number or "0"), sub - 1)


def endless(slices: Iterable[Archived]) -> Iterable[tuple[Archived, Gap]]:
    """The gaps of which it is not known which record follows."""
    for item in slices:
        for gap in item.slice.gaps:
            if gap.until is None and gap.first_available is None:
                yield item, gap


def exact(place: Position) -> bool:
    """Whether it is a place, and not one on the way to an instant."""
    return place.exact and not place.searching
