# SPDX-License-Identifier: Apache-2.0
"""Shards that expire before they are read for the first time: told, and not waited for."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from shardbatch.core.interval import Interval
from shardbatch.core.limits import ReadLimits
from shardbatch.core.policies import GapPolicy, Policies
from shardbatch.core.ports import Page
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.start import Work
from shardbatch.run import claim, commit, freeze, land
from tests.support.rig import Rig

RECORD = Policies(gap=GapPolicy.RECORD)
DAY_MS = 24 * 3_600_000


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def test_records_that_expired_before_the_first_read_of_a_shard_are_a_gap(rig: Rig) -> None:
    (shard,) = rig.stream.shards
    rig.claim("r1")  # it gives the shard its row, and dies
    rig.over("r1")
    rig.stream.put("a", "b")
    rig.time.ms += DAY_MS + 3_600_000
    rig.stream.trim(shard, keep=0)
    left = rig.stream.put("c")
    answer = rig.run("r2", policies=RECORD)
    assert (answer.records, answer.gaps) == (1, 1)
    assert rig.committed() == left


def test_records_that_expired_while_reads_came_no_further_are_a_gap_of_the_first_that_does(rig: Rig) -> None:
    """The first read is cut short before the first record that is left: its gap has no end yet, so it is said and not
    recorded, and the read that comes further tells it from the last look on."""
    (shard,) = rig.stream.shards
    rig.claim("r1")
    rig.over("r1")
    rig.stream.put("a")
    rig.time.ms += DAY_MS + 3_600_000
    rig.stream.trim(shard, keep=0)
    rig.stream.put("b", "c")
    far = Page(rig.stream._batch([]), TRIM_HORIZON, lag_ms=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rig.stream, "read", lambda shard_id, position: iter([far]))
        answer = rig.run("r2", policies=RECORD, limits=ReadLimits(duration=timedelta(microseconds=1)))
    assert (answer.records, answer.gaps) == (0, 0)
    assert any("GAP in shard" in line for line in rig.said)
    rig.time.ms += DAY_MS + 3_600_000
    rig.stream.trim(shard, keep=0)
    left = rig.stream.put("d")
    answer = rig.run("r3", policies=RECORD)
    assert (answer.records, answer.gaps) == (1, 1)
    assert rig.committed() == left


def test_a_shard_that_is_read_within_the_retention_for_the_first_time_has_no_gap(rig: Rig) -> None:
    rig.claim("r1")
    rig.over("r1")
    sent = rig.stream.put("a", "b")
    rig.time.ms += DAY_MS - 3_600_000
    answer = rig.run("r2")
    assert (answer.records, answer.gaps) == (2, 0)
    assert rig.committed() == sent


def test_an_interval_goes_on_with_children_that_left_the_listing_after_its_claim(rig: Rig) -> None:
    (parent,) = rig.stream.shards
    first, second = rig.stream.split(parent)
    rig.stream.split(first)
    sent = rig.stream.put("a", "b", "c")
    owner = replace(rig.owner("backfill"), mode="interval")
    span = Interval(rig.stream.now_ms, rig.stream.now_ms + 1)
    consumer = rig.consumer(scope=owner.scope, interval=span, policies=RECORD)
    found = claim(consumer, owner)
    rig.stream.forget(parent)
    rig.stream.forget(first)
    for group in found.groups:
        land(consumer, owner, group.group, rig.stream.now_ms)
    frozen = freeze(consumer, owner)
    assert (frozen.record_count, frozen.gaps, frozen.shards) == (len(sent), 2, 5)
    rig.work(frozen)
    commit(consumer, owner, frozen.batch_id, frozen.attempt, works=[Work("transform")])
    assert consumer.leases() == []
    assert second in rig.stream.shards
