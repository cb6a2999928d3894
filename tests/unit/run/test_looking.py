# SPDX-License-Identifier: Apache-2.0
"""What a look at the stream may conclude: that it is at the tip, that records expired, that others wait."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from shardbatch.core.limits import ReadLimits
from shardbatch.core.policies import ClaimOptions, GapPolicy, Policies
from shardbatch.core.ports import Page
from shardbatch.core.position import LATEST
from shardbatch.run import Outcome
from tests.support.passing import only, time_passes
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream, of_lag


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def test_records_that_came_and_expired_before_the_first_was_ever_read_are_a_gap(rig: Rig) -> None:
    rig.run("r1", start=LATEST)
    assert not only(rig).checkpoint.exact
    rig.stream.put("a", "b")
    time_passes(rig, 25)
    rig.stream.trim(only(rig).shard_id, keep=0)
    left = rig.stream.put("c")
    rig.land("r2", rig.claim("r2"))
    pending = only(rig).pending
    assert pending is not None
    assert pending.gaps
    assert pending.gaps[0].first_available == left[0]


def test_a_shard_without_a_record_so_far_is_no_gap_while_it_is_looked_at(rig: Rig) -> None:
    rig.run("r1", start=LATEST)
    for number in range(5):
        time_passes(rig, 12)
        assert rig.run(f"quiet{number}").batch_id is None
    sent = rig.stream.put("a")
    assert rig.run("r2").gaps == 0
    assert rig.committed() == sent


def test_an_accepted_gap_of_a_quiet_shard_is_not_found_again(rig: Rig) -> None:
    policies = Policies(gap=GapPolicy.RECORD)
    rig.run("r1", start=LATEST)
    time_passes(rig, 48)
    assert rig.run("r2", policies=policies).gaps == 1
    time_passes(rig, 2)
    assert rig.run("r3", policies=policies).batch_id is None


def test_a_lag_of_zero_beside_records_is_no_sight_of_the_tip(rig: Rig) -> None:
    read = rig.stream.read

    def flat(shard_id, position) -> Iterator[Page]:
        """A server that reports no lag, ever."""
        return (of_lag(page, 0) for page in read(shard_id, position))

    rig.stream.read = flat  # type: ignore[method-assign]
    rig.stream.put(*"abcdef")
    rig.run("r1", limits=ReadLimits(records=3))
    assert only(rig).caught_up_ms is None
    rig.stream.put("g")
    time_passes(rig, 25)
    rig.stream.trim(only(rig).shard_id, keep=1)
    assert rig.run("r2", policies=Policies(gap=GapPolicy.RECORD)).gaps == 1


def test_looking_whether_records_wait_ends_on_a_shard_that_shows_none(rig: Rig) -> None:
    rig.stream.put("a")
    rig.claim("r1")
    read = rig.stream.read
    pages = itertools.count()

    def sparse(shard_id, position) -> Iterator[Page]:
        (page,) = itertools.islice(read(shard_id, position), 1)
        while next(pages) < 10_000:
            yield of_lag(replace(page, records=page.records.slice(0, 0), next=position), 1000)

    rig.stream.read = sparse  # type: ignore[method-assign]
    assert rig.claim("r2").outcome is Outcome.HELD
    assert next(pages) < 100


def test_quiet_shards_are_looked_at_without_a_question_for_the_retention_each(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=8)
    rig.options["options"] = ClaimOptions(read_tasks=1)
    for shard_id in rig.stream.shards:
        rig.stream.put("a", shard_id=shard_id)
    rig.run("r1")
    for shard_id in rig.stream.shards:
        rig.stream.trim(shard_id, keep=0)
    asked: list[int] = []
    retention_ms = rig.stream.retention_ms
    rig.stream.retention_ms = lambda: asked.append(1) or retention_ms()  # type: ignore[method-assign, func-returns-value]
    for number in range(3):
        time_passes(rig, 0.25)
        assert rig.run(f"quiet{number}").batch_id is None
    assert len(asked) == 3  # by each claim, for the row
    time_passes(rig, 2)
    assert rig.run("later").batch_id is None
    assert len(asked) == 5  # and once a task, not once a shard


def test_a_read_that_neither_found_a_record_nor_saw_the_tip_says_so(rig: Rig) -> None:
    rig.stream.put("a")
    read = rig.stream.read

    def sparse(shard_id, position) -> Iterator[Page]:
        (page,) = itertools.islice(read(shard_id, position), 1)
        while True:
            rig.time.ms += 1000
            yield of_lag(replace(page, records=page.records.slice(0, 0), next=position), 3_600_000)

    rig.stream.read = sparse  # type: ignore[method-assign]
    began = rig.time.ms
    assert rig.run("r1", limits=ReadLimits(duration=timedelta(seconds=10))).batch_id is None
    assert any("nothing was read" in line and "3600000 ms" in line for line in rig.said)
    caught_up_ms = only(rig).caught_up_ms
    assert caught_up_ms is not None
    assert caught_up_ms < began + 1000  # as when the row was added


@pytest.mark.parametrize(("kept_for_ms", "gaps"), [(None, 1), (3 * 3_600_000, 0), (3_600_000, 1)])
def test_a_shard_last_seen_hours_ago_has_a_gap_unless_the_service_says_that_it_keeps_records_for_longer(
    rig: Rig, kept_for_ms: int | None, gaps: int
) -> None:
    rig.stream.put("a")
    rig.run("r1")
    rig.run("r2")  # which sees the tip
    rig.stream.retention_ms = lambda: kept_for_ms  # type: ignore[method-assign, assignment, return-value]
    time_passes(rig, 2)
    rig.stream.trim(only(rig).shard_id, keep=0)
    rig.stream.put("b")
    assert rig.run("r3", policies=Policies(gap=GapPolicy.RECORD)).gaps == gaps
