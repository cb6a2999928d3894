# SPDX-License-Identifier: Apache-2.0
"""The token of Bloop that says where an application stands.

Bloop reads the active shards of a token. Once one has ended, it reads the children that the token names, else those
that the stream lists, each from its oldest record on. So a token has every shard that is not read to its end, and of
those that are only the ones without a child: else Bloop would never find a child that is listed later.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from shardbatch.bloop.token import AFTER, AT, LATEST, TRIM_HORIZON, Token, TokenShard
from shardbatch.control.place_look import Seen
from shardbatch.control.position_format import Remark
from shardbatch.core.lease import Lease
from shardbatch.core.position import Kind, Position
from shardbatch.core.shard import generations
from shardbatch.core.taken import reached

#: Asks the stream for what follows a place of a shard.
Look = Callable[[str, Position], Seen]
Written = tuple[Token, list[Remark]]

_READ_AGAIN = "read again"


@dataclass(frozen=True)
class _Family:
    """Who descends from whom among some rows."""

    rows: dict[str, Lease]
    children: dict[str, list[str]]
    below_open: set[str]

    @classmethod
    def of(cls, rows: Sequence[Lease]) -> _Family:
        known = {row.shard_id: row for row in rows}
        children: dict[str, list[str]] = {name: [] for name in known}
        for row in rows:
            for parent in row.parent_shard_ids:
                if parent in children:
                    children[parent].append(row.shard_id)
        unfinished = [row.shard_id for row in rows if not row.completed]
        return cls(known, children, reached(unfinished, children))

    def active(self, name: str, listed: Collection[str]) -> bool:
        """Whether Bloop is to read a shard now."""
        if name in self.below_open:
            return False
        return not self.rows[name].completed or (name in listed and not self.children[name])


def write_token(
    identity: str, rows: Sequence[Lease], listed: Collection[str], look: Look
) -> tuple[Token, list[Remark]]:
    """The token, and what it says less exactly than the rows do: never a later place.

    :param identity: the stream's ARN.
    :param rows: one of each shard that the application knows or that is listed.
    :param look: asks the stream for what follows a place.
    """
    family = _Family.of(rows)
    depth = generations({row.shard_id: row.parent_shard_ids for row in rows})
    shards: list[TokenShard] = []
    active: list[str] = []
    remarks: list[Remark] = []
    for row in sorted(rows, key=lambda row: (depth[row.shard_id], row.shard_id)):
        name = row.shard_id
        parent = next((parent for parent in row.parent_shard_ids if parent in family.rows), None)
        if name in family.below_open:
            shards.append(TokenShard(name, parent=parent))
            remarks += _below(row)
        elif family.active(name, listed):
            entry, told = _entry(row, parent, look)
            shards.append(entry)
            active.append(name)
            remarks += told
    return Token(identity, tuple(active), tuple(shards)), remarks


def _below(row: Lease) -> list[Remark]:
    """What Bloop reads again of a shard that it begins once its parent has ended."""
    text = "Bloop begins it at its oldest record once the shard above it has ended; here it stands at {}"
    if row.completed or (row.checkpoint.exact and not row.checkpoint.searching):
        return [Remark("lease", row.shard_id, _READ_AGAIN, text.format(row.checkpoint))]
    return _older(row)


def _older(row: Lease) -> list[Remark]:
    """What Bloop reads although it is older than what this application wants."""
    if row.checkpoint.timestamp_ms is None:
        return []
    text = "a token cannot say an instant: Bloop also reads what is older than it ({})"
    return [Remark("lease", row.shard_id, "read too", text.format(row.checkpoint))]


def _entry(row: Lease, parent: str | None, look: Look) -> tuple[TokenShard, list[Remark]]:
    """An active shard at its place."""
    name, place = row.shard_id, row.checkpoint
    if row.completed:
        return TokenShard(name, LATEST, parent=parent), []
    if place.kind is not Kind.AFTER_SEQUENCE_NUMBER:
        return TokenShard(name, TRIM_HORIZON, parent=parent), _older(row)
    number, seen = str(place.sequence_number), look(name, place)
    if seen.trimmed:
        text = f"the record at {number} has expired, and what followed may have: Bloop begins at the oldest record"
        return TokenShard(name, TRIM_HORIZON, parent=parent), [Remark("lease", name, "gap", text), *_older(row)]
    # If it was not read since it was put there, its number may be the one before that of a record.
    if row.begins == place and seen.first is not None and int(seen.first) == int(number) + 1:
        return TokenShard(name, AT, seen.first, parent), _older(row)
    return TokenShard(name, AFTER, number, parent), _older(row)
