# SPDX-License-Identifier: Apache-2.0
"""What the law promises of records that a table's stream lost before their time, or with the stream itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardbatch.core.application import Application
from shardbatch.core.lease import Lease
from shardbatch.core.position import TRIM_HORIZON, Kind
from shardbatch.core.rows import SHARD_LEASE, Key
from tests.breaker.stream import Sent
from tests.breaker.table import TableStream

if TYPE_CHECKING:
    from tests.breaker.world import World

#: A place proves that something behind it went early while its record is younger than this; clocks differ.
PROOF_MS = 23 * 3_600_000


def trim(world: World, shard_id: str, keep: int) -> None:
    """The service drops all but the newest records of a shard. Those behind a record that was read are owed to us: it
    is too young to have expired (W10). Elsewhere nothing shows the loss."""
    assert isinstance(world.stream, TableStream)
    row = world.rows.get(Key(SHARD_LEASE, world.namespace, ("", shard_id)))
    place = TRIM_HORIZON
    if isinstance(row, Lease):
        place = row.checkpoint if row.pending is None else row.pending.until
    proves = place.kind is Kind.AFTER_SEQUENCE_NUMBER and not place.searching
    for sent in world.stream.drop(shard_id, keep):
        sent.early = True
        if proves and place < sent.place:
            sent.behind = str(place)


def must_be_told(world: World, sent: Sent) -> bool:
    """Whether the law promises a gap for a record that was trimmed before its time."""
    place = world.stream.sent.get(sent.behind or "")
    return place is not None and place.arrival_ms > world.time.ms - PROOF_MS


def replaced(world: World) -> str | None:
    """The stream that an application has to be moved to, if its own is not the table's any more."""
    row = next((row for row in world.rows.values() if isinstance(row, Application)), None)
    stream = world.stream
    if row is None or not isinstance(stream, TableStream) or row.stream_id == stream.source_arn:
        return None
    return stream.source_arn


def belongs(world: World, sent: Sent) -> bool:
    """Whether a record is of the stream that is to be read; what another one had is lost with a person's word, and what
    one had that is no more, with an error of every claim."""
    stream = world.stream
    if not isinstance(stream, TableStream):
        return True
    return stream.of[sent.shard_id].arn == stream.source_arn and not stream.gone


def has_left(world: World, shard_id: str) -> bool:
    """Whether a shard left the stream that the application reads, or is of another one."""
    return world.stream.shards[shard_id].gone or is_replaced(world, shard_id)


def is_replaced(world: World, shard_id: str) -> bool:
    """Whether a shard is of another stream than the application's."""
    stream = world.stream
    if not isinstance(stream, TableStream):
        return False
    row = next((row for row in world.rows.values() if isinstance(row, Application)), None)
    return row is not None and row.stream_id != stream.of[shard_id].arn
