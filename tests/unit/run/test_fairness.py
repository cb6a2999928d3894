# SPDX-License-Identifier: Apache-2.0
"""No shard is forgotten where a run takes fewer than there are, or has time for a few only."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from shardbatch.core.limits import ReadLimits
from shardbatch.core.owner import Owner
from shardbatch.core.policies import ClaimOptions
from shardbatch.core.ports import Clock
from shardbatch.errors import SourceError
from shardbatch.run import claim
from shardbatch.run.hold import Held, Renewal
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def test_runs_that_take_one_shard_each_take_all_in_turn(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=3)
    options = ClaimOptions(max_shards=1)
    for number in range(6):
        for shard_id in rig.stream.shards:
            rig.stream.put("a", shard_id=shard_id)
        rig.time.ms += 60_000
        rig.stream.now_ms += 60_000
        rig.run(f"r{number}", options=options)
    counts = [sum(shard == read for read, _ in rig.stream.reads) for shard in rig.stream.shards]
    assert counts == [2, 2, 2]


def test_a_shard_that_is_always_behind_does_not_keep_the_others_from_being_read(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2, page_size=1)
    busy, quiet = rig.stream.shards
    rig.stream.put(*"aaa", shard_id=busy)
    options = ClaimOptions(max_shards=1)
    rig.run("r0", options=options, limits=ReadLimits(records=1))
    rig.run("r1", options=options, limits=ReadLimits(records=1))
    sent = rig.stream.put("b", shard_id=quiet)
    for number in range(2, 12):
        rig.time.ms += 60_000
        rig.stream.now_ms += 60_000
        rig.stream.put("a", "a", shard_id=busy)
        rig.run(f"r{number}", options=options, limits=ReadLimits(records=1))
    assert set(sent) <= set(rig.committed())


def test_open_shards_of_every_generation_have_their_turn(rig: Rig) -> None:
    (first,) = rig.stream.shards
    left, right = rig.stream.split(first)
    inner = rig.stream.split(right)
    options = ClaimOptions(max_shards=1)
    for number in range(9):
        sent = [rig.stream.put("a", shard_id=shard_id)[0] for shard_id in (left, *inner)]
        rig.time.ms += 60_000
        rig.stream.now_ms += 60_000
        rig.run(f"r{number}", options=options)
    for number in range(3):
        rig.run(f"last{number}", options=options)
    assert set(sent) <= set(rig.committed())


def test_a_parent_whose_gap_waits_for_a_person_does_not_keep_the_others_out(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    gapped, other = rig.stream.shards
    options = ClaimOptions(max_shards=1)
    rig.run("r0", options=options)
    rig.run("r1", options=options)
    rig.stream.split(gapped)
    rig.stream.forget(gapped)
    sent = rig.stream.put("a", shard_id=other)
    for number in range(2, 6):
        rig.run(f"r{number}", options=options)
    assert any(f"GAP in shard {gapped}" in line for line in rig.said)
    assert rig.committed() == sent


def test_a_parent_that_cannot_be_read_does_not_keep_the_others_out(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    broken, other = rig.stream.shards
    options = ClaimOptions(max_shards=1)
    rig.stream.split(broken)
    rig.stream.failing[broken] = SourceError("refused")
    sent = rig.stream.put("a", shard_id=other)
    for number in range(4):
        found = rig.claim(f"r{number}", options=options)
        with suppress(SourceError):
            rig.land(f"r{number}", found, options=options)
        frozen = rig.freeze(f"r{number}")
        if frozen.batch_id is not None:
            rig.work(frozen)
        rig.commit(f"r{number}", frozen)
        rig.over(f"r{number}")
    assert any(broken in line for line in rig.said if "could not be read" in line)
    assert rig.committed() == sent


def test_what_one_run_had_no_time_for_is_read_first_by_the_next(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2, page_size=1)
    first, second = rig.stream.shards
    rig.stream.put(*"b" * 30, shard_id=second)
    rig.stream.now_ms += 1000
    rig.stream.put(*"a" * 30, shard_id=first)
    taken = []
    for run in ("r1", "r2"):
        ticks = iter(range(10_000))
        clock = Clock(rig.time.now_ms, lambda ticks=ticks: float(next(ticks)), rig.time.sleep)
        limits = ReadLimits(duration=timedelta(seconds=100), concurrency=1)
        rig.run(run, options=ClaimOptions(read_tasks=1), limits=limits, clock=clock)
        done = set(rig.committed())
        taken.append([sum(str(i.sequence_number) in done for i in rig.stream.shards[s].items) for s in (first, second)])
    assert taken[0][0] > taken[0][1]
    assert taken[1][1] - taken[0][1] > taken[1][0] - taken[0][0]


def test_a_lease_whose_renewal_goes_wrong_does_not_keep_the_others_from_theirs(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    rig.claim("r1")
    consumer, me = rig.consumer(), str(rig.owner("r1"))
    first, second = (Held(consumer, me, row) for row in consumer.leases())

    class Broken(Held):
        def renew(self) -> None:
            raise RuntimeError("a fault of ours")

    options = ClaimOptions(lease_duration=timedelta(milliseconds=30))
    renewal = Renewal(rig.consumer(options=options))
    renewal.add(Broken(consumer, me, first.row))
    renewal.add(second)
    count = second.row.lease_count
    with renewal.running():
        for _ in range(1000):
            if second.row.lease_count > count + 1:
                break
            renewal._stop.wait(0.01)
    assert second.row.lease_count > count + 1
    assert any("a fault of ours" in line for line in rig.said)


def test_leases_of_a_run_that_is_over_are_spread_anew_over_the_read_tasks_of_this_one(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "staging", ScriptedStream(shards=8))
    limits = ReadLimits(concurrency=1)
    assert len(rig.claim("r1", options=ClaimOptions(read_tasks=4), limits=limits).groups) == 4
    rig.over("r1")
    found = rig.claim("r2", options=ClaimOptions(read_tasks=2), limits=limits)
    assert len(found.groups) == 2
    assert found.shards == 8


@pytest.mark.parametrize(
    ("second", "share"), [(Owner("here", "twin", "r2", "orders"), 4), (Owner("here", "dag", "r2", "orders"), 6)]
)
def test_a_run_beside_another_group_that_reads_leaves_it_a_share_and_takes_the_largest_backlogs(
    rig: Rig, second: Owner, share: int
) -> None:
    rig.stream = ScriptedStream(shards=8, page_size=1)
    for number, shard_id in enumerate(rig.stream.shards):
        rig.stream.put(*"a" * (2 + number), shard_id=shard_id)
        rig.stream.now_ms += 1000
    rig.run("r0", limits=ReadLimits(records=1))
    assert rig.claim("r1", options=ClaimOptions(max_shards=2)).shards == 2
    found = claim(rig.consumer(options=ClaimOptions(shared=True)), second)
    assert found.shards == share  # KV-13
    rows = rig.consumer().leases()
    mine = [lease.millis_behind_latest or 0 for lease in rows if lease.lease_owner == str(second)]
    assert min(mine) > max((lease.millis_behind_latest or 0 for lease in rows if lease.lease_owner is None), default=0)
    assert any("Leaving 2 of 6 free shards" in line for line in rig.said) == (share == 4)
    assert rig.claim("r3").shards == 6 - share


def test_a_run_whose_slices_are_frozen_needs_no_share(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=4)
    for shard_id in rig.stream.shards:
        rig.stream.put("a", shard_id=shard_id)
    rig.land("r1", rig.claim("r1", options=ClaimOptions(max_shards=1)))
    rig.freeze("r1")
    assert rig.claim("r2").shards == 3
