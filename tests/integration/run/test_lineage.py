# SPDX-License-Identifier: Apache-2.0
"""Resharded streams of the embedded server, drained by one run into one batch in which every key is in order."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shardbatch import open_batch
from shardbatch.core.policies import ClaimOptions
from shardbatch.core.position import SHARD_END
from tests.integration.sources.kinesis_world import stopped_server
from tests.support.resharded import Resharded, disorder


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[Resharded]:
    with stopped_server() as server:
        yield Resharded(server, tmp_path)


def split(stream: Resharded) -> None:
    stream.put()
    stream.split()
    stream.put()


def merge(stream: Resharded) -> None:
    stream.split()
    stream.put()
    stream.merge()
    stream.put()


def merge_then_split(stream: Resharded) -> None:
    merge(stream)
    stream.split()
    stream.put()


def chain_of_empty_closed_shards(stream: Resharded) -> None:
    stream.put()
    for _ in range(5):
        stream.split()
        stream.merge()
    stream.put()


def many_generations_after_an_outage(stream: Resharded) -> None:
    stream.split()
    for number in range(6):
        stream.put()
        stream.split(number)
        stream.put()
        stream.merge(number + 1)
    stream.put()


SHAPES = [split, merge, merge_then_split, chain_of_empty_closed_shards, many_generations_after_an_outage]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("named", [True, False])
def test_one_run_drains_a_lineage(stream: Resharded, shape: Callable[[Resharded], None], named: bool) -> None:  # R02
    stream.server.options.name_children = named
    shape(stream)
    expect_one_batch(stream)


@pytest.mark.parametrize("seed", range(4))
def test_one_run_drains_any_lineage(stream: Resharded, seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(25):
        what = draw.choice(["put", "put", "split", "merge"])
        if what == "put":
            stream.put(draw.sample(sorted(stream.sent), k=4))
        elif what == "split" and len(stream.open_shards()) < 6:
            stream.split(draw.randrange(6))
        elif len(stream.open_shards()) > 1:
            stream.merge(draw.randrange(6))
    stream.put()
    expect_one_batch(stream)


def expect_one_batch(stream: Resharded) -> None:
    frozen = stream.freeze("r1")
    table = open_batch(str(frozen.manifest_uri), digest=frozen.manifest_digest).to_arrow()
    data = table.column("data").to_pylist()
    assert len(data) == sum(stream.sent.values())
    assert disorder(data) == []
    stream.rig.work(frozen)
    stream.rig.commit("r1", frozen)
    stream.rig.over("r1")
    closed = {shard.shard_id for shard in stream.world.source().list_shards() if shard.closed}
    assert {row.shard_id for row in stream.rig.consumer().leases() if row.checkpoint == SHARD_END} == closed
    assert stream.rig.run("r2").batch_id is None  # R83: nothing was read, and its commit is a success


def test_a_merged_child_waits_for_the_parent_that_another_run_reads(stream: Resharded) -> None:  # R02
    stream.split()
    stream.put()
    rig = stream.rig
    (left, _), (right, _) = stream.open_shards()
    one = ClaimOptions(max_shards=1, drain_lineage=False)
    assert rig.run("root", options=one).completed == 1  # the empty root
    found = rig.claim("r1", options=one)
    stream.merge()
    stream.put()
    rig.land("r1", found, options=one)
    frozen = rig.freeze("r1")
    rig.work(frozen)
    rig.commit("r1", frozen)
    rig.over("r1")
    done = {row.shard_id for row in rig.consumer().leases() if row.completed}
    assert len(done & {left, right}) == 1
    second = rig.claim("r2", options=one)
    rig.land("r2", second, options=one)
    assert [row.shard_id for row in rig.consumer().leases() if row.pending] == sorted({left, right} - done)
    rest = rig.freeze("r2")
    rig.work(rest)
    rig.commit("r2", rest)
    rig.over("r2")
    assert rig.run("r3").records == len(stream.sent)
