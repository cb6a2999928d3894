# SPDX-License-Identifier: Apache-2.0
"""Reading by enhanced fan-out, on every server that has it. Two of them end a shard otherwise than the service says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest

from shardbatch.core.position import TRIM_HORIZON, after
from shardbatch.sources.kinesis.options import FanOut
from shardbatch.sources.kinesis.registration import consumer_name
from shardbatch.sources.kinesis.source import KinesisSource
from tests.contract.sources_servers import WORLDS, Abilities, Stream, World, texts, to_end, to_tip


def ministack(_: ExitStack, request: pytest.FixtureRequest) -> World:
    """Its clock cannot be moved, and no clause here needs that."""
    return World(request.getfixturevalue("ministack"), Abilities(), lambda by: pytest.fail(f"no clock to move {by}"))


FAN_OUT: dict[str, Callable[[ExitStack, pytest.FixtureRequest], World]] = {
    **{name: WORLDS[name] for name in ("local", "local-ends-late", "kinesis-local")},
    "ministack": ministack,
}


@pytest.fixture(params=FAN_OUT)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with ExitStack() as stack:
        yield FAN_OUT[request.param](stack, request)


def fanned(stream: Stream, *, hurried: bool = True) -> KinesisSource:
    return stream.source(fan_out=FanOut.ALWAYS, app_name="etl", budget=timedelta(minutes=10), hurried=hurried)


def consumers(stream: Stream) -> list[str]:
    answer = stream.world.client.list_stream_consumers(StreamARN=stream.summary()["StreamARN"])
    return [consumer["ConsumerName"] for consumer in answer["Consumers"] if consumer["ConsumerStatus"] != "DELETING"]


def test_records_come_in_order_and_the_tip_is_seen(world: World) -> None:
    stream = world.stream()
    numbers = stream.put(*[str(n) for n in range(20)])
    source = fanned(stream)
    (shard,) = source.list_shards()
    pages = to_tip(source.read(shard.shard_id, TRIM_HORIZON))
    assert texts(*pages) == [str(n) for n in range(20)]
    assert pages[-1].next == after(numbers[-1])
    assert source.calls["GetRecords"] == 0


def test_records_are_as_polling_gives_them(world: World) -> None:
    stream = world.stream()
    stream.put("a", "b", "c")
    columns = []
    for source in (stream.source(), fanned(stream)):
        (shard,) = source.list_shards()
        pages = to_tip(source.read(shard.shard_id, TRIM_HORIZON))
        columns.append([record for page in pages for record in page.records.to_pylist()])
    assert columns[0] == columns[1]


def test_reading_goes_on_behind_a_checkpoint(world: World) -> None:
    stream = world.stream()
    numbers = stream.put("a", "b", "c", "d")
    source = fanned(stream)
    (shard,) = source.list_shards()
    pages = to_tip(source.read(shard.shard_id, after(numbers[1])))
    assert texts(*pages) == ["c", "d"]
    assert not any(page.checkpoint_gone for page in pages)


def test_a_shard_ends(world: World, request: pytest.FixtureRequest) -> None:
    quirks = {  # sections of the project's notes on emulators
        "kinesis-local": "1.2, SubscribeToShard: no end and no ChildShards after a split",
        "ministack": "1.2, SplitShard: the parent is deleted with its records",
    }
    if world.server.name in quirks:
        request.node.add_marker(pytest.mark.xfail(strict=True, reason=quirks[world.server.name]))
    stream = world.stream()
    stream.put("a", "b")
    # Where no children are named the end is asked for again, and the service allows that after five seconds.
    source = fanned(stream, hurried=world.can.names_children or world.server.name in quirks)
    (parent,) = source.list_shards()
    stream.split(parent)
    pages = to_end(source, parent.shard_id, TRIM_HORIZON, most=16)
    assert texts(*pages) == ["a", "b"]
    assert len(pages[-1].children) == 2


def test_the_consumer_is_removed_at_the_end(world: World) -> None:
    stream = world.stream()
    source = fanned(stream)
    (shard,) = source.list_shards()
    to_tip(source.read(shard.shard_id, TRIM_HORIZON))
    source.end_reading(lambda: True)
    assert consumers(stream) == [consumer_name("etl")]
    source.end_reading(lambda: False)
    assert consumers(stream) == []
