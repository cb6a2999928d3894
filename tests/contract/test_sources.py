# SPDX-License-Identifier: Apache-2.0
"""What a source does with a stream, on every Kinesis server that there is. No clause names a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta

import pyarrow as pa
import pytest

from shardbatch.core.position import LATEST, SHARD_END, TRIM_HORIZON, Kind, after
from shardbatch.core.shard import Shard, holes
from shardbatch.errors import StreamNotFound
from shardbatch.sources.kinesis.hash_space import HASH_KEYS
from shardbatch.sources.kinesis.source import KinesisSource
from tests.contract.sources_servers import MIDDLE, WORLDS, Stream, World, texts, to_end, to_tip
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


def only(source: KinesisSource) -> Shard:
    """The one open shard."""
    (shard,) = [shard for shard in source.list_shards() if not shard.closed]
    return shard


def by_parents(source: KinesisSource) -> dict[tuple[str, ...], list[Shard]]:
    found: dict[tuple[str, ...], list[Shard]] = {}
    for shard in source.list_shards():
        found.setdefault(tuple(sorted(shard.parent_shard_ids)), []).append(shard)
    return found


# what the stream is


def test_the_identity_stays_until_the_stream_is_recreated(world: World) -> None:  # K-1, R49
    stream = world.stream()
    arn = stream.summary()["StreamARN"]
    first = stream.source().identity()
    assert first == stream.source().identity()
    assert first.startswith(f"{arn}@")
    assert first.rpartition("@")[2].isdigit()
    stream.delete()
    world.advance(timedelta(seconds=2))
    stream.create(1)
    second = stream.source().identity()
    assert second.startswith(f"{arn}@")
    assert second != first


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


# listing


def test_open_shards_cover_the_hash_space(world: World) -> None:  # KV-6, K-3
    shards = world.stream(3).source().list_shards()
    assert len(shards) == 3
    assert not any(shard.closed or shard.parent_shard_ids for shard in shards)
    starts = sorted(shard.hash_range.start for shard in shards if shard.hash_range)
    assert starts[0] == 0
    # One server leaves out the very last hash keys.
    found = holes((s.hash_range for s in shards if s.hash_range), HASH_KEYS)
    assert all(hole.start > HASH_KEYS.end - 3 for hole in found)


def test_a_split_shows_a_closed_parent_and_two_children(world: World) -> None:  # K-2
    stream = world.stream()
    source = stream.source()
    parent = only(source)
    stream.split(parent)
    shards = by_parents(source)
    (listed,) = shards.pop(())
    assert listed.shard_id == parent.shard_id
    assert listed.closed
    children = shards.pop((parent.shard_id,))
    assert [child.closed for child in children] == [False, False]
    assert not shards


def test_a_merge_shows_a_child_with_both_parents(world: World) -> None:  # K-2
    stream = world.stream(2)
    source = stream.source()
    left, right = source.list_shards()
    stream.merge(left, right)
    shards = by_parents(source)
    assert all(shard.closed for shard in shards[()])
    (child,) = shards[tuple(sorted((left.shard_id, right.shard_id)))]
    assert not child.closed


def test_all_listing_pages_are_followed(world: World) -> None:  # K-8, R19
    stream = world.stream(7)
    source = stream.source(listed_shards=3)
    assert len({shard.shard_id for shard in source.list_shards()}) == 7
    if world.can.pages_listings:
        assert source.calls["ListShards"] == 3


# reading


def test_all_records_come_once_in_order_with_their_columns(world: World) -> None:  # K-5
    stream = world.stream()
    numbers = stream.put(*(f"r{n}" for n in range(20)))
    source = stream.source()
    pages = to_tip(source.read(only(source).shard_id, TRIM_HORIZON))
    assert texts(*pages) == [f"r{n}" for n in range(20)]
    first = next(page for page in pages if page.records.num_rows)
    assert first.records.schema.equals(
        pa.schema(
            [
                ("sequence_number", pa.string()),
                ("sub_sequence_number", pa.int64()),
                ("partition_key", pa.string()),
                ("arrival_time", pa.timestamp("us", tz="UTC")),
                ("data", pa.binary()),
            ]
        )
    )
    rows = pa.Table.from_batches([page.records for page in pages])
    assert rows.column("sequence_number").to_pylist() == numbers
    assert [int(number) for number in numbers] == sorted(int(number) for number in numbers)
    assert rows.column("partition_key").to_pylist() == [f"k-r{n}" for n in range(20)]
    assert set(rows.column("sub_sequence_number").to_pylist()) == {0}
    assert all(arrival is not None for arrival in rows.column("arrival_time").to_pylist())
    assert pages[-1].next == after(numbers[-1])
    assert sum(page.requests for page in pages) == source.calls["GetShardIterator"] + source.calls["GetRecords"]


def test_a_read_resumes_after_any_page_without_loss_or_repetition(world: World) -> None:  # KV-2, K-32
    stream = world.stream()
    stream.put(*(f"r{n}" for n in range(10)))
    source = stream.source(page_records=3)
    shard_id = only(source).shard_id
    position, got = TRIM_HORIZON, []
    for _ in range(30):
        page = next(iter(source.read(shard_id, position)))
        got += texts(page)
        assert not page.checkpoint_gone
        position = page.next
        if len(got) == 10 and not page.records.num_rows:
            break
    assert got == [f"r{n}" for n in range(10)]
    assert position.kind is Kind.AFTER_SEQUENCE_NUMBER


def test_each_record_can_be_the_checkpoint(world: World) -> None:  # KV-2
    stream = world.stream()
    numbers = stream.put("a", "b", "c")
    source = stream.source()
    shard_id = only(source).shard_id
    left = [texts(*to_tip(source.read(shard_id, after(number)))) for number in numbers]
    assert left == [["b", "c"], ["c"], []]


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


def test_records_are_delivered_although_nothing_is_behind_them(world: World) -> None:  # R33
    stream = world.stream()
    stream.put("a", "b", "c")
    source = stream.source()
    for page in source.read(only(source).shard_id, TRIM_HORIZON):
        if page.records.num_rows:
            assert texts(page) == ["a", "b", "c"]
            assert not page.ended
            break


def test_the_tip_is_not_the_end(world: World) -> None:  # R34
    stream = world.stream()
    source = stream.source()
    reading = iter(source.read(only(source).shard_id, TRIM_HORIZON))
    assert not to_tip(reading)[-1].ended
    numbers = stream.put("later")
    pages = to_tip(reading)
    assert texts(*pages) == ["later"]
    stream.put("next run")
    assert texts(*to_tip(source.read(only(source).shard_id, after(numbers[-1])))) == ["next run"]


def test_idle_shards_keep_their_position(world: World) -> None:  # R26
    stream = world.stream(3)
    source = stream.source()
    start = source.resolve(LATEST) if world.can.looks_ahead else TRIM_HORIZON
    shards = source.list_shards()
    busy = next(shard for shard in shards if shard.hash_range and 0 in shard.hash_range)
    stream.put("one")
    for shard in shards:
        pages = to_tip(source.read(shard.shard_id, start))
        assert texts(*pages) == (["one"] if shard is busy else [])
        assert (pages[-1].next == start) is (shard is not busy)


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


# iterators


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


def test_other_starts_stay_as_they_are(world: World) -> None:
    source = world.stream().source()
    for start in (TRIM_HORIZON, after("7"), SHARD_END):
        assert source.resolve(start) == start
    assert source.calls == {}


# ends


def test_a_split_parent_ends_after_its_last_record_and_its_children_go_on(world: World) -> None:  # K-34, R09, K-5
    stream = world.stream()
    source = stream.source(page_records=2)
    parent = only(source)
    stream.put(*(f"p{n}" for n in range(5)))
    stream.split(parent)
    stream.put("low")
    stream.put("high", hash_key=MIDDLE)
    pages = to_end(source, parent.shard_id, TRIM_HORIZON)
    assert texts(*pages) == [f"p{n}" for n in range(5)]
    assert [page.ended for page in pages] == [False] * (len(pages) - 1) + [True]
    assert not pages[-1].gone
    children = by_parents(source)[(parent.shard_id,)]
    assert {child.shard_id for child in pages[-1].children} == {child.shard_id for child in children}
    assert all(child.parent_shard_ids == (parent.shard_id,) for child in pages[-1].children)
    found = [texts(*to_tip(source.read(child.shard_id, TRIM_HORIZON))) for child in children]
    assert sorted(found) == [["high"], ["low"]]


def test_both_parents_of_a_merge_end_and_name_their_child(world: World) -> None:  # R02, K-2
    stream = world.stream(2)
    source = stream.source()
    left, right = source.list_shards()
    stream.put("l")
    stream.put("r", hash_key=MIDDLE)
    stream.merge(left, right)
    stream.put("child")
    for parent, text in ((left, "l"), (right, "r")):
        pages = to_end(source, parent.shard_id, TRIM_HORIZON)
        assert texts(*pages) == [text]
        (child,) = pages[-1].children
        assert sorted(child.parent_shard_ids) == sorted((left.shard_id, right.shard_id))
        assert texts(*to_tip(source.read(child.shard_id, TRIM_HORIZON))) == ["child"]


def test_a_merge_that_is_split_again_is_read_generation_by_generation(world: World) -> None:  # R02, KV-4
    stream = world.stream(2)
    source = stream.source()
    left, right = source.list_shards()
    stream.put("1l")
    stream.put("1r", hash_key=MIDDLE)
    stream.merge(left, right)
    stream.put("2")
    stream.split(only(source))
    stream.put("3l")
    stream.put("3r", hash_key=MIDDLE)
    generation, read = {left.shard_id, right.shard_id}, []
    while generation:
        below: set[str] = set()
        found = []
        for shard_id in generation:
            pages = to_tip(source.read(shard_id, TRIM_HORIZON))
            found += texts(*pages)
            if pages[-1].ended:
                below |= {child.shard_id for child in pages[-1].children}
        read.append(sorted(found))
        generation = below
    assert read == [["1l", "1r"], ["2"], ["3l", "3r"]]


def test_a_closed_shard_without_records_ends(world: World) -> None:  # R08, K-16
    stream = world.stream()
    source = stream.source()
    parent = only(source)
    stream.split(parent)
    pages = to_end(source, parent.shard_id, TRIM_HORIZON)
    assert texts(*pages) == []
    assert pages[-1].ended
    assert pages[-1].next == TRIM_HORIZON
    assert len(pages[-1].children) == 2


def test_a_closed_shard_ends_although_its_last_record_is_the_checkpoint(world: World) -> None:  # K-36, R03, R05
    stream = world.stream()
    source = stream.source()
    parent = only(source)
    numbers = stream.put("a", "b")
    stream.split(parent)
    pages = to_end(source, parent.shard_id, after(numbers[-1]))
    assert texts(*pages) == []
    assert pages[-1].ended
    assert pages[-1].next == after(numbers[-1])
    assert not any(page.checkpoint_gone for page in pages)


def test_a_shard_that_closes_while_it_is_read_ends(world: World) -> None:  # K-34
    stream = world.stream()
    source = stream.source()
    parent = only(source)
    stream.put("a")
    reading = iter(source.read(parent.shard_id, TRIM_HORIZON))
    got = to_tip(reading)
    stream.put("b")
    stream.split(parent)
    got += list(reading)
    assert texts(*got) == ["a", "b"]
    assert got[-1].ended


def test_a_shard_whose_checkpoint_is_its_end_is_not_asked(world: World) -> None:  # KV-2
    source = world.stream().source()
    (page,) = source.read("shardId-000000000000", SHARD_END)
    assert (page.ended, page.next, page.records.num_rows, page.requests) == (True, SHARD_END, 0, 0)
    assert source.calls == {}


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


# what is gone


def test_a_trimmed_checkpoint_is_told(world: World) -> None:  # K-7, R50
    if not world.can.trims:
        pytest.skip("the server keeps records for ever")
    stream = world.stream()
    source = stream.source()
    shard_id = only(source).shard_id
    numbers = stream.put("a", "b")
    world.advance(timedelta(hours=25))
    stream.put("c")
    pages = to_tip(source.read(shard_id, after(numbers[-1])))
    assert texts(*pages) == ["c"]
    assert [page.checkpoint_gone for page in pages].count(True) == 1


def test_a_trimmed_checkpoint_is_told_when_nothing_came_after_it(world: World) -> None:  # K-7
    if not world.can.trims:
        pytest.skip("the server keeps records for ever")
    stream = world.stream()
    source = stream.source()
    numbers = stream.put("a", "b")
    world.advance(timedelta(hours=25))
    pages = to_tip(source.read(only(source).shard_id, after(numbers[-1])))
    assert texts(*pages) == []
    assert [page.checkpoint_gone for page in pages].count(True) == 1
    assert pages[-1].next == after(numbers[-1])


def test_a_stream_that_is_deleted_while_it_is_read_is_missing(world: World) -> None:  # K-35
    stream = world.stream()
    source = stream.source()
    reading = iter(source.read(only(source).shard_id, TRIM_HORIZON))
    to_tip(reading)
    stream.delete()
    with pytest.raises(StreamNotFound, match=stream.name):
        to_tip(reading)
