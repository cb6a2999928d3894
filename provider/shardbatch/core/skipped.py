# SPDX-License-Identifier: Apache-2.0
"""Records that a person lets a shard skip: those between its checkpoint and a later place, which are not read.

Places of different kinds do not compare: an instant is compared with the arrival of the record at the other place.
If it is unknown which of two places comes first, records may be skipped, and are recorded as skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardbatch.core.position import Kind, Position
from shardbatch.core.slice import Gap

#: Why a range was not read, as its gap says.
PASSED_OVER = "a person had them passed over"


def passes_over(place: Position, arrival_ms: int | None, target: Position) -> bool:
    """Whether a shard that goes from a place to a target may leave records out.

    :param arrival_ms: when the record at ``place`` arrived, ``None`` if unknown.
    """
    if place.kind is Kind.SHARD_END or target.kind is Kind.TRIM_HORIZON:
        return False
    if target.timestamp_ms is not None:  # also of a place in a search, which leaves out what arrived before its instant
        begins = arrival_ms if place.timestamp_ms is None else place.timestamp_ms
        return begins is None or target.timestamp_ms > begins or (target.exact and target > place)
    return target > place


def passed(place: Position, arrival_ms: int | None, target: Position, note: str) -> Gap:
    """The gap that stands for it, accepted by who did it; ``note`` says who, when and why."""
    begins = arrival_ms if place.timestamp_ms is None else place.timestamp_ms
    return Gap(place, None, begins, target.timestamp_ms, PASSED_OVER, note, until=target)


def left_of(skipped: Sequence[Gap], target: Position) -> tuple[Gap, ...]:
    """The skipped ranges that remain after the shard moves to a target; ranges behind the target are read after all."""
    found: list[Gap] = []
    for gap in skipped:
        if not passes_over(gap.after, gap.from_ms, target):
            continue
        if gap.until is not None and gap.until.kind is target.kind and target < gap.until:
            gap = replace(gap, until=target, to_ms=target.timestamp_ms)
        found.append(gap)
    return tuple(found)
