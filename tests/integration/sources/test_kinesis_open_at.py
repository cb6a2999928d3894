# SPDX-License-Identifier: Apache-2.0
"""Which shards were open at an instant, of a service that tells it, and of those that do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shardbatch.errors import SourceError, StreamNotFound
from tests.integration.sources.kinesis_world import STREAM, World, stopped_server


@pytest.fixture
def world() -> Iterator[World]:
    """A stream whose only shard was split a minute after it was made, a minute ago."""
    with stopped_server() as server:
        made = World(server)
        server.clock.advance(60)
        made.split()
        server.clock.advance(60)
        yield made


def open_at(world: World, ago_s: float) -> list[str] | None:
    found = world.source().open_at(world.server.clock.now_ms() - round(1000 * ago_s))
    return None if found is None else sorted(shard.shard_id[-1] for shard in found)


def test_the_shards_of_an_instant_are_those_that_were_open_then(world: World) -> None:
    assert open_at(world, 90) == ["0"]
    assert open_at(world, 30) == ["1", "2"]
    assert open_at(world, 0) == ["1", "2"]
    assert open_at(world, 3600) == ["0"], "before its oldest moment, that counts"


def test_a_service_that_knows_no_filter_does_not_tell(world: World) -> None:
    """It lists all shards, parents beside their children."""

    def without(params: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {name: value for name, value in params.items() if name != "ShardFilter"}

    world.client.meta.events.register("provide-client-params.kinesis.ListShards", without)
    assert open_at(world, 90) is None


def test_a_service_that_refuses_the_filter_does_not_tell(world: World) -> None:
    world.server.faults.add("ListShards", kind="error", error="InvalidArgumentException", status=400)
    assert open_at(world, 90) is None


def test_a_refusal_that_passes_is_an_error(world: World) -> None:
    world.server.faults.add("ListShards", kind="error", error="LimitExceededException", status=400, times=999)
    with pytest.raises(SourceError):
        open_at(world, 90)


def test_a_stream_that_is_gone_is_told(world: World) -> None:
    world.client.delete_stream(StreamName=STREAM, EnforceConsumerDeletion=True)
    with pytest.raises(StreamNotFound):
        open_at(world, 90)
