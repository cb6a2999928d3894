# SPDX-License-Identifier: Apache-2.0
"""What Bloop calls ``move_to``, done by a reset or a start: the oldest record, the latest, and a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.reset import reset, target_of
from shardbatch.core.position import LATEST, Position, at_timestamp
from shardbatch.errors import ConfigurationError
from shardbatch.local import StreamServer
from tests.integration.sources.dynamodb_world import World, changes, committed, rig_of, to_tip
from tests.support.aws import REGION
from tests.support.rig import Rig
from tests.support.verbs import told

KEYS = "abcdefghijklmnop"


@pytest.fixture
def server() -> Iterator[StreamServer]:
    with StreamServer(region=REGION) as running:
        yield running


def move(rig: Rig, to: Position) -> None:
    found = told(reset, rig, every=True, to=to, clock=rig.options["clock"])
    assert {item.result for item in found} == {"reset"}


def drain(rig: Rig) -> list[str]:
    """What runs commit from now on."""
    rig.store.prepare()
    before = len(committed(rig))
    for number in range(4):
        rig.run(f"r{number}-{rig.options['clock'].now_ms()}")
    return committed(rig)[before:]


def key_of(world: World, shard: str) -> str:
    """A key whose changes go to an open shard."""
    for key in KEYS:
        (name,) = world.put(key)
        if name in changes(*to_tip(world.source().read(shard, target_of("TRIM_HORIZON")))):
            return key
    raise AssertionError(f"no key of {KEYS} goes to {shard}")


class Family:
    """BV-4: a shard that was split, and changes of the times 0, 1, 100, 150 and 200 s, as Bloop's test has them."""

    def __init__(self, world: World) -> None:
        now = world.server.clock.now_ms()
        world.time.sleep((1000 - now % 1000) / 1000)
        self.begin_ms = world.server.clock.now_ms() // 1000 * 1000
        self.sent: dict[int, str] = {}
        for second in (0, 1):
            self._put(world, second, "a")
        left, right = world.split()
        keys = {shard: key_of(world, shard) for shard in (left, right)}
        world.trim(left)
        world.trim(right)
        for second, shard in ((100, left), (150, right), (200, left)):
            self._put(world, second, keys[shard])
        world.time.sleep(20)

    def _put(self, world: World, second: int, key: str) -> None:
        ahead = self.begin_ms + second * 1000 - world.server.clock.now_ms()
        world.time.sleep(max(0.0, ahead / 1000))
        (self.sent[second],) = world.put(key)


@pytest.mark.parametrize("scans", [False, True])
def test_a_time_begins_with_the_first_change_of_its_second_in_all_shards(  # BV-4, B-12
    server: StreamServer, tmp_path: Path, scans: bool
) -> None:
    world = World(server)
    family = Family(world)
    rig = rig_of(tmp_path, world, scans=scans)
    assert sorted(drain(rig)) == sorted(family.sent.values())
    for time_s in (0, 1, 1.9, 50, 150, 150.5, 201):
        move(rig, at_timestamp(family.begin_ms + int(time_s * 1000)))
        wanted = [name for second, name in family.sent.items() if second >= int(time_s)]
        assert sorted(drain(rig)) == sorted(wanted), time_s


def test_a_time_ahead_is_waited_for(server: StreamServer, tmp_path: Path) -> None:  # BV-4, B-12
    world = World(server)
    rig = rig_of(tmp_path, world)
    world.put("a")
    drain(rig)
    ahead = server.clock.now_ms() // 1000 * 1000 + 60_000
    move(rig, at_timestamp(ahead))
    world.put("b")
    assert drain(rig) == []
    world.time.sleep(61)
    sent = world.put("c")
    assert drain(rig) == sent


def test_a_time_without_a_zone_is_refused() -> None:  # B-12
    with pytest.raises(ConfigurationError, match="no time zone"):
        target_of("2026-11-28T00:00:00")


def forest(world: World) -> dict[str, str]:
    """BV-6: 0 rolls into 1, which splits into 2 and 3; 4 splits into 5 and 6, and 6 rolls into 7."""
    zero, four = world.shards()
    (one,) = world.roll(zero)
    two, three = world.split(one)
    five, six = world.split(four)
    (seven,) = world.roll(six)
    return dict(zip("01234567", (zero, one, two, three, four, five, six, seven), strict=True))


def test_the_oldest_is_read_from_the_roots_and_the_latest_from_the_leaves(  # BV-6, B-11
    server: StreamServer, tmp_path: Path
) -> None:
    world = World(server, shards=2)
    old = world.put(*KEYS)
    shards = forest(world)
    old += world.put(*KEYS)
    world.time.sleep(2)

    latest = rig_of(tmp_path, world)
    latest.run("begins", start=LATEST)
    assert committed(latest) == []
    world.time.sleep(2)
    new = world.put(*KEYS)
    assert sorted(drain(latest)) == sorted(new)
    places: dict[str, Any] = {row.shard_id: row for row in latest.consumer().leases()}
    leaves = {name for name, row in places.items() if not row.completed}
    assert leaves == {shards[name] for name in "2357"}

    move(latest, target_of("trim_horizon"))
    found = latest.claim("oldest")
    assert found.shards == 2
    taken = {row.shard_id for row in latest.consumer().leases() if row.lease_owner}
    assert taken == {shards["0"], shards["4"]}
    latest.over("oldest")
    assert sorted(drain(latest)) == sorted(old + new)


def test_the_present_instant_takes_the_place_of_latest(server: StreamServer, tmp_path: Path) -> None:  # B-11
    world = World(server)
    rig = rig_of(tmp_path, world)
    world.put("a")
    drain(rig)
    world.put("b")
    world.time.sleep(2)
    with pytest.raises(ConfigurationError, match="Give the present instant"):
        target_of("latest")
    move(rig, rig.options["source"].resolve(LATEST))
    sent = world.put("c")
    assert drain(rig) == sent
    assert rig.batches()[-1].gaps == 1  # what was passed over is told, with who and why
