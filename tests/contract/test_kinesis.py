# SPDX-License-Identifier: Apache-2.0
"""What a source of Kinesis does beside what every source does, on every Kinesis server that there is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta

import pyarrow as pa
import pytest

from shardbatch.core.position import LATEST, SHARD_END, TRIM_HORIZON, Kind, after
from shardbatch.core.shard import holes
from shardbatch.errors import StreamNotFound
from shardbatch.sources.kinesis.hash_space import HASH_KEYS
from tests.contract.sources_servers import WORLDS, Stream, World, only, texts, to_tip
from tests.support.aggregates import FIXTURE

EXPIRED = timedelta(minutes=6)


@pytest.fixture(scope="module", params=sorted(WORLDS))
def shared_world(request: pytest.FixtureRequest) -> Iterator[World]:
    with ExitStack() as stack:
        yield WORLDS[request.param](stack, request)


@pytest.fixture
def world(shared_world: World) -> Iterator[World]:
    yield shared_world
    shared_world.restore()


def test_the_identity_is_the_arn_and_the_time_of_creation(world: World) -> None:  # K-1
    stream = world.stream()
    arn, _, created = stream.source().identity().rpartition("@")
    assert arn == stream.summary()["StreamARN"]
    assert created.isdigit()


def test_what_needs_no_call_makes_none(world: World) -> None:
    source = world.stream().source()
    for start in (TRIM_HORIZON, after("7"), SHARD_END):
        assert source.resolve(start) == start
    list(source.read("shardId-000000000000", SHARD_END))
    assert source.calls == {}


def test_the_calls_that_pages_cost_are_all_that_were_made(world: World) -> None:
    stream = world.stream()
    stream.put("a", "b")
    source = stream.source()
    pages = to_tip(source.read(only(source).shard_id, TRIM_HORIZON))
    assert sum(page.requests for page in pages) == source.calls["GetShardIterator"] + source.calls["GetRecords"]


def test_a_missing_stream_is_named_with_its_region_and_endpoint(world: World) -> None:
    source = Stream(world, "not-there").source()
    for ask in (source.identity, source.list_shards, lambda: next(source.read("shardId-000000000000", TRIM_HORIZON))):
        with pytest.raises(StreamNotFound, match="not-there") as caught:
            ask()
        assert "eu-west-1" in str(caught.value)
        assert world.server.url in str(caught.value)


def test_a_stream_in_creation_is_waited_for(world: World) -> None:  # K-9
    stream = Stream(world, "created-just-now-" + world.stream().name)
    world.client.create_stream(StreamName=stream.name, ShardCount=2)
    source = stream.source()
    assert len(source.list_shards()) == 2
    assert source.identity()


def test_the_retention_is_known(world: World) -> None:
    assert world.stream().source().retention_ms() == 24 * 3_600_000


def test_open_shards_cover_the_hash_space(world: World) -> None:  # KV-6, K-3
    shards = world.stream(3).source().list_shards()
    assert len(shards) == 3
    assert not any(shard.closed or shard.parent_shard_ids for shard in shards)
    starts = sorted(shard.hash_range.start for shard in shards if shard.hash_range)
    assert starts[0] == 0
    # One server leaves out the very last hash keys.
    found = holes((s.hash_range for s in shards if s.hash_range), HASH_KEYS)
    assert all(hole.start > HASH_KEYS.end - 3 for hole in found)


def test_all_listing_pages_are_followed(world: World) -> None:  # K-8, R19
    stream = world.stream(7)
    source = stream.source(listed_shards=3)
    assert len({shard.shard_id for shard in source.list_shards()}) == 7
    if world.can.pages_listings:
        assert source.calls["ListShards"] == 3


def test_an_aggregate_comes_as_its_records_and_each_can_be_the_checkpoint(world: World) -> None:  # KV-2, KV-10, K-42
    stream = world.stream()
    first, damaged, last = stream.put_bytes(FIXTURE, FIXTURE[:-1] + b"\0", b"plain")
    source = stream.source()
    shard_id = only(source).shard_id
    pages = to_tip(source.read(shard_id, TRIM_HORIZON))
    rows = pa.Table.from_batches([page.records for page in pages]).to_pydict()
    assert rows["data"] == [b"one", b"two", b"three", FIXTURE[:-1] + b"\0", b"plain"]
    assert rows["partition_key"] == ["a", "b", "a", "k", "k"]
    assert rows["sequence_number"] == [first, first, first, damaged, last]
    assert rows["sub_sequence_number"] == [0, 1, 2, 0, 0]
    assert sum(page.oddities.broken for page in pages) == 1
    for sub in range(3):
        left = to_tip(source.read(shard_id, after(first, sub)))
        assert [data for page in left for data in page.records.column("data").to_pylist()] == rows["data"][sub + 1 :]
        assert not any(page.checkpoint_gone for page in left)


def test_an_arn_names_the_stream_in_every_call(world: World) -> None:
    if not world.can.takes_arns:
        pytest.skip("the server takes no ARNs")
    stream = world.stream(5)
    stream.put("a", "b")
    source = stream.source(by_arn=True, listed_shards=2)
    assert source.name == stream.name
    assert source.identity() == stream.source().identity()
    first = source.list_shards()[0]
    assert len(source.list_shards()) == 5
    assert texts(*to_tip(source.read(first.shard_id, TRIM_HORIZON))) == ["a", "b"]


def test_an_iterator_that_expires_between_two_pages_is_renewed(world: World) -> None:  # R27, K-39
    stream = world.stream()
    stream.put(*(f"r{n}" for n in range(6)))
    source = stream.source(page_records=2)
    reading = iter(source.read(only(source).shard_id, TRIM_HORIZON))
    got = texts(next(reading))
    world.advance(EXPIRED)
    got += texts(*to_tip(reading))
    assert got == [f"r{n}" for n in range(6)]
    assert source.calls["GetShardIterator"] == 2


def test_an_iterator_that_expires_after_only_dropped_records_is_renewed_after_them(world: World) -> None:  # KV-2
    stream = world.stream()
    numbers = stream.put("a", "b", "c")
    source = stream.source(page_records=1)
    reading = iter(source.read(only(source).shard_id, after(numbers[0])))
    assert texts(next(reading)) == []
    world.advance(EXPIRED)
    pages = to_tip(reading)
    assert texts(*pages) == ["b", "c"]
    assert not any(page.checkpoint_gone for page in pages)


def test_records_that_come_before_a_first_iterator_expires_are_not_lost(world: World) -> None:  # R24
    if not world.can.looks_ahead:
        pytest.skip("the server does not answer AT_TIMESTAMP before there is a record")
    stream = world.stream()
    source = stream.source()
    start = source.resolve(LATEST)
    assert start.kind is Kind.AT_TIMESTAMP
    reading = iter(source.read(only(source).shard_id, start))
    assert texts(next(reading)) == []
    stream.put("a", "b")
    world.advance(EXPIRED)
    assert texts(*to_tip(reading)) == ["a", "b"]


def test_latest_is_where_the_stream_stands_when_it_is_resolved(world: World) -> None:  # K-32
    stream = world.stream()
    stream.put("before")
    source = stream.source()
    shard_id = only(source).shard_id
    (seen,) = [page for page in to_tip(source.read(shard_id, TRIM_HORIZON)) if page.records.num_rows]
    arrived_ms = int(seen.records.column("arrival_time")[0].as_py().timestamp() * 1000)
    start = source.resolve(LATEST)
    assert start == source.resolve(start)
    assert start.timestamp_ms is not None
    # Whole seconds of the service's clock, cut off: never after the instant of asking, at most a second before it.
    assert arrived_ms - 1000 <= start.timestamp_ms
    stream.put("after")
    assert texts(*to_tip(source.read(shard_id, start)))[-1] == "after"


def test_a_new_shard_count_keeps_every_record_in_the_lineage(world: World) -> None:  # K-2, K-5
    if not world.can.recounts:
        pytest.skip("the server has no UpdateShardCount")
    stream = world.stream(2)
    stream.put("old")
    world.client.update_shard_count(StreamName=stream.name, TargetShardCount=4, ScalingType="UNIFORM_SCALING")
    stream.settle()
    stream.put("new")
    source = stream.source()
    shards = source.list_shards()
    assert sum(not shard.closed for shard in shards) == 4
    assert sorted(t for s in shards for t in texts(*to_tip(source.read(s.shard_id, TRIM_HORIZON)))) == ["new", "old"]
