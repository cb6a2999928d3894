# SPDX-License-Identifier: Apache-2.0
"""The status of batches, including those of interval runs, and who sees their output."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from shardbatch.core.batch import KEPT, Batch, BatchState
from shardbatch.core.policies import Sink
from shardbatch.run.intervals import highest_numbers


@dataclass(frozen=True)
class BatchStatus:
    """One batch. ``application`` is the cluster's name of its last application, ``decided`` the recorded attempt. Its
    records arrived from ``min_arrival_ms`` to ``max_arrival_ms``, by the service's clock; ``None`` if it has none.

    ``set_aside`` is ``kept`` or ``dropped`` for a batch that was decided without output. ``possible_orphan``: it was
    discarded, and rows under its id may be in the sink.

    A batch of an interval run has its ``scope`` and its bounds, as instants and as the text ``interval`` (ISO 8601,
    UTC); ``number`` is the number of its decision among those of the interval. ``readers`` says who sees its output:
    ``live``: all; ``interval``: readers that name the interval; ``replaced``: none, since a later run read the interval
    again; ``own``: readers of the author's own sink; ``none``: no reader. ``waited_ms``, ``refused`` and
    ``resubscribed`` are the cost of the service's limits: time waited, calls refused, lasting answers renewed.
    ``retired_ms`` is when clean-up retired it: it cannot be replayed any more.
    """

    batch_id: str
    state: str
    owner: str
    attempt: int
    decided: int
    application: str | None
    records: int
    bytes: int
    gaps: int
    created_at_ms: int
    committed_at_ms: int | None
    attempt_seen_ms: int | None
    manifest_uri: str | None
    note: str | None
    set_aside: str | None = None
    possible_orphan: bool = False
    dropped: int = 0
    scope: str = ""
    interval: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    number: int = 0
    joins: bool = False
    readers: str = "none"
    waited_ms: int = 0
    refused: int = 0
    resubscribed: int = 0
    min_arrival_ms: int | None = None
    max_arrival_ms: int | None = None
    retired_ms: int | None = None


@dataclass(frozen=True)
class IntervalsStatus:
    """The batches of an application's interval runs, which are in no other count. ``seen_batches`` are those whose
    output some reader sees. All undecided batches, kept batches and orphans are listed."""

    committed_batches: int = 0
    seen_batches: int = 0
    last_commit_ms: int | None = None
    unfinished: tuple[BatchStatus, ...] = ()
    set_aside: tuple[BatchStatus, ...] = ()
    possible_orphans: tuple[BatchStatus, ...] = ()


def intervals_status(found: Sequence[Batch]) -> IntervalsStatus:
    """How the batches of an application's interval runs stand, all of which are given."""
    highest = highest_numbers(found)
    committed = [batch for batch in found if batch.state is BatchState.COMMITTED]

    def listed(chosen: Iterable[Batch]) -> tuple[BatchStatus, ...]:
        return tuple(batch_status(batch, highest) for batch in chosen)

    return IntervalsStatus(
        committed_batches=len(committed),
        seen_batches=sum(_readers(batch, highest) in ("live", "interval") for batch in committed),
        last_commit_ms=max((batch.committed_at_ms or 0 for batch in committed), default=0) or None,
        unfinished=listed(batch for batch in found if batch.state in (BatchState.FROZEN, BatchState.PARKED)),
        set_aside=listed(batch for batch in found if batch.set_aside == KEPT),
        possible_orphans=listed(batch for batch in found if batch.possible_orphan),
    )


def batch_status(batch: Batch, highest: Mapping[tuple[int, int], int] = MappingProxyType({})) -> BatchStatus:
    """The status of a batch; ``highest`` has the number that readers use for each interval."""
    return BatchStatus(
        batch_id=batch.batch_id,
        state=batch.state.value,
        owner=batch.owner,
        attempt=batch.attempt,
        decided=batch.decided,
        application=batch.spark_application[1],
        records=batch.records,
        bytes=batch.bytes,
        gaps=batch.gaps,
        created_at_ms=batch.created_at_ms,
        committed_at_ms=batch.committed_at_ms,
        attempt_seen_ms=batch.attempt_seen_ms,
        manifest_uri=batch.manifest_uri,
        note=batch.note,
        set_aside=batch.set_aside,
        possible_orphan=batch.possible_orphan,
        dropped=batch.dropped,
        scope=batch.scope,
        interval="/".join(map(utc, batch.interval)) if batch.interval else None,
        from_ms=batch.from_ms,
        to_ms=batch.to_ms,
        number=batch.number,
        joins=batch.joins,
        readers=_readers(batch, highest),
        waited_ms=batch.waited_ms,
        refused=batch.refused,
        resubscribed=batch.resubscribed,
        min_arrival_ms=batch.min_arrival_ms,
        max_arrival_ms=batch.max_arrival_ms,
        retired_ms=batch.retired_ms,
    )


def _readers(batch: Batch, highest: Mapping[tuple[int, int], int]) -> str:
    """Who sees its output."""
    if batch.state is not BatchState.COMMITTED or batch.set_aside is not None or not batch.records:
        return "none"
    if batch.interval is not None and batch.number < highest.get(batch.interval, 0):
        return "replaced"
    if not batch.starts:
        return "own" if batch.sink == Sink.OWN.value else "none"
    return "live" if batch.interval is None or batch.joins else "interval"


def arrived(first_ms: int | None, last_ms: int | None) -> str:
    """The first and last arrival of records, as ISO 8601 texts in UTC; empty if unknown."""
    return "" if first_ms is None or last_ms is None else f"{utc(first_ms)}/{utc(last_ms)}"


def utc(instant_ms: int) -> str:
    """An instant as ISO 8601 text, in UTC."""
    seconds, rest = divmod(instant_ms, 1000)
    fraction = f".{rest:03d}" if rest else ""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + fraction + "Z"


def in_bytes(count: int) -> str:
    """A number of bytes."""
    value, names = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(names) > 1:
        value, names = value / 1024, names[1:]
    return f"{value:.0f} {names[0]}" if names[0] == "B" else f"{value:.1f} {names[0]}"
