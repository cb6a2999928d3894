# SPDX-License-Identifier: Apache-2.0
"""Sums of an output root's markers, and the token of a reader that asks for what is new.

A marker tells one decision of one batch. A *sum* holds the highest decision of every batch that its writer found, and
with each the number of the sum that took it in first; so a reader reads one sum and the few markers that it lacks. A
sum is never overwritten, several may stand, and what counts is always the highest decision of each batch over all.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardbatch.core.decision import Decision
from shardbatch.errors import ConfigurationError, UnsupportedSchema

#: The version of a sum's form; a later one is refused.
SUM_VERSION = 2
#: Stands among the markers once the first of them was removed: a reader that knows no sums takes it for a damaged
#: marker and fails, naming it, instead of missing batches in silence.
GUARD = "NEEDS-A-NEWER-SHARDBATCH-do-not-remove.1.json"
#: What stands in it.
GUARD_TEXT = (
    '{"reason": "Some markers of this folder were summed up in sums/ and removed. Read this output with shardbatch 0.2'
    ' or later. Do not remove this file: an older reader would miss batches without a word."}\n'
)

_SUM = re.compile(r"^(?P<number>[0-9]+)-[A-Za-z0-9]+\.json$")
_TOKEN = "1."


@dataclass(frozen=True)
class Entry:
    """A decision, and the number of the sum that took it in first; ``None``: it stands in a marker only."""

    decision: Decision
    taken: int | None = None


@dataclass(frozen=True)
class Sum:
    """The highest decision of every batch that its writer found.

    :param number: one more than the highest number that its writer saw.
    :param read: the names of the sums whose entries went into it.
    :param entries: one for each batch, each with its ``taken``.
    """

    number: int
    read: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()

    def dumps(self) -> bytes:
        """As a file's content; its number is told by the file's name."""
        apps = sorted({entry.decision.app for entry in self.entries})
        roots = sorted({entry.decision.roots for entry in self.entries})
        app_at, roots_at = {app: n for n, app in enumerate(apps)}, {many: n for n, many in enumerate(roots)}
        entries = [
            [
                one.decision.batch_id,
                one.decision.decided,
                [list(start) for start in one.decision.starts],
                one.decision.min_arrival_ms,
                one.decision.max_arrival_ms,
                one.decision.committed_ms,
                app_at[one.decision.app],
                list(one.decision.interval) if one.decision.interval else None,
                one.decision.number,
                one.decision.joins,
                one.taken,
                roots_at[one.decision.roots],
            ]
            for one in sorted(self.entries, key=lambda one: one.decision.batch_id)
        ]
        value = {"version": SUM_VERSION, "read": sorted(self.read), "apps": apps, "roots": roots, "entries": entries}
        return (json.dumps(value, separators=(",", ":")) + "\n").encode("ascii")

    @classmethod
    def loads(cls, number: int, content: bytes) -> Sum:
        """Back from a file's content; what a later version added to an entry is passed over.

        :raises UnsupportedSchema: if its version is not this one's.
        :raises KeyError, TypeError, ValueError, IndexError: if it is not a sum.
        """
        value = json.loads(content)
        if value["version"] != SUM_VERSION:
            raise UnsupportedSchema(
                f"A sum of version {value['version']}; this shardbatch reads version {SUM_VERSION}.",
                remedy="Install a newer shardbatch where this output is read.",
            )
        roots = [tuple(many) for many in value["roots"]]
        return cls(
            number, tuple(value["read"]), tuple(_entry(number, one, value["apps"], roots) for one in value["entries"])
        )


def _entry(number: int, one: Sequence[Any], apps: Sequence[str], roots: Sequence[tuple[str, ...]]) -> Entry:
    decision = Decision(
        batch_id=one[0],
        decided=int(one[1]),
        starts=tuple((start[0], int(start[1])) for start in one[2]),
        min_arrival_ms=one[3],
        max_arrival_ms=one[4],
        committed_ms=one[5],
        app=apps[one[6]],
        interval=(int(one[7][0]), int(one[7][1])) if one[7] else None,
        number=int(one[8]),
        joins=bool(one[9]),
        roots=roots[one[11]],
    )
    return Entry(decision, min(int(one[10]), number))


def sum_name(number: int, unique: str) -> str:
    """The name of a sum's file; ``unique`` (letters and digits) tells apart what two writers number alike."""
    return f"{number}-{unique}.json"


def sum_number(name: str) -> int | None:
    """The number of a sum by its name, ``None`` if it is not the name of a sum."""
    found = _SUM.match(name)
    return int(found.group("number")) if found else None


def merged(sums: Iterable[Sum], markers: Iterable[Decision]) -> dict[str, Entry]:
    """The highest decision of every batch over sums and markers, in any order and any number of times.

    Of one that several sums have, ``taken`` is the lowest.
    """
    best: dict[str, Entry] = {}
    found = [entry for one in sums for entry in one.entries]
    found.extend(Entry(decision) for decision in markers)
    for entry in found:
        held = best.get(entry.decision.batch_id)
        if held is None or entry.decision.decided > held.decision.decided:
            best[entry.decision.batch_id] = entry
        elif entry.decision.decided == held.decision.decided and _earlier(entry.taken, held.taken):
            best[entry.decision.batch_id] = Entry(held.decision, entry.taken)
    return best


def _earlier(one: int | None, other: int | None) -> bool:
    return one is not None and (other is None or one < other)


@dataclass(frozen=True)
class Token:
    """How far a reader has come: the highest number of a sum that it saw, and the decisions that no sum had yet."""

    number: int = 0
    loose: frozenset[tuple[str, int]] = frozenset()

    def __str__(self) -> str:
        """As an opaque text without blanks."""
        content = json.dumps([self.number, sorted(self.loose)], separators=(",", ":")).encode("ascii")
        return _TOKEN + base64.urlsafe_b64encode(zlib.compress(content, 9)).decode("ascii").rstrip("=")

    @classmethod
    def parse(cls, text: str) -> Token:
        """Back from its text.

        :raises ConfigurationError: if it is not a token, or is of a later version.
        """
        try:
            if not text.startswith(_TOKEN):
                raise ValueError(text[:20])
            packed = text[len(_TOKEN) :]
            number, loose = json.loads(zlib.decompress(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))))
            return cls(int(number), frozenset((str(batch_id), int(decided)) for batch_id, decided in loose))
        except (ValueError, TypeError, AttributeError, zlib.error) as error:
            raise ConfigurationError(
                f"{text!r:.60} is not a token of read_changes.",
                remedy="Pass the token that the last call returned, as it is, or None to begin with everything.",
            ) from error

    def knows(self, entry: Entry) -> bool:
        """Whether the reader has seen this decision."""
        if (entry.decision.batch_id, entry.decision.decided) in self.loose:
            return True
        return entry.taken is not None and entry.taken <= self.number


@dataclass(frozen=True)
class Told:
    """All that an output root tells.

    :param entries: by batch, its highest decision.
    :param number: the highest number of a sum; 0: there is none.
    :param sums: the names of the sums that stand, all of whose entries are in ``entries``.
    :param agreed: whether two listings agreed; if not, no token can be made from it.
    """

    entries: Mapping[str, Entry]
    number: int = 0
    sums: tuple[str, ...] = ()
    agreed: bool = True

    @property
    def token(self) -> Token:
        """For a later call that asks for what is new since."""
        loose = (entry.decision for entry in self.entries.values() if entry.taken is None)
        return Token(self.number, frozenset((decision.batch_id, decision.decided) for decision in loose))

    def reaches(self, token: Token) -> bool:
        """Whether all that the reader of a token saw is here: a listing that is late may lack some of it."""
        if self.number < token.number:
            return False
        return all(
            batch_id in self.entries and self.entries[batch_id].decision.decided >= decided
            for batch_id, decided in token.loose
        )
