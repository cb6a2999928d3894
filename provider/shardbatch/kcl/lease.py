# SPDX-License-Identifier: Apache-2.0
"""Leases of the Kinesis Client Library (KCL), and what becomes of a stream's shards when they are taken over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from shardbatch.core.position import SHARD_END, TRIM_HORIZON, Kind, Position
from shardbatch.core.shard import KeyRange, Shard
from shardbatch.core.taken import Lines, Taken, unseen, youngest_first
from shardbatch.errors import ConfigurationError

_PASSED = "KCL has leases of its descendants only: it has read it, or never wanted it"
_FRESH = "KCL has no lease of it yet: from its oldest record on"


@dataclass(frozen=True)
class KclStream:
    """The stream of a row that KCL wrote for one stream of several; ``created_s`` is in seconds since the epoch."""

    account: str
    name: str
    created_s: int


@dataclass(frozen=True)
class KclLease:
    """One lease as KCL 1, 2 or 3 keeps it.

    ``checkpoint`` is ``TRIM_HORIZON``, ``LATEST``, ``AT_TIMESTAMP``, ``SHARD_END`` or a sequence number, as KCL has it:
    it keeps no instant. ``prepared`` is a checkpoint that its application prepared and did not commit. ``stream`` is
    ``None`` where KCL reads one stream only.
    """

    key: str
    shard_id: str
    counter: int
    checkpoint: str
    sub_sequence_number: int = 0
    owner: str | None = None
    stream: KclStream | None = None
    parent_shard_ids: tuple[str, ...] = ()
    child_shard_ids: tuple[str, ...] = ()
    hash_range: KeyRange | None = None
    prepared: str | None = None

    def position(self, start: Position | None) -> Position:
        """Where reading goes on; ``start`` is what was chosen for leases that name no place that can be found again.

        :raises ValueError: with what is wrong, if there is none.
        """
        if self.checkpoint in ("TRIM_HORIZON", "SHARD_END"):
            return Position(Kind[self.checkpoint])
        if self.checkpoint not in ("LATEST", "AT_TIMESTAMP"):
            return Position(Kind.AFTER_SEQUENCE_NUMBER, self.checkpoint, self.sub_sequence_number)
        if start is None:
            raise ValueError(f"KCL has {self.checkpoint} and no instant: give the start of such shards")
        return start


class KclLeases(Protocol):
    """A lease table of the Kinesis Client Library, which is only ever read."""

    name: str

    def leases(self) -> Sequence[KclLease]:
        """All its leases, of whatever stream.

        :raises ConfigurationError: if it is not such a table.
        :raises StoreError: if it cannot be asked.
        """
        ...

    def close(self) -> None:
        """Give back connections."""


def of_stream(found: Iterable[KclLease], identity: str) -> list[KclLease]:
    """The leases of one stream among those of a table.

    :param identity: as a source tells it: an ARN, and behind an ``@`` when the stream was created, in milliseconds.
    :raises ConfigurationError: if there are none, two of one shard, or only those of an earlier stream of this name.
    """
    arn, _, created = identity.rpartition("@")
    account, name = arn.split(":")[4:5] or [""], arn.rpartition("/")[2].rpartition(":")[2]
    chosen: dict[str, KclLease] = {}
    others: set[KclStream] = set()
    for lease in found:
        stream = lease.stream
        if stream is not None and (stream.name != name or account[0] not in ("", stream.account)):
            continue
        if stream is not None and created.isdigit() and stream.created_s != int(created) // 1000:
            others.add(stream)
            continue
        if lease.shard_id in chosen:
            raise ConfigurationError(
                f"KCL has two leases of {lease.shard_id}: {chosen[lease.shard_id].key} and {lease.key}.",
                remedy="One is left from before KCL was told to read several streams, or one; delete that one.",
            )
        chosen[lease.shard_id] = lease
    if not chosen and others:
        raise ConfigurationError(
            f"The KCL leases are of a stream {name} created {min(stream.created_s for stream in others)} s after the "
            f"epoch; this one is {identity}.",
            remedy="Its checkpoints are worth nothing for this stream; let the application begin at TRIM_HORIZON.",
        )
    if not chosen:
        raise ConfigurationError(
            f"KCL has no leases of the stream {identity}.",
            remedy="Check the table's name, which is KCL's application name, its region, and the stream.",
        )
    return list(chosen.values())


def plan_import(found: Sequence[KclLease], listing: Sequence[Shard], start: Position | None) -> list[Taken]:
    """What becomes of every shard that KCL has a lease of, or that is listed; children before their parents.

    A listed shard without a lease is read from its oldest record on, with one exception: if KCL has leases of its
    descendants and has ended all that it has of its ancestors, then it has read it, or never wanted it.

    :raises ConfigurationError: if none of the leases is of a listed shard or its parent, so that the table is of
        another stream.
    """
    held = {lease.shard_id: lease for lease in found}
    listed = {shard.shard_id: shard for shard in listing}
    known = {*listed, *(parent for shard in listing for parent in shard.parent_shard_ids)}
    if not held.keys() & known:
        raise ConfigurationError(
            f"No shard of the KCL leases is a shard of this stream: {min(held)} for one.",
            remedy="Check the table and the stream; if all those shards have expired, begin at TRIM_HORIZON instead.",
        )
    shards = _lineage(held, listed)
    unfinished = {name for name, lease in held.items() if lease.checkpoint != "SHARD_END"}
    lines = Lines(shards, held, unfinished)
    places = [
        _leased(held[name], shards[name], name in listed, start)
        if name in held
        else lines.unkept(shards[name], passed=_PASSED, fresh=_FRESH)
        for name in youngest_first(shards)
    ]
    return [taken.marked_unseen() if unseen(taken, held, listed) else taken for taken in places]


def _lineage(held: Mapping[str, KclLease], listed: Mapping[str, Shard]) -> dict[str, Shard]:
    """Every shard with all its parents that anyone names: the listing, its own lease, a lease that names its child."""
    shards = dict(listed)
    for name, lease in held.items():
        if name not in shards:
            shards[name] = Shard(name, (), lease.hash_range, closed=True)
    parents: dict[str, dict[str, None]] = {
        name: dict.fromkeys(shard.parent_shard_ids) for name, shard in shards.items()
    }
    for name, lease in held.items():
        parents[name].update(dict.fromkeys(lease.parent_shard_ids))
        for child in lease.child_shard_ids:
            if child in parents:
                parents[child][name] = None
    return {name: replace(shard, parent_shard_ids=tuple(parents[name])) for name, shard in shards.items()}


def _leased(lease: KclLease, shard: Shard, listed: bool, start: Position | None) -> Taken:
    owner = lease.owner or ""
    try:
        position = lease.position(start)
    except ValueError as error:
        return Taken(shard, TRIM_HORIZON, "", owner, refused=str(error))
    foreign = _foreign(shard, position) if listed else ""
    if foreign:
        return Taken(shard, position, "", owner, refused=foreign)
    meaning = "completed" if position == SHARD_END else f"from {position} on"
    if lease.checkpoint in ("LATEST", "AT_TIMESTAMP"):
        meaning = f"KCL has {lease.checkpoint}: {meaning}"
    if position.kind is Kind.AFTER_SEQUENCE_NUMBER:
        meaning = f"after {position}, as KCL has it"
    if lease.prepared is not None:
        meaning += f"; KCL had prepared {lease.prepared} and not committed it: that is read again"
    if not listed and not position.exact:
        meaning += "; it has left the stream unread, which becomes a gap"
    if not listed and position.kind is Kind.AFTER_SEQUENCE_NUMBER:
        meaning += "; it has left the stream, what followed becomes a gap"
    return Taken(shard, position, meaning, owner)


def _foreign(shard: Shard, position: Position) -> str:
    """What shows that a lease is of another stream's shard of the same name."""
    if position == SHARD_END and not shard.closed:
        return "KCL has read it to its end, but in this stream it is open: the lease is of another stream"
    first = shard.starting_sequence_number
    if position.kind is Kind.AFTER_SEQUENCE_NUMBER and first and int(position.sequence_number or 0) < int(first):
        return f"its first record is {first}, which is later: the lease is of another stream"
    return ""
