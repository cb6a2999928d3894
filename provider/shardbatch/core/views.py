# SPDX-License-Identifier: Apache-2.0
"""What a reader of an output root sees of its decisions: the live view, one interval's, some batches, what is new."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Union

from shardbatch.core.decision import Decision
from shardbatch.core.sums import Entry, Token, Told
from shardbatch.errors import ConfigurationError

#: A moment as an author gives it: an aware datetime, or milliseconds since 1970 UTC.
Moment = Union[datetime, int]


@dataclass(frozen=True)
class Wanted:
    """The batches that a reader requests; an unknown property of a batch counts as a match.

    :param interval: the output of this interval alone, ``(from, to)`` in milliseconds; ``None``: the live view, which
        has the live batches and the intervals that join them.
    :param since_ms: batches that may have records which arrived then or later; and
    :param until_ms: that arrived before.
    :param committed_since_ms: batches that were committed first then or later.
    :param batches: these ids only.
    """

    interval: tuple[int, int] | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    committed_since_ms: int | None = None
    batches: frozenset[str] | None = None

    def fits(self, decision: Decision) -> bool:
        """Whether this one of the view is asked for."""
        if self.batches is not None and decision.batch_id not in self.batches:
            return False
        return (
            _not_before(decision.max_arrival_ms, self.since_ms)
            and (self.until_ms is None or decision.min_arrival_ms is None or decision.min_arrival_ms < self.until_ms)
            and _not_before(decision.committed_ms, self.committed_since_ms)
        )

    def in_view(self, decision: Decision) -> bool:
        """Whether the view has such batches, whatever their interval's number."""
        if self.interval is None:
            return decision.interval is None or decision.joins
        return decision.interval == self.interval


@dataclass(frozen=True)
class Changes:
    """What is new since a token.

    :param shown: the new decisions that the view shows.
    :param batches: the ids of all batches of the view that changed, also of those that lost their output, in order.
    """

    shown: tuple[Decision, ...]
    batches: tuple[str, ...]


def wanted(
    *,
    interval: tuple[Moment, Moment] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    committed_since: Moment | None = None,
    batches: Iterable[str] | None = None,
) -> Wanted:
    """What an author asks for, checked.

    :raises ConfigurationError: for a datetime without a time zone, an invalid interval, or one text as batches.
    """
    if isinstance(batches, str):
        raise ConfigurationError(f"batches={batches!r} is one text.", remedy=f"Give a list: batches=[{batches!r}].")
    bounds = None
    if interval is not None:
        if isinstance(interval, str) or len(interval) != 2:
            raise ConfigurationError(f"interval={interval!r} is not (from, to).", remedy="Give two moments.")
        bounds = (milliseconds(interval[0], "interval"), milliseconds(interval[1], "interval"))
        if bounds[0] >= bounds[1]:
            raise ConfigurationError(f"interval={interval!r} ends before it begins.", remedy="Give (from, to).")
    return Wanted(
        interval=bounds,
        since_ms=None if since is None else milliseconds(since, "since"),
        until_ms=None if until is None else milliseconds(until, "until"),
        committed_since_ms=None if committed_since is None else milliseconds(committed_since, "committed_since"),
        batches=None if batches is None else frozenset(batches),
    )


def milliseconds(moment: Moment, name: str) -> int:
    """A moment in milliseconds since 1970 UTC.

    :raises ConfigurationError: for a datetime without a time zone, and for a value that is not a moment.
    """
    if isinstance(moment, datetime):
        if moment.utcoffset() is None:
            raise ConfigurationError(
                f"{name}={moment!r} has no time zone.", remedy="Give an aware one, such as datetime(…, tzinfo=UTC)."
            )
        return int(moment.timestamp() * 1000 // 1)
    if isinstance(moment, bool) or not isinstance(moment, int):
        raise ConfigurationError(
            f"{name}={moment!r} is not a moment.", remedy="Give an aware datetime, or milliseconds since 1970 UTC."
        )
    return moment


def shown(told: Told, view: Wanted) -> list[Decision]:
    """The decisions whose rows a reader sees, in the order of their ids: of an interval those of the highest number of
    each application.
    """
    highest = _highest(told.entries)
    found = [
        decision
        for decision in (entry.decision for entry in told.entries.values())
        if view.in_view(decision) and decision.number >= highest.get(_span(decision), 0) and view.fits(decision)
    ]
    return sorted(found, key=lambda decision: decision.batch_id)


def changes(told: Told, view: Wanted, since: Token | None) -> Changes:
    """What is new for the reader of a token, or all for one without.

    A replay is new. So is a batch whose interval another batch took over since: it lost its output.
    """
    new = {batch_id for batch_id, entry in told.entries.items() if since is None or not since.knows(entry)}
    known = _highest({batch_id: entry for batch_id, entry in told.entries.items() if batch_id not in new})
    highest = _highest(told.entries)
    visible, ids = [], []
    for batch_id, entry in sorted(told.entries.items()):
        decision, span = entry.decision, _span(entry.decision)
        if not view.in_view(decision):
            continue
        overtaken = decision.number < highest.get(span, 0)
        if batch_id in new or (overtaken and known.get(span, 0) < highest[span]):
            ids.append(batch_id)
            if not overtaken:
                visible.append(decision)
    return Changes(tuple(visible), tuple(ids))


def _highest(entries: Mapping[str, Entry]) -> dict[tuple[str, tuple[int, int] | None], int]:
    best: dict[tuple[str, tuple[int, int] | None], int] = {}
    for entry in entries.values():
        span = _span(entry.decision)
        if entry.decision.interval is not None and entry.decision.number > best.get(span, 0):
            best[span] = entry.decision.number
    return best


def _span(decision: Decision) -> tuple[str, tuple[int, int] | None]:
    return decision.app, decision.interval


def _not_before(known: int | None, bound: int | None) -> bool:
    return bound is None or known is None or known >= bound
