# SPDX-License-Identifier: Apache-2.0
"""Positions that were written down become the leases of a new application (PROTOCOL D8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from shardbatch.control.action import Action, Done
from shardbatch.control.import_leases import Import, import_leases
from shardbatch.control.place_look import Seen, look_at_all
from shardbatch.control.position_format import PositionFormat, loaded
from shardbatch.core.ports import Source
from shardbatch.core.position import LATEST, Kind, Position
from shardbatch.core.taken import Taken
from shardbatch.errors import ConfigurationError

_TRIMMED = "; the service says that the record there has expired: what else has, becomes a gap"


def import_positions(
    action: Action,
    *,
    source: Source,
    form: PositionFormat,
    positions: str | Mapping[str, Any],
    start: Position | None = None,
) -> tuple[Done, ...]:
    """Make an application that goes on where the positions are, or say what would be made.

    Everything is checked first, also with the stream. All or nothing: if one shard is refused, none is imported.

    :param form: how they are written.
    :param positions: their text, or what it says.
    :param start: where shards begin of which they name no place: ``TRIM_HORIZON`` or an instant; default: as the
        program does that wrote them.
    :raises InvalidToken: if they are not written as the format wants, or contradict themselves.
    :raises InvalidStream: if they are of another stream.
    :raises ConfigurationError: if the application has leases of its own, the start is a record, or the reason is empty.
    """
    action.require_reason()
    if start is not None and start.exact:
        raise ConfigurationError(
            f"Shards of which no place is named cannot all begin at {start}.",
            remedy="Give TRIM_HORIZON or an instant with its time zone.",
        )
    kept = form.read(loaded(positions))
    identity = source.identity()
    form.require_stream(identity)
    now = cache(lambda: source.resolve(LATEST))
    now()  # before the listing: a shard that this lacks was born later
    listing = source.list_shards()
    plan = kept.plan(identity, listing, start, now)
    listed = {shard.shard_id for shard in listing}
    checked = _checked(source, [taken for taken in plan if taken.shard.shard_id in listed])
    return import_leases(
        action,
        Import(
            identity=identity,
            plan=[checked.get(taken.shard.shard_id, taken) for taken in plan],
            text=kept.text,
            where=form.who,
            clock_ms=source.clock_ms,
            carried=kept.carried,
        ),
    )


def _checked(source: Source, plan: Sequence[Taken]) -> dict[str, Taken]:
    """Those at a record, with what the stream says of it: a place of another shard would make each run fail."""
    named = {
        taken.shard.shard_id: taken
        for taken in plan
        if taken.position.kind is Kind.AFTER_SEQUENCE_NUMBER and not taken.refused
    }
    seen = look_at_all(source, ((shard_id, taken.position) for shard_id, taken in named.items()))
    return {shard_id: _with(taken, seen[shard_id]) for shard_id, taken in named.items()}


def _with(taken: Taken, seen: Seen) -> Taken:
    if seen.refused:
        return replace(taken, refused=seen.refused)
    return replace(taken, meaning=taken.meaning + _TRIMMED) if seen.trimmed else taken
