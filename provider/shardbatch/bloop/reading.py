# SPDX-License-Identifier: Apache-2.0
"""What becomes of a stream's shards when a token of Bloop is taken over.

A token says of some shards that they are *active*: Bloop reads them from their places on, and what descends from them
once they have ended, from its oldest record on. All else of the token is behind Bloop. The stream has gone on since:
shards have left it, and others have come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from shardbatch.bloop.token import AT, LATEST, Token, TokenShard
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, Position, after
from shardbatch.core.shard import Shard
from shardbatch.core.taken import Lines, Taken, unseen, youngest_first
from shardbatch.errors import InvalidStream

_PASSED = "the token has only what descends from it: Bloop has read it, or never wanted it"
_FRESH = "the token does not have it: from its oldest record on"
_NOTHING_READS_IT = (
    "in the stream it is open, and the token has it neither active nor below an active shard, so no run would read on "
    "there: take a new token, or name it in 'active', at the place from which it is to be read"
)


def plan_token(
    token: Token, identity: str, listing: Sequence[Shard], start: Position | None, now: Callable[[], Position]
) -> list[Taken]:
    """What becomes of every shard that the token has or that is listed; children before their parents.

    :param identity: the stream's ARN.
    :param start: where shards begin of which the token says ``latest``; default: as Bloop does it, at the present tip.
    :param now: that tip.
    :raises InvalidStream: if the token is of another stream.
    """
    listed = {shard.shard_id: shard for shard in listing}
    held = {shard.shard_id: shard for shard in token.shards}
    _require_stream(token, identity, held, listed)
    shards = _lineage(held, listed)
    plan = _Plan(token, held, listed, Lines(shards, held, token.active), start, now)
    named = {*held, *(shard.parent for shard in token.shards if shard.parent)}
    if any(name not in listed for name in {*token.active, *plan.lines.below_unfinished}):
        # Shards between those that are gone and those that are listed may be gone, too, and nothing names them.
        named.update(parent for shard in listing if shard.shard_id not in held for parent in shard.parent_shard_ids)
    found = [plan.of(shards[name]) for name in _youngest_first(shards) if plan.has_row(name)]
    return [taken.marked_unseen() if unseen(taken, named, listed) else taken for taken in found]


def _youngest_first(shards: Mapping[str, Shard]) -> list[str]:
    try:
        return youngest_first(shards)
    except ValueError as error:
        raise InvalidStream(f"The token and the stream disagree about who descends from whom: {error}.") from error


def _require_stream(token: Token, identity: str, held: Mapping[str, TokenShard], listed: Mapping[str, Shard]) -> None:
    if token.stream_arn != identity:
        raise InvalidStream(f"The token is of the stream {token.stream_arn}, and this one is {identity}.")
    known = {*listed, *(parent for shard in listed.values() for parent in shard.parent_shard_ids)}
    if not held.keys() & known:
        raise InvalidStream(
            "No shard of the token is one of this stream{}.".format(f": {min(held)} for one" if held else ""),
            remedy="If the token is older than a day, all its shards have expired: let the application begin at "
            "TRIM_HORIZON instead, without an import. Else take a new token.",
        )
    for name in held.keys() & listed.keys():
        parents, parent = listed[name].parent_shard_ids, held[name].parent
        if parent and parents and parent not in parents:
            raise InvalidStream(
                f"In the token {name} is a child of {parent}, and in this stream of {parents[0]}.",
                remedy="No shard changes its parent: the token is of another stream, or was edited. Take a new one.",
            )


def _lineage(held: Mapping[str, TokenShard], listed: Mapping[str, Shard]) -> dict[str, Shard]:
    """Every shard with the parent that the listing or the token names."""
    shards = dict(listed)
    for name, entry in held.items():
        shard = shards.get(name) or Shard(name, closed=True)
        if entry.parent and not shard.parent_shard_ids:
            shard = replace(shard, parent_shard_ids=(entry.parent,))
        shards[name] = shard
    return shards


@dataclass(frozen=True)
class _Plan:
    """The rules, one shard at a time."""

    token: Token
    held: Mapping[str, TokenShard]
    listed: Mapping[str, Shard]
    lines: Lines
    start: Position | None
    now: Callable[[], Position]

    def has_row(self, name: str) -> bool:
        """Whether a shard needs a row: not if it is behind Bloop and has left the stream."""
        return name in self.listed or name in self.token.active or name in self.lines.below_unfinished

    def of(self, shard: Shard) -> Taken:
        """What becomes of a shard."""
        name = shard.shard_id
        if name not in self.held:
            return self.lines.unkept(shard, passed=_PASSED, fresh=_FRESH)
        entry = self.held[name]
        taken = self._below(shard, entry) if name in self.lines.below_unfinished else self._above(shard, entry)
        return self._remarked(taken)

    def _below(self, shard: Shard, entry: TokenShard) -> Taken:
        """Of what descends from an active shard: it waits for that."""
        if entry.shard_id not in self.token.active:
            text = f"the token has it at {entry}, and not active: " if entry.exact else ""
            return Taken(shard, TRIM_HORIZON, f"{text}from its oldest record on, once its parent has ended")
        text = "the token has it active beside a shard that it descends from: it waits until that has ended, then "
        if entry.exact:
            return Taken(shard, _place(entry), f"{text}goes on {_words(entry)}")
        return Taken(shard, TRIM_HORIZON, f"{text}begins at its oldest record")

    def _above(self, shard: Shard, entry: TokenShard) -> Taken:
        """Of all others."""
        name = shard.shard_id
        if name not in self.token.active:
            refused = "" if shard.closed else _NOTHING_READS_IT
            return Taken(shard, SHARD_END, "completed: it is behind Bloop", refused=refused)
        if entry.iterator_type == LATEST:
            return self._latest(shard)
        place = _place(entry)
        meaning = f"{_words(entry)}, as the token has it"
        if not place.exact:
            meaning = "from its oldest record on; what has expired since the token was written is not known"
        return Taken(shard, place, meaning)

    def _latest(self, shard: Shard) -> Taken:
        """The token names no place: what came since it was written is not read, unless a start was chosen."""
        if self.start is not None:
            text = f"the token has latest, which is not a place: from {self.start} on"
            return Taken(shard, self.start, text, chosen=True)
        place = SHARD_END if shard.closed else self.now()
        text = "completed" if shard.closed else f"from the present instant on ({place})"
        return Taken(
            shard,
            place,
            f"the token has latest, which is not a place: {text}. WHAT CAME SINCE THE TOKEN WAS WRITTEN IS NOT READ; "
            "give a start to read it",
            chosen=True,
        )

    def _remarked(self, taken: Taken) -> Taken:
        name = taken.shard.shard_id
        text = taken.meaning
        if name not in self.listed and not taken.completed:
            lost = "what followed" if taken.position.exact else "all of it"
            text += f"; it has left the stream: {lost} becomes a gap"
        if name in self.token.stale:
            text += "; the token has a second place of it, from before Bloop was moved: that is not used"
        if name in self.token.doubled:
            text += "; the token has it active more than once"
        return replace(taken, meaning=text)


def _place(entry: TokenShard) -> Position:
    """Where reading goes on. Sequence numbers are integers, so at one means after the integer before it."""
    number = entry.sequence_number
    if number is None:
        return TRIM_HORIZON
    if entry.iterator_type != AT:
        return after(number)
    if int(number) == 0:
        return TRIM_HORIZON
    before = str(int(number) - 1)
    return after(before.zfill(len(number)) if number.startswith("0") else before)


def _words(entry: TokenShard) -> str:
    return "{} {}".format("at" if entry.iterator_type == AT else "after", entry.sequence_number)
