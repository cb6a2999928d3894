# SPDX-License-Identifier: Apache-2.0
"""How one shard of an interval is put together from archived slices and the stream (PROTOCOL H9 to H13).

What is covered is decided by places, never by times. A slice covers what lies between its two ends, except its gaps. A
slice that began at no exact place covers from its first record on. Times only prove where the interval begins and ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Union

from shardbatch.core.archive_pieces import Archived, At, Piece, at, endless, exact
from shardbatch.core.expiry import Kept, tip_seen
from shardbatch.core.interval import CLOCKS_APART_MS, MARGIN_MS, Interval
from shardbatch.core.lease import Lease
from shardbatch.core.ports import Page
from shardbatch.core.position import SHARD_END, Position
from shardbatch.core.slice import Gap

NO_BATCH = "no committed batch has it"
BEFORE = "no batch that is kept is known to begin before it"


@dataclass(frozen=True)
class ArchivedPage(Page):
    """A page that was copied from a committed slice, or says what a committed read has seen.

    ``looked_ms`` is when a read stood at the tip at ``next``, by a worker's clock, if one did. ``gap`` is what is
    neither in the archive nor in the stream, before this page. ``over``: nothing of the interval follows.
    """

    looked_ms: int | None = None
    gap: Gap | None = None
    over: bool = False


@dataclass(frozen=True)
class Copy:
    """Copy the records of a slice behind one place, up to another."""

    archived: Archived
    lo: At
    hi: At


@dataclass(frozen=True)
class Hole:
    """Records that arrived in between are neither in the archive nor in the stream; either bound may be unknown."""

    from_ms: int | None
    to_ms: int | None
    reason: str


@dataclass(frozen=True)
class FromStream:
    """Read the stream, from ``lo``, or from where the shard's reading begins. ``looked_ms`` is a look at the tip there.
    ``doubt``: since that instant the stream may have lost some; what it answers will tell."""

    lo: At | None = None
    looked_ms: int | None = None
    doubt: Hole | None = None


@dataclass(frozen=True)
class Over:
    """Nothing of the interval follows; ``ended``: nor anything else, for the shard has ended."""

    ended: bool = False


Step = Union[Copy, Hole, FromStream, Over]


@dataclass(frozen=True)
class History:
    """What the rows of the live application tell about one shard.

    ``lease`` is its live row. Every record of it arrived after ``born_ms``, when a record of a parent did, and before
    ``died_ms``, when one of a child did; ``None`` where that is unknown.
    ``began_ms`` is when the application was surely at work, so that what was lost since then stands in a gap; ``None``
    if a person has reset it, or that is unknown. ``kept`` is what the stream still has.
    """

    kept: Kept
    lease: Lease | None = None
    born_ms: int | None = None
    died_ms: int | None = None
    began_ms: int | None = None
    slices: Sequence[Archived] = field(default_factory=tuple)


class Plan:
    """The steps that bring the records of an interval from one shard.

    :param start: where the reading begins, or goes on: an instant, the oldest record, or an exact place.
    :param now_ms: by the worker's clock.
    """

    def __init__(
        self, history: History, interval: Interval, start: Position, made: Sequence[Piece], now_ms: int
    ) -> None:
        self._history = history
        self._interval = interval
        self._start = start
        self._pieces = made
        self._now_ms = now_ms
        self._arrival_ms: int | None = None
        lost = [(item, gap) for item, gap in endless(history.slices) if gap.after.exact]
        lost.sort(key=lambda found: (found[0].slice.tip_ms is None, found[0].slice.tip_ms or 0))
        #: Of several at one place the last, up to a later tip.
        self._lost_at = {at(gap.after): (item, gap) for item, gap in lost}
        self.steps: list[Step] = []
        place = self._begin()
        if place is not None:
            self._walk(place)

    # ------------------------------------------------------------------ where it begins

    def _begin(self) -> At | None:
        history, interval = self._history, self._interval
        if self._start.exact:
            return at(self._start)  # a read that goes on; also in a search, which has passed what is not wanted
        born_ms, died_ms = history.born_ms, history.died_ms
        if (born_ms is not None and interval.passed(born_ms)) or (died_ms is not None and self._older(died_ms)):
            self.steps.append(Over())
            return None
        proven = [p.lo for p in self._pieces if p.begins_ms is not None and self._older(p.begins_ms)]
        lease = history.lease
        arrival_ms = None if lease is None else lease.checkpoint_arrival_ms
        if lease is not None and arrival_ms is not None and self._older(arrival_ms) and exact(lease.checkpoint):
            if not proven or at(lease.checkpoint) > max(proven):
                self._arrival_ms = arrival_ms
            proven.append(at(lease.checkpoint))
        if proven:
            return max(proven)
        origins = [piece for piece in self._pieces if piece.origin and self._whole(piece)]
        if origins:
            return origins[0].lo
        if lease is not None and self._empty(lease):
            self.steps.append(FromStream(looked_ms=tip_seen(lease, self._now_ms)))
            return None
        return self._unproven()

    def _older(self, arrival_ms: int) -> bool:
        """Whether a record that arrived then shows that what comes before it in its shard is not wanted."""
        return arrival_ms < self._interval.from_ms - MARGIN_MS

    @property
    def _since_ms(self) -> int:
        """What is wanted of this shard arrived then or later."""
        born = self._history.born_ms
        return self._interval.from_ms if born is None else max(self._interval.from_ms, born - MARGIN_MS)

    def _whole(self, piece: Piece) -> bool:
        """Whether a slice that began at no exact place has all that is wanted before its first record."""
        item = piece.archived
        instant = item.slice.after.timestamp_ms
        if instant is not None and instant > self._since_ms:
            return False  # what arrived before it was not wanted then
        if self._history.kept.all_since(self._since_ms, item.created_ms):
            return True  # the stream still had it all when it was read
        if item.slice.min_arrival_ms is None and item.slice.records:
            return False  # of version 0.1.0, which did not count resets
        return self._reaches(item.slice.after)

    def _wanted(self, item: Archived) -> bool:
        """Whether what was lost before a look at the tip may be wanted."""
        tip_ms = item.slice.tip_ms
        return tip_ms is None or tip_ms + MARGIN_MS >= self._since_ms

    def _reaches(self, place: Position) -> bool:
        """Whether a reading from an instant, or from the oldest record, has all that is wanted, or says so in a gap. A
        reset may have sent it there: then what was read before and has expired since is in no gap."""
        began_ms = self._history.began_ms
        lost = any(self._wanted(item) for item, gap in endless(self._history.slices) if not gap.after.exact)
        if began_ms is None or lost:
            return False
        if place.timestamp_ms is not None:
            return place.timestamp_ms <= self._since_ms
        return began_ms + CLOCKS_APART_MS <= self._since_ms

    def _empty(self, lease: Lease) -> bool:
        """Whether the live application has found nothing in it since its beginning, up to a look at its tip."""
        return (
            not lease.checkpoint.exact and self._reaches(lease.checkpoint) and tip_seen(lease, self._now_ms) is not None
        )

    def _unproven(self) -> At | None:
        kept = self._history.kept
        bound = kept.gone_before(self._now_ms)
        first = self._pieces[0] if self._pieces else None
        if kept.all_since(self._since_ms, self._now_ms):
            self.steps.append(FromStream())
            return None
        told = [_recorded(item, gap) for item, gap in endless(self._history.slices) if not gap.after.exact]
        hole = Hole(self._since_ms, None if first is None else first.begins_ms, told[0] if told else BEFORE)
        if first is None or bound is None or self._since_ms >= bound or _young(first, bound):
            self.steps.append(FromStream(doubt=None if bound is None or self._since_ms >= bound else hole))
            return None
        self.steps.append(hole)
        return first.lo

    # ------------------------------------------------------------------ how it goes on

    def _walk(self, place: At) -> None:
        while True:
            covering = [piece for piece in self._pieces if piece.lo <= place < piece.hi]
            if not covering:
                following = self._without(place)
                if following is None:
                    return
                place = following
                continue
            piece = max(covering, key=lambda piece: piece.hi)
            self.steps.append(Copy(piece.archived, place, piece.hi))
            place = piece.hi
            self._arrival_ms = piece.ends_ms if piece.ends_ms is not None else self._arrival_ms
            if self._over(place, piece):
                return

    def _over(self, place: At, piece: Piece | None = None) -> bool:
        """Whether nothing of the interval follows a place; then it is the last step."""
        if place == at(SHARD_END):
            self.steps.append(Over(ended=True))
            return True
        seen = [self._arrival_ms, None if place in self._lost_at else self._seen_ms(place, piece)]
        if any(ms is not None and self._interval.passed(ms) for ms in seen):
            self.steps.append(Over())
            return True
        return False

    def _seen_ms(self, place: At, piece: Piece | None) -> int | None:
        """An instant of the stream's clock before which all that arrived lies up to a place."""
        lease = self._history.lease
        known = [piece.archived.slice.tip_ms] if piece is not None and at(piece.archived.slice.until) == place else []
        if lease is not None and _stands(lease, place):
            known.append(lease.committed_up_to_ms)
        return max((ms for ms in known if ms is not None), default=None)

    def _without(self, place: At) -> At | None:
        """What to do where no slice goes on: the next place that one has, or ``None`` if the plan is complete."""
        if self._over(place):
            return None
        if place in self._lost_at:
            return self._behind_lost(place)
        kept, lease = self._history.kept, self._history.lease
        looks = [item.slice.caught_up_ms for item in self._history.slices if _until(item, place)]
        if lease is not None and _stands(lease, place):
            looks.append(tip_seen(lease, self._now_ms))
        looked_ms = max((ms for ms in looks if ms is not None and ms <= self._now_ms + CLOCKS_APART_MS), default=None)
        since_ms = None if self._arrival_ms is None else self._arrival_ms - MARGIN_MS
        there = any(ms is not None and kept.all_since(ms, self._now_ms) for ms in (since_ms, looked_ms))
        following = min((piece for piece in self._pieces if piece.lo > place), key=lambda p: p.lo, default=None)
        bound = kept.gone_before(self._now_ms)
        if there or following is None or bound is None or _young(following, bound):
            begins_ms = None if following is None else following.begins_ms
            doubt = None if there else Hole(self._arrival_ms, begins_ms, NO_BATCH)
            self.steps.append(FromStream(place, looked_ms, doubt))
            return None
        self.steps.append(Hole(self._arrival_ms, following.begins_ms, self._why(place, following)))
        return following.lo

    def _behind_lost(self, place: At) -> At:
        """Behind a gap of which no end was known: the next read began at the same place, with a record behind it."""
        item, gap = self._lost_at.pop(place)
        if self._wanted(item):
            seen = [ms for ms in (item.slice.tip_ms, item.slice.caught_up_ms) if ms is not None]
            self.steps.append(Hole(self._arrival_ms, max(seen, default=None), _recorded(item, gap)))
        behind = [p.lo for p in self._pieces if exact(p.archived.slice.after) and at(p.archived.slice.after) == place]
        return min((lo for lo in behind if lo > place), default=place)

    def _why(self, place: At, following: Piece) -> str:
        """Why there is a hole between a place and the next piece, as far as slices tell."""
        for item in self._history.slices:
            for gap in item.slice.gaps:
                if gap.until is None and gap.after.exact and at(gap.after) == place:
                    return _recorded(item, gap)
        for gap in following.archived.slice.gaps:
            if gap.until is not None:
                return f"{gap.reason} (batch {following.archived.batch_id}: {gap.accepted})"
        return NO_BATCH


def _young(piece: Piece, bound: int) -> bool:
    """Whether the stream may still have something from before a piece: it is read there, and tells what it lacks."""
    return piece.begins_ms is None or piece.begins_ms > bound


def _recorded(item: Archived, gap: Gap) -> str:
    return f"a gap that batch {item.batch_id} recorded: {gap.reason}"


def _stands(lease: Lease, place: At) -> bool:
    return exact(lease.checkpoint) and at(lease.checkpoint) == place


def _until(item: Archived, place: At) -> bool:
    return exact(item.slice.until) and at(item.slice.until) == place


def lacking(plan: Plan) -> list[Hole]:
    """What is in neither, as far as it is known, or may be."""
    holes = [step for step in plan.steps if isinstance(step, Hole)]
    return holes + [step.doubt for step in plan.steps if isinstance(step, FromStream) and step.doubt is not None]
