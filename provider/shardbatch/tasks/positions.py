# SPDX-License-Identifier: Apache-2.0
"""Positions that are written down: their formats, and an export as tasks and the command line do it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardbatch.core.position_formats import PositionsFormat
from shardbatch.hooks.lazy_source import LazySource
from shardbatch.hooks.leases import existing_store

if TYPE_CHECKING:
    from shardbatch.control.position_format import Exported, PositionFormat
    from shardbatch.core.ports import LeaseStore, Source
    from shardbatch.core.rows import Namespace
    from shardbatch.hooks.leases import Leases
    from shardbatch.hooks.streams import Stream


def _given(positions: Any, name: str) -> str:
    return name


@dataclass(frozen=True)
class Way:
    """A format, and the stream that a person names for it: by the stream's name or identity, a connection, a region.

    :param address: where the positions themselves say of which stream they are: that; else the name that is given.
    """

    form: PositionFormat
    stream: Callable[[str, str | None, str | None], Stream]
    address: Callable[[Any, str], str] = _given


def _bloop() -> Way:
    from shardbatch.bloop.format import BloopTokens
    from shardbatch.bloop.stream import table_stream

    return Way(BloopTokens(), table_stream)


def _json() -> Way:
    from shardbatch.control.json_positions import JsonPositions, stream_of
    from shardbatch.control.position_format import loaded
    from shardbatch.hooks.addresses import stream_at

    return Way(JsonPositions(), stream_at, lambda positions, name: stream_of(loaded(positions)))


_WAYS = {PositionsFormat.BLOOP: _bloop, PositionsFormat.JSON: _json}


def way_of(chosen: PositionsFormat) -> Way:
    """What a format needs."""
    return _WAYS[chosen]()


def source_of(stream: Stream) -> Source:
    """The source of a stream, which is opened when it is first asked: what is wrong by itself is said before."""
    return LazySource(stream.stream_name, stream.open)


def export(leases: Leases, namespace: Namespace, stream: Stream, chosen: PositionsFormat) -> Exported:
    """Where an application stands, in a format.

    :raises ShardbatchError: whatever hinders it.
    """
    with existing_store(leases) as store:
        return export_of(store, namespace, stream, chosen)


def export_of(store: LeaseStore, namespace: Namespace, stream: Stream, chosen: PositionsFormat) -> Exported:
    """The same, of a lease store that is open."""
    from shardbatch.control.export_positions import export_positions
    from shardbatch.run.consumer import Rows

    with contextlib.closing(source_of(stream)) as source:
        return export_positions(Rows(namespace=namespace, store=store), source=source, form=way_of(chosen).form)
