# SPDX-License-Identifier: Apache-2.0
"""What one read of one shard landed."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from shardbatch.core.position import Position
from shardbatch.core.waiting import NO_WAITING, Waiting


@dataclass(frozen=True)
class LandedFile:
    """One Parquet file; ``path`` is relative to the staging folder."""

    path: str
    records: int
    bytes: int


@dataclass(frozen=True)
class Gap:
    """A range of a shard that was never read; an unknown bound is ``None``.

    It begins ``after`` a place, the last that was read before it, and ends before the record ``first_available``, or,
    where a person had it passed over, at the place ``until``. ``from_ms`` and ``to_ms`` are when the records at its
    bounds arrived, or the last look at the shard before it. ``accepted`` says which person accepted it, when and why.
    ``records`` is how many records it has, where the service told it.
    """

    after: Position
    first_available: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    reason: str = ""
    accepted: str | None = None
    until: Position | None = None
    records: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON. The number of its records stands there only if it is known."""
        return {
            "after": str(self.after),
            "first_available": self.first_available,
            "from_ms": self.from_ms,
            "to_ms": self.to_ms,
            "reason": self.reason,
            "accepted": self.accepted,
            "until": str(self.until) if self.until else None,
            **({} if self.records is None else {"records": self.records}),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Gap:
        """Back from plain JSON."""
        return cls(
            Position.parse(value["after"]),
            value.get("first_available"),
            value.get("from_ms"),
            value.get("to_ms"),
            value.get("reason", ""),
            value.get("accepted"),
            Position.parse(value["until"]) if value.get("until") else None,
            value.get("records"),
        )


@dataclass(frozen=True)
class Trimmed:
    """The service's own word that a place was trimmed, which is more than a conclusion from what it answered.

    ``unread``: it is sure that records behind the place are gone, none of which was read; ``records`` is their number,
    ``None`` where the service does not tell it.
    """

    unread: bool = False
    records: int | None = None


@dataclass(frozen=True)
class Oddities:
    """Irregular records that a source met and that people should know of, as numbers of records.

    ``foreign`` were delivered although their key is outside their shard's range: a producer may have sent them again,
    to the right shard. ``broken`` look like several in one that cannot be taken apart, and were delivered as they are.
    ``dropped`` were left out, because the stream's options say so. ``below`` were left out because they stand before
    the position that was asked for: they were read already, or came late.
    """

    foreign: int = 0
    broken: int = 0
    dropped: int = 0
    below: int = 0

    def __add__(self, other: Oddities) -> Oddities:
        return Oddities(
            self.foreign + other.foreign,
            self.broken + other.broken,
            self.dropped + other.dropped,
            self.below + other.below,
        )

    def __bool__(self) -> bool:
        return self != NOTHING_ODD

    def to_json(self) -> dict[str, int]:
        """As plain JSON."""
        return {"foreign": self.foreign, "broken": self.broken, "dropped": self.dropped, "below": self.below}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Oddities:
        """Back from plain JSON; what is missing is zero."""
        return cls(value.get("foreign", 0), value.get("broken", 0), value.get("dropped", 0), value.get("below", 0))


NOTHING_ODD = Oddities()


@dataclass(frozen=True)
class Slice:
    """(``after``, ``until``] of one shard, landed as immutable files.

    ``until`` is ``SHARD_END`` when the shard has ended; ``last`` is the last record read, if any. ``raw_bytes``
    counts the records' data, not the files. ``caught_up_ms`` is when the read stood at the shard's tip, if it did; of
    a shard that has ended, when a read last did while it was open. ``tip_ms`` is an instant by the stream's own clock
    before which all that arrived had been read, if the read stood at the tip (PROTOCOL C2). ``first_arrival_ms`` and
    ``last_arrival_ms`` are the first and the last record's, ``min_arrival_ms`` and ``max_arrival_ms`` the least and the
    greatest of all. ``gaps`` are in the order of their places; the first may lie before ``after``, where a person moved
    the checkpoint on. ``waiting`` is what the service's limits cost the read.
    """

    shard_id: str
    after: Position
    until: Position
    ended: bool
    files: tuple[LandedFile, ...] = ()
    records: int = 0
    raw_bytes: int = 0
    last: str | None = None
    first_arrival_ms: int | None = None
    last_arrival_ms: int | None = None
    millis_behind_latest: int | None = None
    caught_up_ms: int | None = None
    children: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()
    oddities: Oddities = NOTHING_ODD
    min_arrival_ms: int | None = None
    max_arrival_ms: int | None = None
    waiting: Waiting = NO_WAITING
    tip_ms: int | None = None

    @property
    def empty(self) -> bool:
        """Whether it says nothing new: no record, no end, no gap."""
        return self.records == 0 and not self.ended and not self.gaps and self.until == self.after

    def followed_by(self, more: Slice) -> Slice:
        """This slice and the one that begins where it ends, as one."""
        return replace(
            more,
            after=self.after,
            files=self.files + more.files,
            records=self.records + more.records,
            raw_bytes=self.raw_bytes + more.raw_bytes,
            last=self.last if more.last is None else more.last,
            first_arrival_ms=more.first_arrival_ms if self.first_arrival_ms is None else self.first_arrival_ms,
            last_arrival_ms=self.last_arrival_ms if more.last_arrival_ms is None else more.last_arrival_ms,
            caught_up_ms=self.caught_up_ms if more.caught_up_ms is None else more.caught_up_ms,
            gaps=_in_a_row(self.gaps, more.gaps),
            oddities=self.oddities + more.oddities,
            waiting=self.waiting + more.waiting,
            tip_ms=max(_known(self.tip_ms, more.tip_ms), default=None),
            min_arrival_ms=min(_known(self.min_arrival_ms, more.min_arrival_ms), default=None),
            max_arrival_ms=max(_known(self.max_arrival_ms, more.max_arrival_ms), default=None),
        )

    def to_json(self) -> dict[str, Any]:
        """As plain JSON, for the lease row and the manifest."""
        return {
            "shard_id": self.shard_id,
            "after": str(self.after),
            "until": str(self.until),
            "ended": self.ended,
            "files": [{"path": f.path, "records": f.records, "bytes": f.bytes} for f in self.files],
            "records": self.records,
            "raw_bytes": self.raw_bytes,
            "last": self.last,
            "first_arrival_ms": self.first_arrival_ms,
            "last_arrival_ms": self.last_arrival_ms,
            "millis_behind_latest": self.millis_behind_latest,
            "caught_up_ms": self.caught_up_ms,
            "children": list(self.children),
            "gap": self.gaps[0].to_json() if self.gaps else None,  # who knows of no other is told of this one
            "gaps": [gap.to_json() for gap in self.gaps],
            "oddities": self.oddities.to_json(),
            "min_arrival_ms": self.min_arrival_ms,
            "max_arrival_ms": self.max_arrival_ms,
            "waiting": self.waiting.to_json(),
            **({} if self.tip_ms is None else {"tip_ms": self.tip_ms}),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Slice:
        """Back from plain JSON; fields that a later version added are passed over."""
        return cls(
            shard_id=value["shard_id"],
            after=Position.parse(value["after"]),
            until=Position.parse(value["until"]),
            ended=bool(value["ended"]),
            files=tuple(LandedFile(f["path"], f["records"], f["bytes"]) for f in value.get("files", ())),
            records=value.get("records", 0),
            raw_bytes=value.get("raw_bytes", 0),
            last=value.get("last"),
            first_arrival_ms=value.get("first_arrival_ms"),
            last_arrival_ms=value.get("last_arrival_ms"),
            millis_behind_latest=value.get("millis_behind_latest"),
            caught_up_ms=value.get("caught_up_ms"),
            children=tuple(value.get("children", ())),
            gaps=_gaps(value),
            oddities=Oddities.from_json(value.get("oddities") or {}),
            min_arrival_ms=value.get("min_arrival_ms"),
            max_arrival_ms=value.get("max_arrival_ms"),
            waiting=Waiting.from_json(value.get("waiting") or {}),
            tip_ms=value.get("tip_ms"),
        )

    def dumps(self) -> str:
        """The text that stands in the lease row."""
        return json.dumps(self.to_json(), separators=(",", ":"))

    @classmethod
    def loads(cls, text: str) -> Slice:
        """Back from the text of a lease row."""
        return cls.from_json(json.loads(text))


def _in_a_row(gaps: tuple[Gap, ...], more: tuple[Gap, ...]) -> tuple[Gap, ...]:
    """The gaps of two slices in a row. One that was seen while nothing followed it is seen again by the read that goes
    on there, with more of its bounds; that a person has accepted it stands."""
    if not gaps or not more or gaps[-1].until is not None or gaps[-1].after != more[0].after:
        return gaps + more
    return (*gaps[:-1], replace(more[0], accepted=more[0].accepted or gaps[-1].accepted), *more[1:])


def _known(*numbers: int | None) -> list[int]:
    return [number for number in numbers if number is not None]


def gaps_to_text(gaps: tuple[Gap, ...]) -> str | None:
    """Some gaps as the text of a column; ``None`` if there are none."""
    return json.dumps([gap.to_json() for gap in gaps], separators=(",", ":")) if gaps else None


def gaps_of_text(text: Any) -> tuple[Gap, ...]:
    """Back from the text of a column."""
    return tuple(Gap.from_json(value) for value in json.loads(text)) if text else ()


def _gaps(value: dict[str, Any]) -> tuple[Gap, ...]:
    """The gaps of a slice; one that version 0.1.0 stored has one at most, under another key."""
    found = value["gaps"] if "gaps" in value else [value["gap"]] if value.get("gap") else []
    return tuple(Gap.from_json(gap) for gap in found)
