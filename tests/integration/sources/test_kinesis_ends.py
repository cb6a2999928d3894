# SPDX-License-Identifier: Apache-2.0
"""An end that names no children: answers that merely lost their iterator look the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbatch.core.ports import Page
from shardbatch.core.position import TRIM_HORIZON, Position, after
from shardbatch.errors import InvalidAnswer
from shardbatch.sources.kinesis.calls import Caller
from shardbatch.sources.kinesis.decoder import Decoded
from shardbatch.sources.kinesis.options import FanOut
from shardbatch.sources.kinesis.source import KinesisSource
from tests.integration.sources.kinesis_world import FIRST, World, payloads, stopped_server

RECORDS = [b"r%d" % n for n in range(10)]


@pytest.fixture
def world() -> Iterator[World]:
    with stopped_server() as server:
        yield World(server)


def lose(found: Decoded) -> Decoded:
    """The answer without its iterator and children."""
    return replace(found, next_iterator=None, children=())


def lose_lag(found: Decoded) -> Decoded:
    return replace(lose(found), millis_behind_latest=0)


def lose_all(found: Decoded) -> Decoded:
    return replace(lose_lag(found), records=found.records.slice(0, 0))


def cut(found: Decoded) -> Decoded:
    """Only its first record, as if that were the last one of the shard."""
    return replace(lose_lag(found), records=found.records.slice(0, 1))


Forgery = Callable[[Decoded], Decoded]


def forging(source: KinesisSource, forgeries: list[Forgery | None]) -> None:
    """The next answers of GetRecords are forged so; ``None`` leaves one as it is."""
    caller: Caller = source._caller
    honest, left = caller.records, list(forgeries)

    def records(*args: Any) -> Decoded:
        found = honest(*args)
        forgery = left.pop(0) if left else None
        return forgery(found) if forgery else found

    caller.records = records  # type: ignore[method-assign]


def read(source: KinesisSource, start: Position = TRIM_HORIZON) -> list[Page]:
    pages: list[Page] = []
    for page in source.read(FIRST, start):
        pages.append(page)
        assert len(pages) < 300, "the shard does not end"
    return pages


@pytest.mark.parametrize("forgery", [lose, lose_lag])
def test_a_closed_shard_whose_answers_lose_their_iterators_at_one_place_is_read_to_its_end(
    world: World, forgery: Forgery
) -> None:
    world.put(*RECORDS)
    world.split()
    source = world.source(page_records=8)
    forging(source, [forgery] * 2)
    pages = read(source)
    assert payloads(pages) == RECORDS
    assert [child.shard_id[-1] for child in pages[-1].children] == ["1", "2"]


@pytest.mark.parametrize("ends_with_records", [True, False])
@settings(max_examples=15, deadline=None)
@given(
    records=st.integers(0, 5),
    page_records=st.integers(1, 6),
    begun=st.booleans(),
    names_children=st.booleans(),
    forgeries=st.lists(st.sampled_from([None, None, lose, lose_lag, lose_all]), max_size=14).filter(
        lambda made: sum(forgery is not None for forgery in made) <= 6
    )
    | st.lists(st.sampled_from([None, None, lose, lose_lag, lose_all, cut]), max_size=14).filter(
        lambda made: sum(forgery is not None for forgery in made) <= 3
    ),
)
def test_answers_that_lose_their_iterators_never_end_a_shard_early(
    ends_with_records: bool,
    records: int,
    page_records: int,
    begun: bool,
    names_children: bool,
    forgeries: list[Forgery | None],
) -> None:
    """All records are delivered, or the read fails."""
    with stopped_server(end_with_records=ends_with_records, name_children=names_children) as server:
        world = World(server)
        start = after(world.put(b"read before")[0]) if begun else TRIM_HORIZON
        if records:
            world.put(*RECORDS[:records])
        world.split()
        source = world.source(page_records=page_records)
        forging(source, forgeries)
        try:
            pages = read(source, start)
        except InvalidAnswer:
            return
        assert payloads(pages) == RECORDS[:records]
        assert len(pages[-1].children) == 2
        assert not any(page.checkpoint_gone for page in pages)


def test_an_end_without_children_is_walked_to_three_times_from_the_last_record(world: World) -> None:
    world.server.options.update(name_children=False)
    world.put(*RECORDS)
    world.split()
    source = world.source()
    pages = read(source)
    assert payloads(pages) == RECORDS
    assert [(page.records.num_rows, page.ended) for page in pages] == [(10, False), (0, True)]
    assert source.calls["GetShardIterator"] == 1 + 1 + 3
    assert source.calls["ListShards"] == 1


def test_an_end_without_children_whose_last_record_expired_is_told_as_a_gap(world: World) -> None:
    world.server.options.update(name_children=False)
    sent = world.put(*RECORDS)
    world.split()
    world.server.trim("orders", FIRST)
    pages = read(world.source(), after(sent[3]))
    assert payloads(pages) == []
    assert [page.checkpoint_gone for page in pages].count(True) == 1


def test_a_subscription_whose_events_lose_their_place_is_read_to_the_end(world: World) -> None:
    world.put(*RECORDS[:3])
    world.split()
    world.server.options.heartbeat_seconds = 0.02
    world.server.faults.add("SubscribeToShardEvent", "no_iterator", times=2)
    pages = read(world.source(fan_out=FanOut.ALWAYS, app_name="etl"))
    assert payloads(pages) == RECORDS[:3]
    assert pages[-1].ended


def test_a_proof_sees_more_than_one_record_however_small_pages_are(world: World) -> None:
    world.put(*RECORDS[:3])
    world.split()
    source = world.source(page_records=1)
    forging(source, [None, lose_all, lose_lag, lose_lag, lose_lag])
    assert payloads(read(source)) == RECORDS[:3]
