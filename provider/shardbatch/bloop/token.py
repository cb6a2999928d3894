# SPDX-License-Identifier: Apache-2.0
"""A token of Bloop as a value: what ``stream.token`` returns and ``engine.stream(model, position=token)`` takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardbatch.core.shard import generations
from shardbatch.errors import InvalidToken

TRIM_HORIZON, LATEST = "trim_horizon", "latest"
AT, AFTER = "at_sequence", "after_sequence"
EXACT = (AT, AFTER)
TYPES = (TRIM_HORIZON, LATEST, *EXACT)
_OF_TOKEN = {"stream_arn", "active", "shards"}
_OF_SHARD = {"shard_id", "iterator_type", "sequence_number", "parent"}


@dataclass(frozen=True)
class TokenShard:
    """One shard of a token. Without an ``iterator_type`` Bloop has not begun it."""

    shard_id: str
    iterator_type: str | None = None
    sequence_number: str | None = None
    parent: str | None = None

    @property
    def exact(self) -> bool:
        """Whether it names a record."""
        return self.iterator_type in EXACT

    def __str__(self) -> str:
        place = self.iterator_type or "no place"
        return f"{place} {self.sequence_number}" if self.exact else place

    def to_json(self) -> dict[str, str]:
        """As it stands in a token: what it does not have is absent."""
        values = {
            "shard_id": self.shard_id,
            "iterator_type": self.iterator_type,
            "sequence_number": self.sequence_number,
            "parent": self.parent,
        }
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Token:
    """A token, each shard once.

    ``active`` are the shards that Bloop reads, each once; the text named those that are ``doubled`` more often.
    ``stale`` are shards of which the text had a second place: Bloop forgot to drop it when it was moved to a time or
    an end of the stream.
    """

    stream_arn: str
    active: tuple[str, ...]
    shards: tuple[TokenShard, ...]
    stale: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As Bloop writes it."""
        return {
            "stream_arn": self.stream_arn,
            "active": list(self.active),
            "shards": [shard.to_json() for shard in self.shards],
        }

    @classmethod
    def parse(cls, value: Any) -> Token:
        """The token that some JSON is.

        :raises InvalidToken: if it is none, or contradicts itself.
        """
        _require(isinstance(value, Mapping), "it is not an object")
        _require_names(value, _OF_TOKEN, "")
        arn, active, shards = (value.get(name) for name in ("stream_arn", "active", "shards"))
        _require(isinstance(arn, str) and bool(arn), "stream_arn is not a text")
        _require(_listed(active), "active is not a list")
        _require(_listed(shards), "shards is not a list")
        _require(all(isinstance(name, str) for name in active), "active names something that is not a text")
        entries = [_shard(index, item) for index, item in enumerate(shards)]
        found, stale = _once(entries)
        unknown = sorted(set(active) - found.keys())
        _require(not unknown, f"active names {', '.join(unknown)}, which shards does not have")
        _require_lineage(found)
        times = Counter(active)
        times.subtract(stale)  # what was left from before a move stands there, too
        doubled = tuple(name for name in times if times[name] > 1)
        return cls(arn, tuple(name for name in times if times[name] > 0), tuple(found.values()), tuple(stale), doubled)


def _shard(index: int, value: Any) -> TokenShard:
    where = f"shards[{index}]"
    _require(isinstance(value, Mapping), f"{where} is not an object")
    _require_names(value, _OF_SHARD, f" in {where}")
    for name in _OF_SHARD:
        _require(isinstance(value.get(name), (str, type(None))), f"{name} in {where} is not a text")
    _require(bool(value.get("shard_id")), f"{where} has no shard_id")
    kind = value.get("iterator_type")
    kind = kind.lower() if kind else None  # Bloop takes some of them in capitals and means another place by that
    number = value.get("sequence_number") or None
    _require(kind in (None, *TYPES), f"iterator_type in {where} is {kind!r}, and not one of {', '.join(TYPES)}")
    if kind in EXACT:
        numeric = number is not None and number.isascii() and number.isdigit()
        _require(numeric, f"{where} is at {kind}, and its sequence_number is {number!r}")
    else:
        _require(number is None, f"{where} has a sequence_number, and its iterator_type is {kind!r}")
    return TokenShard(value["shard_id"], kind, number, value.get("parent") or None)


def _once(entries: Iterable[TokenShard]) -> tuple[dict[str, TokenShard], list[str]]:
    """Each shard once, and those that came a second time with another place.

    Bloop writes what it reaches from its oldest shards, then those that have ended and of which it still holds records.
    A shard may be among both. If they differ, the second is left from before Bloop was moved elsewhere.
    """
    found: dict[str, TokenShard] = {}
    stale: list[str] = []
    for entry in entries:
        first = found.setdefault(entry.shard_id, entry)
        if first != entry:
            stale.append(entry.shard_id)
    return found, stale


def _require_lineage(shards: Mapping[str, TokenShard]) -> None:
    try:
        generations({name: [shard.parent] if shard.parent else [] for name, shard in shards.items()})
    except ValueError as error:
        raise _invalid(str(error)) from error


def _require_names(value: Mapping[str, Any], known: set[str], where: str) -> None:
    others = sorted(map(str, value.keys() - known))
    _require(not others, f"there is {', '.join(others)}{where}, which Bloop does not write")


def _listed(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise _invalid(what)


def _invalid(what: str) -> InvalidToken:
    return InvalidToken(f"This is not a token of Bloop: {what}.")
