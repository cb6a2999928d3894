# SPDX-License-Identifier: Apache-2.0
"""Aggregates in a stream: how their answers come in pages, and which range their hash keys are held against."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from shardbatch.core.ports import Page
from shardbatch.core.position import TRIM_HORIZON, after
from shardbatch.core.slice import Oddities
from shardbatch.sources.kinesis.options import Deaggregate
from tests.integration.sources.kinesis_world import FIRST, STREAM, World, payloads, stopped_server, take, until
from tests.support.aggregates import FIXTURE, Packed, pack

LOW, HIGH = "shardId-000000000001", "shardId-000000000002"


@pytest.fixture
def world() -> Iterator[World]:
    with stopped_server() as server:
        yield World(server)


def packed(first: int, count: int, key: str = "a") -> bytes:
    return pack(*(Packed(key, b"%d" % n) for n in range(first, first + count)))


def test_an_answer_comes_in_pages_that_may_end_inside_an_aggregate(world: World) -> None:  # K-42
    first, second = world.put(packed(0, 5), packed(5, 4))
    pages = until(iter(world.source(page_records=3).read(FIRST, TRIM_HORIZON)), 9)
    assert payloads(pages) == [b"%d" % n for n in range(9)]
    assert [page.records.num_rows for page in pages] == [3, 3, 3]
    assert [page.next for page in pages] == [after(first, 2), after(second), after(second, 3)]
    assert [page.requests for page in pages] == [2 + 1, 0, 0]  # an iterator, the answer, and the ranges
    # More of the answer is behind the first two: no lag of zero there.
    assert [page.lag_ms for page in pages] == [1, 1, 0]
    assert world.server.calls.count("GetRecords") == 1


def test_only_the_last_page_of_an_answer_ends_the_shard(world: World) -> None:  # K-34
    world.put(packed(0, 7))
    world.split()
    pages = list(world.source(page_records=3).read(FIRST, TRIM_HORIZON))
    assert [(page.records.num_rows, page.ended, len(page.children)) for page in pages] == [
        (3, False, 0),
        (3, False, 0),
        (1, True, 2),
    ]


def test_every_place_inside_an_aggregate_can_be_the_checkpoint(world: World) -> None:  # KV-2, KV-10, K-32
    sent, last = world.put(FIXTURE, b"plain")
    source = world.source()
    for sub, left in ((0, [b"two", b"three", b"plain"]), (1, [b"three", b"plain"]), (2, [b"plain"])):
        (page,) = take(iter(source.read(FIRST, after(sent, sub))), 1)
        assert payloads([page]) == left
        assert (page.next, page.checkpoint_gone) == (after(last), False)


def test_an_iterator_that_expires_inside_an_aggregate_is_renewed_behind_it(world: World) -> None:  # K-39
    world.put(packed(0, 5), packed(5, 2))
    source = world.source(page_records=2)
    reading = iter(source.read(FIRST, TRIM_HORIZON))
    pages = take(reading, 2)
    world.server.clock.advance(301)
    pages += until(reading, 3)
    assert payloads(pages) == [b"%d" % n for n in range(7)]
    world.put(b"later")
    world.server.clock.advance(301)
    assert payloads(until(reading, 1)) == [b"later"]
    assert source.calls["GetShardIterator"] == 2


def test_an_aggregate_that_expires_after_it_was_begun_is_a_gap(world: World) -> None:  # K-7
    first, last = world.put(FIXTURE, b"kept")
    world.server.trim(STREAM, FIRST, before=last)
    (page,) = take(iter(world.source().read(FIRST, after(first, 1))), 1)
    assert (payloads([page]), page.checkpoint_gone) == ([b"kept"], True)


def test_a_gap_before_an_answer_of_several_pages_is_told_with_the_first(world: World) -> None:  # K-7
    first, last = world.put(b"read before", packed(0, 5))
    world.server.trim(STREAM, FIRST, before=last)
    pages = until(iter(world.source(page_records=2).read(FIRST, after(first))), 5)
    assert [page.checkpoint_gone for page in pages] == [True, False, False]


@pytest.mark.parametrize(("shard_id", "hash_key", "foreign"), [(LOW, 0, 1), (HIGH, 2**127, 2)])
def test_hash_keys_are_held_against_the_range_of_the_shard_that_is_read(
    world: World, shard_id: str, hash_key: int, foreign: int
) -> None:  # R41, K-43, KV-10
    world.put(FIXTURE)
    world.split()
    world.put(FIXTURE, FIXTURE, b"plain", hash_key=hash_key)
    source = world.source()
    pages = list(source.read(FIRST, TRIM_HORIZON))
    assert (payloads(pages), pages[0].oddities) == ([b"one", b"two", b"three"], Oddities())
    (page,) = take(iter(source.read(shard_id, TRIM_HORIZON)), 1)
    assert payloads([page]) == [b"one", b"two", b"three"] * 2 + [b"plain"]
    assert page.oddities == Oddities(foreign=2 * foreign)
    assert source.calls["ListShards"] == 1

    strict = world.source(deaggregate=Deaggregate.STRICT)
    (page,) = take(iter(strict.read(shard_id, TRIM_HORIZON)), 1)
    assert (payloads([page]), page.oddities) == ([b"plain"], Oddities(dropped=6))


def test_an_answer_of_dropped_records_is_not_the_tip(world: World) -> None:  # R33
    world.split()
    sent = world.put(FIXTURE)
    reading = iter(world.source(deaggregate=Deaggregate.STRICT).read(LOW, TRIM_HORIZON))
    first, then = take(reading, 2)
    assert (first.records.num_rows, first.lag_ms, first.next) == (0, 1, after(sent[0], 2))
    assert (then.records.num_rows, then.lag_ms, then.next) == (0, 0, after(sent[0], 2))
    assert [page.oddities.dropped for page in (first, then)] == [3, 0]


def test_a_full_answer_of_which_nothing_is_new_is_not_the_tip(world: World) -> None:  # R38
    sent, _ = world.put(b"read before", b"new")
    reading = iter(world.source(page_records=1).read(FIRST, after(sent)))
    pages = take(reading, 2)
    assert [(page.records.num_rows, page.lag_ms) for page in pages] == [(0, 1), (1, 0)]


def test_a_lag_of_zero_beside_the_checkpoints_own_record_is_not_the_tip(world: World) -> None:  # R38
    (sent,) = world.put(b"read before")
    pages = take(iter(world.source().read(FIRST, after(sent))), 2)
    assert [(page.records.num_rows, page.lag_ms) for page in pages] == [(0, 1), (0, 0)]


def test_aggregates_may_be_read_as_they_are(world: World) -> None:
    sent = world.put(FIXTURE, b"plain", FIXTURE)
    (page,) = take(iter(world.source(deaggregate=Deaggregate.OFF).read(FIRST, TRIM_HORIZON)), 1)
    assert payloads([page]) == [FIXTURE, b"plain", FIXTURE]
    assert page.records.column("sub_sequence_number").to_pylist() == [0, 0, 0]
    assert page.next == after(sent[2], 2)  # as a reader counts that takes them apart


def test_places_never_go_back(world: World) -> None:
    """A checkpoint inside of what is no aggregate, as only a hand could write it."""
    sent, _ = world.put(b"plain", b"later")
    source = world.source(page_records=1)
    pages: list[Page] = take(iter(source.read(FIRST, after(sent, 5))), 2)
    assert payloads(pages) == [b"later"]
    assert all(earlier.next <= later.next for earlier, later in pairwise(pages))
    assert pages[0].next == after(sent, 5)
