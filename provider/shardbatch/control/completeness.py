# SPDX-License-Identifier: Apache-2.0
"""Which hours of a stream are complete: all that arrived in them is committed, or is known to be lost."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Hour:
    """An hour from an instant on. ``state`` is ``complete``; ``gap``: it is complete but for records that expired
    unread; ``open``: records of it may still come; ``before``: the application's promise begins after it."""

    from_ms: int
    state: str


def hours(
    now_ms: int,
    count: int,
    watermark_ms: int | None,
    complete_from_ms: int | None,
    gaps: Collection[tuple[int | None, int | None]] = (),
) -> list[Hour]:
    """The last hours, up to the one that now is, the oldest first.

    :param complete_from_ms: where the promise begins; ``None``: with the oldest record there was.
    :param gaps: from when to when records arrived that were not read; a bound that is unknown is taken from the other.
    """
    last = now_ms - now_ms % HOUR_MS
    spans = [_span(*gap) for gap in gaps if gap != (None, None)]
    found = []
    for from_ms in range(last - (count - 1) * HOUR_MS, last + 1, HOUR_MS):
        to_ms = from_ms + HOUR_MS
        if complete_from_ms is not None and to_ms <= complete_from_ms:
            state = "before"
        elif any(begin < to_ms and end >= from_ms for begin, end in spans):
            state = "gap"
        elif watermark_ms is not None and to_ms <= watermark_ms:
            state = "complete"
        else:
            state = "open"
        found.append(Hour(from_ms, state))
    return found


def _span(from_ms: int | None, to_ms: int | None) -> tuple[int, int]:
    begin = to_ms if from_ms is None else from_ms
    end = from_ms if to_ms is None else to_ms
    assert begin is not None
    assert end is not None
    return begin, max(begin, end)
