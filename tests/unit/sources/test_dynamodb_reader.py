# SPDX-License-Identifier: Apache-2.0
"""What a read makes of answers that contradict each other, on the breaker's stream of a table: it does on demand what
no server here does."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from shardbatch.core.ports import Page
from shardbatch.core.position import TRIM_HORIZON, Position, at_timestamp
from shardbatch.sources.dynamodb.source import DynamoDBSource
from tests.breaker.process import GO, Fate
from tests.breaker.table import PLAIN, TableStream
from tests.breaker.table_client import table_source
from tests.support.rig import FakeTime


@dataclass
class Alone:
    """Stands for the process that asks: nobody comes between its calls, whose fates a test decides."""

    fates: dict[str, list[str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def pause(self, at: str) -> Fate:
        self.asked.append(at)
        waiting = self.fates.get(at)
        return Fate(waiting.pop(0)) if waiting else GO


@dataclass
class Reading:
    """A stream, and one source that reads it."""

    stream: TableStream
    process: Any
    source: DynamoDBSource

    def pages(self, shard_id: str, place: Position = TRIM_HORIZON) -> list[Page]:
        found = []
        for page in self.source.read(shard_id, place):
            found.append(page)
            if page.at_tip:
                break
        return found


def reading(**habits: Any) -> Reading:
    time, process = FakeTime(), Alone()
    stream = TableStream(time, replace(PLAIN, **habits), name="orders", shards=1, page_size=2)
    return Reading(stream, process, table_source(stream, process, time.clock()))  # type: ignore[arg-type]


def read(pages: list[Page]) -> list[str]:
    return [number for page in pages for number in page.records.column("sequence_number").to_pylist()]


def first(stream: TableStream) -> str:
    return next(iter(stream.shards))


# the search for an instant


def test_a_closed_shard_is_searched_although_its_child_seems_a_little_older() -> None:  # F8
    found = reading(instants="unknown")
    stream, old = found.stream, first(found.stream)
    instant = at_timestamp(stream.now_ms)
    wanted = stream.put("a")
    stream.roll(old)
    stream.late(59_000, "b")  # arrival times may run backwards
    assert read(found.pages(old, instant)) == wanted


def test_a_closed_shard_is_not_searched_if_its_child_is_older_by_more_than_a_minute() -> None:  # F8
    found = reading(instants="unknown")
    stream, old = found.stream, first(found.stream)
    stream.put(*"abcd")
    stream.roll(old)
    stream.put("e")
    pages = found.pages(old, at_timestamp(stream.now_ms + 61_000))
    assert (read(pages), [page.ended for page in pages]) == ([], [True])
    assert found.process.asked.count("records") == 1


# a shard that has left the stream


@pytest.mark.parametrize("known", [False, True])
def test_a_shard_that_a_listing_had_not_yet_is_not_gone(known: bool) -> None:  # W11
    found = reading(late_ms=20_000)
    stream, parent = found.stream, first(found.stream)
    sent = stream.put("a")
    child = stream.roll(parent)
    sent += stream.put("b")
    if known:  # another shard that has left the stream had it listed while the child was not yet shown
        stream.shards["shardId-0"] = replace(stream.shards[parent], shard_id="shardId-0", gone=True)
        stream.of["shardId-0"] = stream.streams[0]
        assert [page.gone for page in found.pages("shardId-0")] == [True]
    stream._time.ms += 20_000
    pages = found.pages(parent)
    assert [shard.shard_id for shard in pages[-1].children] == [child]
    found.process.fates = {"iterator": ["unknown"]}
    assert read(pages + found.pages(child)) == sent


def test_a_shard_that_one_listing_lacks_is_not_gone() -> None:  # W11
    found = reading()
    stream, parent = found.stream, first(found.stream)
    sent = stream.put("a")
    stream.roll(parent)
    found.process.fates = {"iterator": ["unknown"], "describe": ["go", "lacking"]}
    assert read(found.pages(parent)) == sent


def test_a_shard_that_two_listings_lack_is_gone() -> None:  # W11
    found = reading()
    stream, parent = found.stream, first(found.stream)
    stream.put("a")
    stream.roll(parent)
    stream._time.ms += stream.retention_ms() + 5_000
    stream.put("b")
    pages = found.pages(parent)
    assert [(page.ended, page.gone) for page in pages] == [(True, True)]
