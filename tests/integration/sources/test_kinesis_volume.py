# SPDX-License-Identifier: Apache-2.0
"""Many shards, much data, two readers: the service's limits, enforced and measured by the server."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse

from shardbatch.core.position import TRIM_HORIZON, after
from shardbatch.core.shard import Shard
from shardbatch.errors import InvalidAnswer
from shardbatch.local import StreamServer
from shardbatch.sources.kinesis.options import KinesisOptions
from shardbatch.sources.kinesis.source import KinesisSource
from tests.integration.sources.kinesis_world import FIRST, STREAM, World, payloads, stopped_server, take, until
from tests.support.aws import AwsServer

MIB = 1024 * 1024


@pytest.fixture
def world() -> Iterator[World]:
    with stopped_server() as server:
        yield World(server)


# listing


def test_2500_shards_are_found_although_the_token_expires_once() -> None:  # R19
    with stopped_server() as server:
        world = World(server, 2500)
        source = world.source()
        server.faults.add("ListShards", "error", error="ExpiredNextTokenException", status=400, after=2)
        shards = source.list_shards()
        assert len({shard.shard_id for shard in shards}) == len(shards) == 2500
        # two pages, the expired token, and all three pages from the beginning
        assert source.calls["ListShards"] == 6


def test_a_token_that_really_expires_starts_the_listing_again() -> None:  # R19
    with stopped_server(page_size=2) as server:
        world = World(server, 5)
        late = [301.0]

        def dawdle(**_: Any) -> None:
            if server.calls.count("ListShards") == 1 and late:
                server.clock.advance(late.pop())

        world.client.meta.events.register("before-send.kinesis.ListShards", dawdle)
        source = world.source()
        assert len(source.list_shards()) == 5
        assert source.calls["ListShards"] == 1 + 1 + 3


def test_a_listing_that_runs_in_a_circle_is_an_error(world: World) -> None:  # R19, R20
    body = b'{"Shards":[{"ShardId":"shardId-000000000000"}],"NextToken":"again"}'

    class Raw:
        @staticmethod
        def stream(**_: Any) -> list[bytes]:
            return [body]

    world.client.meta.events.register_last(
        "before-send.kinesis.ListShards", lambda request, **_: AWSResponse(request.url, 200, {}, Raw())
    )
    with pytest.raises(InvalidAnswer, match="circle"):
        world.source().list_shards()


def test_a_listing_page_that_is_cut_short_is_an_error(world: World) -> None:
    world.server.faults.add("ListShards", "cut", keep=0.5, times=1000)
    with pytest.raises(InvalidAnswer, match="cut short"):
        world.source().list_shards()


def test_a_parent_that_left_the_listing_is_still_named_by_its_children(world: World) -> None:  # R07
    world.put(b"a")
    world.split()
    world.server.trim(STREAM, FIRST, forget=True)
    shards = world.source().list_shards()
    assert [(shard.shard_id, shard.parent_shard_ids) for shard in shards] == [
        ("shardId-000000000001", (FIRST,)),
        ("shardId-000000000002", (FIRST,)),
    ]
    assert not any(shard.closed for shard in shards)


def test_a_resharded_stream_with_an_empty_closed_parent_is_listed_whole(world: World) -> None:  # R08
    world.split()
    listed = {shard.shard_id: shard.closed for shard in world.source().list_shards()}
    assert listed == {FIRST: True, "shardId-000000000001": False, "shardId-000000000002": False}


def test_the_order_of_a_listing_does_not_matter(world: World) -> None:  # K-8
    world.put(b"a")
    world.split()
    shards = list(world.source().list_shards())
    assert shards == sorted(shards, key=lambda s: (int(s.starting_sequence_number or 0), s.shard_id))
    assert all(isinstance(shard, Shard) for shard in shards)


# pace


def fill(world: World, records: int, size: int) -> None:
    for _ in range(records):
        world.put(b"x" * size)


def refused(world: World) -> int:
    return sum(call.error is not None for call in world.server.calls.list("GetRecords"))


def test_a_backlog_is_read_at_the_services_pace_without_a_refusal(world: World) -> None:  # K-6
    fill(world, 12, MIB - 1)
    world.server.options.limits = True
    started = world.server.clock.now()
    source = world.source(page_records=1)
    pages = until(iter(source.read(FIRST, TRIM_HORIZON)), 12)
    assert len(payloads(pages)) == 12
    assert refused(world) == 0
    assert min(world.spacing_ms()) >= 200
    # 12 MiB at 2 MiB a second, the last answer unpaid
    assert 5.4 <= world.server.clock.now() - started <= 7


def test_after_an_answer_of_10_mib_the_shard_rests_five_seconds(world: World) -> None:  # K-6
    fill(world, 25, MIB - 1)
    world.server.options.limits = True
    pages = until(iter(world.source().read(FIRST, TRIM_HORIZON)), 25)
    assert [page.records.num_rows for page in pages] == [10, 10, 5]
    assert refused(world) == 0
    assert world.spacing_ms() == [pytest.approx(5_000, abs=50)] * 2


def test_many_small_answers_keep_within_the_calls_of_a_shard(world: World) -> None:  # K-6
    for n in range(30):
        world.put(b"%d" % n)
    world.server.options.limits = True
    source = world.source(page_records=1, calls_per_second=5.0)
    assert len(payloads(until(iter(source.read(FIRST, TRIM_HORIZON)), 30))) == 30
    assert refused(world) == 0
    assert min(world.spacing_ms()) >= 200


def test_an_idle_shard_is_asked_once_a_second(world: World) -> None:  # R62
    take(iter(world.source().read(FIRST, TRIM_HORIZON)), 11)
    assert world.spacing_ms() == [1_000] * 10


def test_an_idle_shard_leaves_other_consumers_their_calls(world: World) -> None:  # R62, K-40
    world.server.options.limits = True
    iterator = world.client.get_shard_iterator(StreamName=STREAM, ShardId=FIRST, ShardIteratorType="TRIM_HORIZON")
    place = iterator["ShardIterator"]
    pages = iter(world.source().read(FIRST, TRIM_HORIZON))
    for _ in range(10):
        next(pages)
        for _ in range(4):  # of the five calls a second that all consumers of a shard share
            world.server.clock.advance(0.2)
            place = world.client.get_records(ShardIterator=place)["NextShardIterator"]
    assert refused(world) == 0


def test_records_are_asked_for_at_once_and_a_shard_that_has_none_after_a_while(world: World) -> None:  # K-40
    world.put(b"a", b"b")
    take(iter(world.source(page_records=1).read(FIRST, TRIM_HORIZON)), 4)
    assert world.spacing_ms() == [250, 250, 1_000]


def test_two_reads_of_a_shard_by_one_source_share_its_pace(world: World) -> None:
    world.put(b"a")
    source = world.source()
    first, second = iter(source.read(FIRST, TRIM_HORIZON)), iter(source.read(FIRST, TRIM_HORIZON))
    for _ in range(3):
        next(first)
        next(second)
    assert min(world.spacing_ms()) >= 200


def test_two_readers_on_one_shard_both_finish_within_its_limits() -> None:  # K-6, R61
    with StreamServer() as server:
        world = World(server)
        for n in range(8):
            world.put(b"%d" % n)
        server.options.limits = True
        got: list[list[bytes]] = []
        spacing: list[list[float]] = []

        def read() -> None:
            client = AwsServer("local", server.endpoint_url).client("kinesis", attempts=1)
            sent: list[float] = []
            client.meta.events.register_last(
                "before-send.kinesis.GetRecords", lambda **_: sent.append(time.monotonic())
            )
            source = KinesisSource(client, STREAM, options=KinesisOptions(page_records=1))
            got.append(payloads(until(iter(source.read(FIRST, TRIM_HORIZON)), 8)))
            spacing.append([later - earlier for earlier, later in itertools.pairwise(sent)])

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(60)
        assert got == [[b"%d" % n for n in range(8)]] * 2
        assert min(itertools.chain(*spacing)) >= 0.2
        # The server let no second have more than five calls, and refused the rest without harm.
        served = [call.clock_ms for call in server.calls.list("GetRecords") if call.error is None]
        assert all(later - earlier >= 1_000 for earlier, later in zip(served, served[5:], strict=False))


# numbers


def test_short_sequence_numbers_are_compared_as_integers(moto_server: AwsServer, unique_name: str) -> None:  # K-4
    client = moto_server.client("kinesis", attempts=1)
    client.create_stream(StreamName=unique_name, ShardCount=1)
    for n in range(1, 13):
        client.put_record(StreamName=unique_name, Data=b"r%d" % n, PartitionKey="k")
    source = KinesisSource(client, unique_name)
    pages = until(iter(source.read(FIRST, TRIM_HORIZON)), 12)
    numbers = [number for page in pages for number in page.records.column(0).to_pylist()]
    assert numbers[8:10] == ["9", "10"]
    assert sorted(numbers) != numbers
    later = until(iter(source.read(FIRST, after("9"))), 3)
    assert payloads(later) == [b"r10", b"r11", b"r12"]
    assert not any(page.checkpoint_gone for page in later)
