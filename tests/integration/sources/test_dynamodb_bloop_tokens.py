# SPDX-License-Identifier: Apache-2.0
"""Bloop 3.1.1 itself and we hand tokens to each other: from it to an application, and back, at any record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from shardbatch.core.policies import GapPolicy, Policies
from shardbatch.local import StreamServer
from tests.integration.sources.bloop_scene import by_bloop, names
from tests.integration.sources.dynamodb_world import TABLE, World, committed
from tests.integration.sources.test_dynamodb_tokens import (
    OLDEST,
    ONE,
    at,
    bring,
    cloned,
    drain,
    export,
    numbers,
    results,
    token_of,
)
from tests.support.aws import REGION
from tests.support.bloop_process import Bloop, bloop_process

RECORD = Policies(gap=GapPolicy.RECORD)


@pytest.fixture(scope="module")
def process() -> Iterator[Bloop]:
    with bloop_process() as running:
        yield running


@dataclass
class Scene:
    """Two lineages: one was split, one rolled, and each generation has changes."""

    world: World
    bloop: Bloop
    sent: list[str]
    roots: list[str]


@pytest.fixture(params=[True, False], ids=["ends-with-records", "ends-empty"])
def scene(request: pytest.FixtureRequest, process: Bloop) -> Iterator[Scene]:
    with StreamServer(region=REGION, end_with_records=request.param) as server:
        world = World(server, shards=2)
        sent, roots = world.put(*"abcdefgh"), world.shards()
        world.split(roots[0])
        world.roll(roots[1])
        yield Scene(world, process.open(server.endpoint_url, TABLE), sent + world.put(*"abcdefgh"), roots)


def read_by(bloop: Bloop, count: int) -> list[str]:
    """So many changes that Bloop hands out. Between two shards it may have nothing for a while."""
    found: list[str] = []
    for _ in range(50):
        if len(found) < count:
            found += names(by_bloop([record for record in [bloop.next()] if record]))
    assert len(found) == count
    return found


@pytest.mark.parametrize("count", [0, 1, 2, 5, 8, 9, 12, 15, 16])
def test_an_application_goes_on_where_bloop_stopped(scene: Scene, tmp_path: Path, count: int) -> None:
    scene.bloop.move_to("trim_horizon")
    read = read_by(scene.bloop, count)
    rig = cloned(tmp_path, scene.world, "etl")
    assert results(bring(rig, scene.bloop.token())) == {"imported"}
    assert sorted(read + drain(rig)) == sorted(scene.sent)


def test_bloop_goes_on_where_an_application_stopped(scene: Scene, tmp_path: Path) -> None:
    rig = cloned(tmp_path, scene.world, "etl")
    rig.options["source"] = scene.world.source(page_records=1)
    rig.store.prepare()
    steps = 0
    while len(committed(rig)) < len(scene.sent):
        rig.run(f"r{steps}", limits=ONE)
        written = export(rig)
        assert written.remarks == ()
        scene.bloop.resume(dict(written.positions))
        assert sorted(committed(rig) + names(by_bloop(scene.bloop.drain()))) == sorted(scene.sent)
        steps += 1
    assert steps > 4


def test_a_token_goes_round_through_both(scene: Scene, tmp_path: Path) -> None:
    read: list[str] = []
    scene.bloop.move_to("trim_horizon")
    for turn in range(3):
        read += read_by(scene.bloop, 2)
        rig = cloned(tmp_path, scene.world, f"turn{turn}")
        rig.options["source"] = scene.world.source(page_records=1)
        bring(rig, scene.bloop.token())
        rig.run("r1", limits=ONE)
        read += committed(rig)
        scene.bloop.resume(dict(export(rig).positions))
    read += names(by_bloop(scene.bloop.drain()))
    assert sorted(read) == sorted(scene.sent)


def test_a_record_at_which_a_token_stands_is_handed_back(scene: Scene, tmp_path: Path) -> None:  # B-21
    one, two = scene.roots
    number = numbers(scene.world, one)[1]
    token = token_of(scene.world, [one, two], **{one: at(number), two: OLDEST})
    rig = cloned(tmp_path, scene.world, "etl")
    bring(rig, token)
    scene.bloop.resume(dict(export(rig).positions))
    assert sorted(names(by_bloop(scene.bloop.drain()))) == sorted(drain(rig))


def test_a_child_that_is_listed_after_the_export_is_found_by_bloop(process: Bloop, tmp_path: Path) -> None:
    with StreamServer(region=REGION) as server:
        server.options.child_seconds = 30
        world = World(server)
        bloop = process.open(server.endpoint_url, TABLE)
        world.put("a")
        world.roll()
        late = world.put("b")
        rig = cloned(tmp_path, world, "etl")
        rig.run("r1")
        written = export(rig)
        assert [shard["iterator_type"] for shard in written.positions["shards"]] == ["latest"]
        world.time.sleep(60)
        bloop.resume(dict(written.positions))
        assert names(by_bloop(bloop.drain())) == late


def test_what_bloop_passes_over_in_silence_is_a_gap(scene: Scene, tmp_path: Path) -> None:  # B-18, BV-5
    scene.bloop.move_to("trim_horizon")
    read = read_by(scene.bloop, 2)
    token = scene.bloop.token()
    for shard in scene.roots:
        scene.world.trim(shard, keep=1)
    scene.bloop.logged.clear()
    scene.bloop.resume(token)
    rest = set(names(by_bloop(scene.bloop.drain())))
    assert rest < set(scene.sent) - set(read)
    jumps = [line for line in scene.bloop.logged if "beyond trim horizon" in line]
    assert {line.partition(":")[0] for line in jumps} == {"INFO"}
    rig = cloned(tmp_path, scene.world, "etl")
    bring(rig, token)
    gaps = sum(rig.run(f"r{number}", policies=RECORD).gaps for number in range(3))
    assert gaps > 0
    assert len(committed(rig)) == len(rest)
    assert set(committed(rig)) == rest


@pytest.mark.parametrize("scene", [True], indirect=True)
def test_a_token_that_doubles_records_in_bloop_does_not_here(scene: Scene, tmp_path: Path) -> None:  # B-20, BV-1
    scene.bloop.move_to("trim_horizon")
    read = read_by(scene.bloop, 1)
    token = scene.bloop.token()
    parents = {shard["shard_id"]: shard.get("parent") for shard in token["shards"]}
    assert any(parents[name] in token["active"] for name in token["active"])
    scene.bloop.resume(token)
    again = read + names(by_bloop(scene.bloop.drain()))
    assert len(again) > len(set(again)) == len(scene.sent)
    rig = cloned(tmp_path, scene.world, "etl")
    bring(rig, token)
    assert sorted(read + drain(rig)) == sorted(scene.sent)


@pytest.mark.parametrize("scene", [True], indirect=True)
@pytest.mark.parametrize("end", ["trim_horizon", "latest"])
def test_a_place_that_bloop_forgot_to_drop_is_not_used(scene: Scene, tmp_path: Path, end: str) -> None:  # B-14
    scene.bloop.move_to("trim_horizon")
    read_by(scene.bloop, 1)
    scene.world.time.sleep(2)
    scene.bloop.move_to(end)
    token = scene.bloop.token()
    named = [shard["shard_id"] for shard in token["shards"]]
    assert len(named) > len(set(named))
    rig = cloned(tmp_path, scene.world, "etl")
    effects = " ".join(item.effect for item in bring(rig, token))
    assert "a second place of it, from before Bloop was moved" in effects
    assert sorted(drain(rig)) == (sorted(scene.sent) if end == "trim_horizon" else [])
