# SPDX-License-Identifier: Apache-2.0
"""Runs of an application on a table's stream: claim, read, freeze and commit over rolls, splits and trims."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shardbatch.core.interval import Interval
from shardbatch.core.limits import ReadLimits
from shardbatch.core.policies import ClaimOptions, GapPolicy, Policies
from shardbatch.core.position import LATEST, at_timestamp
from shardbatch.errors import StreamRecreated
from shardbatch.local import StreamServer
from shardbatch.run import Outcome, claim, freeze, land
from tests.integration.sources.dynamodb_world import TABLE, World, committed, rig_of
from tests.support.aws import REGION
from tests.support.rig import Rig

KEYS = "abcdefghijklmnop"
RECORD = Policies(gap=GapPolicy.RECORD)


@pytest.fixture
def server() -> Iterator[StreamServer]:
    with StreamServer(region=REGION) as running:
        yield running


def in_order(found: list[str], sent: list[str]) -> bool:
    """Whether each change came once, and those of each key in their order."""
    keys = {name[0] for name in sent}
    return len(found) == len(sent) and all(
        [name for name in found if name[0] == key] == [name for name in sent if name[0] == key] for key in keys
    )


def rows(rig: Rig) -> dict[str, Any]:
    return {row.shard_id: row for row in rig.consumer().leases()}


def test_runs_commit_each_change_of_each_key_once_and_in_order(server: StreamServer, tmp_path: Path) -> None:
    world = World(server, shards=2)
    rig = rig_of(tmp_path, world)
    sent = world.put(*KEYS, *"abcd")
    rig.run("r1")
    assert sorted(committed(rig)) == sorted(sent)
    assert rig.run("idle").batch_id is None
    sent += world.put(*KEYS)
    world.roll()
    sent += world.put(*KEYS)
    world.split()
    sent += world.put(*KEYS)
    rig.run("r2")
    assert rig.run("idle too").batch_id is None
    assert in_order(committed(rig), sent)


@pytest.mark.parametrize("limits", [None, ReadLimits(records=3)])
def test_six_generations_are_caught_up(server: StreamServer, tmp_path: Path, limits: ReadLimits | None) -> None:
    server.options.child_listings = 3
    server.options.end_with_records = False
    server.options.empty_pages = 2
    world = World(server, shards=2)
    rig = rig_of(tmp_path, world, page_records=2)
    sent: list[str] = []
    for generation in range(6):
        sent += world.put(*KEYS)
        world.split() if generation == 2 else world.roll()
        world.time.sleep(4 * 3600 - 600)
    sent += world.put(*KEYS)
    if limits is None:
        rig.run("r1")
        assert rig.run("idle").batch_id is None
    else:
        for number in range(60):
            if rig.run(f"r{number}", limits=limits).batch_id is None:
                break
    assert in_order(committed(rig), sent)


def test_each_successor_of_a_shard_that_rolls_each_time_is_read_in_the_next_run(  # R66
    server: StreamServer, tmp_path: Path
) -> None:
    server.options.child_seconds = 30  # later than a read waits for children
    world = World(server)
    rig = rig_of(tmp_path, world)
    sent: list[str] = []
    for cycle in range(10):
        sent += world.put("a", "b")
        assert rig.run(f"r{cycle}").records == 2
        assert in_order(committed(rig), sent)
        world.roll()
        rig.run(f"end{cycle}")
        world.time.sleep(60)


def test_the_end_of_a_shard_asks_for_its_own_children_only(server: StreamServer, tmp_path: Path) -> None:  # R69
    world = World(server, shards=8)
    rig = rig_of(tmp_path, world)
    world.put(*KEYS)
    rig.run("r1")
    world.roll()
    world.put(*KEYS)
    found = rig.claim("r2")
    server.calls.clear()
    rig.land("r2", found)
    asked, *listings = server.calls.list("DescribeStream")  # the stream's time, once
    assert (asked.shards, len(listings)) == (1, 8)
    assert all(call.shards == 1 for call in listings)


def read_interval(rig: Rig, span: Interval) -> int:
    """How many changes a run over an interval freezes."""
    owner = replace(rig.owner("backfill"), mode="interval")
    consumer = rig.consumer(scope=owner.scope, interval=span)
    found = claim(consumer, owner)
    assert found.outcome is Outcome.LEASES
    for group in found.groups:
        land(consumer, owner, group.group, consumer.now_ms())
    return freeze(consumer, owner, None).record_count


# what is trimmed


def test_trimmed_records_are_a_gap_although_the_last_look_is_young(server: StreamServer, tmp_path: Path) -> None:
    world = World(server)
    rig = rig_of(tmp_path, world)
    sent = world.put("a")
    rig.run("r1")
    world.put("b")
    world.trim()
    sent += world.put("c")
    rig.land("r2", rig.claim("r2"))
    assert rig.freeze("r2").batch_id is None  # the gap waits for a person
    rig.over("r2")
    told = rig.run("r3", policies=RECORD)
    assert told.gaps == 1
    (gap,) = rig.manifest(told.batch_id or "")["slices"][0]["gaps"]
    assert "the service says" in gap["reason"]
    assert committed(rig) == sent


def test_an_idle_shard_whose_last_record_expired_has_no_gap(server: StreamServer, tmp_path: Path) -> None:
    world = World(server)
    rig = rig_of(tmp_path, world)
    sent = world.put("a")
    rig.run("r1")
    for number in range(30):
        world.time.sleep(3600)
        assert rig.run(f"idle{number}").batch_id is None
    sent += world.put("b")
    assert rig.run("r2").gaps == 0
    assert committed(rig) == sent


def test_an_outage_of_more_than_a_day_is_a_gap(server: StreamServer, tmp_path: Path) -> None:
    world = World(server)
    rig = rig_of(tmp_path, world)
    sent = world.put("a")
    rig.run("r1")
    world.time.sleep(3600)
    world.put("b")
    world.time.sleep(24.5 * 3600)
    sent += world.put("c")
    assert rig.run("r2", policies=RECORD).gaps == 1
    assert committed(rig) == sent


def test_a_shard_that_left_the_stream_unread_is_a_gap(server: StreamServer, tmp_path: Path) -> None:
    world = World(server)
    rig = rig_of(tmp_path, world)
    world.put("a")
    rig.run("r1")
    world.put("b")
    world.roll()
    world.trim(forget=True)
    told = rig.run("r2", policies=RECORD)
    assert told.gaps == 1


# the stream


def test_a_disabled_stream_is_read_to_its_end(server: StreamServer, tmp_path: Path) -> None:
    world = World(server, shards=3)
    rig = rig_of(tmp_path, world)
    sent = world.put(*KEYS)
    server.tables.disable(TABLE, region=REGION)
    found = rig.claim("r1")
    server.calls.clear()
    rig.land("r1", found)
    # The stream's time, and one for each leaf: none will ever have children.
    assert len(server.calls.list("DescribeStream")) == 1 + 3
    frozen = rig.freeze("r1")
    rig.work(frozen)
    rig.commit("r1", frozen)
    assert in_order(committed(rig), sent)
    assert all(row.completed for row in rows(rig).values())


def test_a_stream_that_was_enabled_again_is_another_one(server: StreamServer, tmp_path: Path) -> None:
    world = World(server)
    rig = rig_of(tmp_path, world)
    world.put("a")
    rig.run("r1")
    server.tables.disable(TABLE, region=REGION)
    server.tables.enable(TABLE, region=REGION)
    rig.options["source"] = world.source()
    with pytest.raises(StreamRecreated):
        rig.claim("r2")


def test_a_read_that_finds_another_stream_calls_nothing_lost(server: StreamServer, tmp_path: Path) -> None:  # W11
    world = World(server)
    rig = rig_of(tmp_path, world)
    sent = world.put("a")
    rig.run("r1")
    sent += world.put("b")
    found = rig.claim("r2")
    server.tables.disable(TABLE, region=REGION)
    server.tables.enable(TABLE, region=REGION)
    rig.options["source"] = world.source()
    world.put("c")
    with pytest.raises(StreamRecreated):
        rig.land("r2", found)
    rig.over("r2")
    rig.options["source"] = world.source(world.arn)  # it can be read by its name for a day
    assert rig.run("r3").gaps == 0
    assert committed(rig) == sent


def test_a_shard_that_always_fails_holds_no_other_back(server: StreamServer, tmp_path: Path) -> None:  # R21
    world = World(server, shards=6)
    rig = rig_of(tmp_path, world)
    broken = world.shards()[0]
    server.faults.add("GetShardIterator", "error", error="InternalServerError", shard=broken, times=1000)
    sent = world.put(*KEYS)
    for run in range(3):
        found = rig.claim(f"r{run}", options=ClaimOptions(max_shards=3))
        (landed,) = rig.land(f"r{run}", found)
        assert set(landed.errors) <= {broken}
        frozen = rig.freeze(f"r{run}")
        if frozen.batch_id is not None:
            rig.work(frozen)
            rig.commit(f"r{run}", frozen)
        rig.over(f"r{run}")
    assert len({name[0] for name in committed(rig)}) > len(KEYS) / 2
    server.faults.clear()
    rig.run("mended")
    assert in_order(committed(rig), sent)


# instants


@pytest.mark.parametrize("scans", [False, True])
def test_a_start_in_the_past_is_searched_over_several_runs_and_generations(
    server: StreamServer, tmp_path: Path, scans: bool
) -> None:
    world = World(server, shards=2)
    for _ in range(3):
        world.put(*KEYS)
        world.time.sleep(3600)
        world.roll()
    world.put(*KEYS)
    world.time.sleep(2)
    start = at_timestamp(server.clock.now_ms() // 1000 * 1000)
    sent = world.put(*KEYS)
    world.roll()
    sent += world.put(*KEYS)
    source = world.source(page_records=3)
    if scans:
        source = world.source(scans=True, page_records=3)
    rig = rig_of(tmp_path, world)
    rig.options.update(source=source, start=start)
    short = ReadLimits(duration=timedelta(milliseconds=1))  # one answer of each shard
    for number in range(40):
        rig.run(f"r{number}", limits=short)
    rig.run("whole")
    assert in_order(committed(rig), sent)


def test_a_child_that_is_listed_late_is_read_from_the_instant_too(server: StreamServer, tmp_path: Path) -> None:  # F8
    world = World(server)
    world.put("a")
    world.roll()
    world.put("b")
    world.time.sleep(10)
    server.options.child_seconds = 12  # it is seen when its parent has ended, and not by the claim
    rig = rig_of(tmp_path, world, scans=True)
    rig.options["start"] = at_timestamp(server.clock.now_ms() // 1000 * 1000)
    sent = world.put("c")
    found = rig.claim("r1")
    assert len(rows(rig)) == 1
    rig.land("r1", found)
    frozen = rig.freeze("r1")
    rig.work(frozen)
    rig.commit("r1", frozen)
    assert len(rows(rig)) == 2
    assert committed(rig) == sent


def test_latest_begins_where_the_claim_stands(server: StreamServer, tmp_path: Path) -> None:
    world = World(server, shards=2)
    world.put(*KEYS)
    world.roll()
    world.put(*KEYS)
    world.time.sleep(2)
    rig = rig_of(tmp_path, world, scans=True)
    rig.run("r1", start=LATEST)
    sent = world.put(*KEYS)
    rig.run("r2", start=LATEST)
    assert in_order(committed(rig), sent)


@pytest.mark.parametrize("scans", [False, True])
def test_an_interval_is_read_whole_from_closed_and_open_shards(
    server: StreamServer, tmp_path: Path, scans: bool
) -> None:
    world = World(server, shards=2)
    rig = rig_of(tmp_path, world, scans=scans, page_records=5)
    world.put(*KEYS)
    rig.run("live")
    world.time.sleep(600)
    begin = server.clock.now_ms() // 1000 * 1000
    world.time.sleep(1)
    sent = world.put(*KEYS)
    world.roll()
    sent += world.put(*KEYS)
    world.time.sleep(1)
    span = Interval(begin, server.clock.now_ms() // 1000 * 1000)
    world.time.sleep(600)
    world.put(*KEYS)
    assert read_interval(rig, span) == len(sent)


def test_an_interval_of_a_disabled_stream_is_read(server: StreamServer, tmp_path: Path) -> None:  # B-26
    world = World(server, shards=2)
    rig = rig_of(tmp_path, world)
    begin = server.clock.now_ms() // 1000 * 1000
    sent = world.put(*KEYS)
    server.tables.disable(TABLE, region=REGION)
    world.time.sleep(1)
    span = Interval(begin, server.clock.now_ms() // 1000 * 1000)
    world.time.sleep(600)
    assert read_interval(rig, span) == len(sent)


@pytest.mark.slow
def test_three_thousand_closed_shards_cost_seconds_and_their_rows_go(  # R20, R67, K-38
    server: StreamServer, tmp_path: Path
) -> None:
    world = World(server, shards=40)
    for _ in range(75):
        world.roll()
    sent = world.put(*KEYS)
    rig = rig_of(tmp_path, world)
    spent = [time.process_time()]
    assert len(world.source().list_shards()) == 3040
    spent.append(time.process_time())
    assert len(server.calls.list("DescribeStream")) in (31, 32)
    assert rig.claim("r1").shards == 40
    spent.append(time.process_time())
    rig.run("r1")  # all generations, one after the other
    spent.append(time.process_time())
    assert in_order(committed(rig), sent)
    world.time.sleep(3 * 86_400)  # the closed shards leave the stream; a claim removes some hundred rows
    assert rig.run("idle", policies=RECORD).records == 0  # nothing is read twice
    kept = [len(rows(rig))]
    while len(kept) < 30 and kept[-1] > 80:
        assert rig.claim(f"tidy{len(kept)}").shards == 40
        rig.over(f"tidy{len(kept)}")
        kept.append(len(rows(rig)))
    spent.append(time.process_time())
    print("listed, claimed, read, removed:", [round(b - a, 2) for a, b in itertools.pairwise(spent)], kept)
    assert kept[-1] <= 80
    assert all(before - after <= 500 for before, after in itertools.pairwise(kept))
    assert rig.run("idle too", policies=RECORD).records == 0
    sent += world.put(*KEYS)
    rig.run("after")
    assert in_order(committed(rig), sent)
    assert spent[2] - spent[0] < 20
