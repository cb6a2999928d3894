# SPDX-License-Identifier: Apache-2.0
"""How urgently an application needs a person, why, and what to do: the order of a list of applications."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum

from shardbatch.control.overview import Overview


class Urgency(IntEnum):
    """From nothing to do up to records that may be lost.

    ``NOTED``: something is kept for a person, without hurry. ``WAITING``: a batch waits, and no run works on it.
    ``HELD_UP``: a person parked a batch, or less than half of the retention is left. ``SOON``: a gap waits for a
    person, or less than 15 % is left. ``LOST``: unread records may be gone.
    """

    CALM = 0
    NOTED = 1
    WAITING = 2
    HELD_UP = 3
    SOON = 4
    LOST = 5


#: What is left of the retention, as its part, below which it is time for a person.
HALF, LITTLE = 0.5, 0.15


@dataclass(frozen=True)
class Problem:
    """What is wrong, and what to do."""

    text: str
    remedy: str


def urgency_of(found: Overview, now_ms: int, at_work: Collection[str] = ()) -> tuple[Urgency, Problem | None]:
    """How urgent an application is, by the worst of what is wrong with it.

    :param at_work: the owners whose runs work.
    """
    if found.removed is not None:
        return Urgency.CALM, Problem(
            f"It was removed: {found.removed}.", "Nothing is to be done. Its rows go with 'airflow shardbatch remove'."
        )
    left_ms = None if found.expires_from_ms is None else found.expires_from_ms - now_ms
    part = 1.0 if left_ms is None or not found.retention_ms else left_ms / found.retention_ms
    if found.lost_shards:
        return Urgency.LOST, Problem(
            f"Unread records of {_count(found.lost_shards, 'shard')} may have expired.",
            "Let a run read on now. What is lost is recorded as a gap.",
        )
    if part < LITTLE:
        return Urgency.SOON, Problem(
            f"Unread records begin to expire in {_span(left_ms or 0)}.",
            "Let a run read on now, or raise the retention of the stream.",
        )
    if found.gaps:
        return Urgency.SOON, Problem(
            f"A gap of {_count(found.gaps, 'shard')} waits for a person.",
            "Find out why records expired, then accept the gap (accept-gap) or read them elsewhere.",
        )
    if found.importing is not None:
        return Urgency.HELD_UP, Problem(
            f"Leases are being taken over: {found.importing}.", "Run the import again, until it ends."
        )
    if found.parked:
        return Urgency.HELD_UP, Problem(
            f"{_count(found.parked, 'batch is', 'batches are')} parked.", "Resume it (unpark), or set it aside."
        )
    if part < HALF:
        return Urgency.HELD_UP, Problem(
            f"Less than half of the retention is left: unread records begin to expire in {_span(left_ms or 0)}.",
            "See why runs do not keep up, or do not run.",
        )
    idle = [batch_id for batch_id, owner in found.waiting if owner not in at_work]
    if idle:
        return Urgency.WAITING, Problem(
            f"{_count(len(idle), 'batch waits', 'batches wait')} for its work, and its run does not work.",
            "Clear the failed task of its run with its downstream tasks. Or let the next run take it.",
        )
    if found.set_aside:
        return Urgency.NOTED, Problem(
            f"{_count(found.set_aside, 'batch is', 'batches are')} set aside: readers do not see the records.",
            "Replay it once its cause is mended, or drop it.",
        )
    return Urgency.CALM, None


def order(urgency: int, expires_in_ms: int | None, behind_ms: int | None, *names: str) -> tuple[object, ...]:
    """The key of an application in a sorted list: the most urgent first, then the one that loses records first, then
    the one furthest behind."""
    return (
        -urgency,
        expires_in_ms is None,
        expires_in_ms or 0,
        behind_ms is None,
        -(behind_ms or 0),
        *names,
    )


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _span(ms: int) -> str:
    """A time as people say it, rounded down."""
    minutes = max(0, ms) // 60_000
    if minutes < 60:
        return _count(minutes, "minute")
    hours = minutes // 60
    return _count(hours, "hour") if hours < 48 else _count(hours // 24, "day")
