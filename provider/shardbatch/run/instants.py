# SPDX-License-Identifier: Apache-2.0
"""The instants at which shards begin to be read, and how far the stream's own clock has come (PROTOCOL T7)."""

from __future__ import annotations

from collections.abc import Iterable

from shardbatch.core.application import Application
from shardbatch.core.interval import CLOCKS_APART_MS
from shardbatch.core.lease import Lease
from shardbatch.core.position import Kind, Position
from shardbatch.core.shortlist import shortlist
from shardbatch.errors import ConfigurationError
from shardbatch.run.consumer import Consumer


def clock_there(consumer: Consumer) -> int:
    """The stream's own time, which its records carry; a worker's clock may be ahead of it and end an interval early."""
    there = consumer.source.clock_ms()
    return consumer.now_ms() if there is None else there


def reached(consumer: Consumer, places: Iterable[Position]) -> int:
    """How far the stream's clock has certainly come. The stream is asked only if one of these places may lie ahead of
    it."""
    now_ms = consumer.now_ms()
    instants = [place.timestamp_ms for place in places if place.kind is Kind.AT_TIMESTAMP]
    latest = max((ms for ms in instants if ms is not None), default=None)
    return now_ms if latest is None or latest <= now_ms - CLOCKS_APART_MS else clock_there(consumer)


def require_instants(consumer: Consumer, application: Application, rows: Iterable[Lease]) -> None:
    """Check that nothing is to be read from an instant on if the stream cannot do that. A reset may have said so, which
    knows the rows only.

    :raises ConfigurationError: if something is; it names what to reset.
    """
    name = consumer.source.name
    if consumer.source.capabilities.instants:
        return
    if application.start_position.kind is Kind.AT_TIMESTAMP:
        raise ConfigurationError(
            f"{consumer.namespace} begins at an instant, and the stream {name} cannot be read from an instant.",
            remedy="Begin at its oldest records: 'airflow shardbatch reset --all --to TRIM_HORIZON --stream-id "
            f"{application.stream_id}'.",
        )
    shards = [row.shard_id for row in rows if not row.completed and row.checkpoint.kind is Kind.AT_TIMESTAMP]
    if shards:
        raise ConfigurationError(
            f"{shortlist(shards)} would be read from an instant on, from which the stream {name} cannot be read.",
            remedy="Reset them to TRIM_HORIZON, or each to the sequence number of one of its records ('airflow "
            "shardbatch reset').",
        )
