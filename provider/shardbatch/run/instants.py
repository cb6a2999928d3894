# SPDX-License-Identifier: Apache-2.0
"""The instants at which shards begin to be read, and how far the stream's own clock has come (PROTOCOL T7)."""

from __future__ import annotations

from collections.abc import Iterable

from shardbatch.core.interval import CLOCKS_APART_MS
from shardbatch.core.position import Kind, Position
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
