# SPDX-License-Identifier: Apache-2.0
"""A start, or a reset, that lies ahead of the stream's clock: nothing before it, all from it on (PROTOCOL T7; P28)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.reset import reset
from shardbatch.core.batch import BatchState
from shardbatch.core.policies import ClaimOptions, GapPolicy, Policies
from shardbatch.core.position import at_timestamp
from shardbatch.errors import ConfigurationError
from shardbatch.run import Outcome
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import act
from tests.unit.run.test_interval_runs import Interval, beside, run

TWO_HOURS = 7_200_000


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(tmp_path / "staging", ScriptedStream(shards=2))
    made.options["policies"] = Policies(gap=GapPolicy.FAIL)
    return made


def at(rig: Rig, ms: int) -> None:
    """Both clocks, in step."""
    rig.stream.now_ms = rig.time.ms = ms


def moved(rig: Rig, to_ms: int, *shards: str) -> None:
    """A reset by hand."""
    act(
        reset, rig.store, rig.namespace, actor="me", reason="test", to=at_timestamp(to_ms), shards=shards,
        every=not shards, dry_run=False, clock=rig.time.clock(),
    )  # fmt: skip


def gaps(rig: Rig) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The gaps that committed batches tell, each with its slice."""
    rows = sorted(rig.batches(BatchState.COMMITTED), key=lambda item: item.batch_id)
    return [(entry, gap) for row in rows for entry in rig.manifest(row.batch_id)["slices"] for gap in entry["gaps"]]


def drained(rig: Rig, runs: int = 3) -> None:
    for number in range(runs):
        rig.stream.now_ms += 1000
        rig.run(f"drain{number}-{rig.time.ms}")


@pytest.mark.parametrize("drain_lineage", [True, False])
def test_nothing_is_read_before_a_start_and_all_from_it_on(rig: Rig, drain_lineage: bool) -> None:
    start = rig.stream.now_ms + TWO_HOURS
    rig.options |= {"start": at_timestamp(start), "options": ClaimOptions(drain_lineage=drain_lineage)}
    left, right = rig.stream.shards
    rig.stream.put("a", "b", "c")
    assert rig.claim("r1").outcome is Outcome.NOTHING
    assert any("has not reached" in line for line in rig.said)
    rig.over("r1")
    at(rig, start - 3_600_000)
    low, high = rig.stream.split(left)
    rig.stream.put("d", shard_id=low)
    assert rig.claim("r2").outcome is Outcome.NOTHING
    rig.over("r2")
    rig.stream.split(high)
    child = rig.stream.merge(low, right)
    rig.stream.put("e", shard_id=child)
    assert rig.stream.reads == []
    at(rig, start - 1)
    rig.stream.put("f", shard_id=child)
    at(rig, start)
    wanted = rig.stream.put("g", shard_id=child)
    at(rig, start + 500)
    wanted += rig.stream.put("h", shard_id=list(rig.stream.shards)[-2])
    drained(rig, 4)
    assert sorted(rig.committed(), key=int) == wanted


def test_the_start_is_an_instant_of_the_streams_clock(rig: Rig) -> None:
    """A worker's clock that is ahead of it does not begin sooner, one that is behind not later."""
    start = rig.stream.now_ms + TWO_HOURS
    rig.options["start"] = at_timestamp(start)
    rig.time.ms = start + 200_000
    assert rig.claim("r1").outcome is Outcome.NOTHING
    rig.over("r1")
    rig.stream.now_ms, rig.time.ms = start, start - TWO_HOURS
    assert rig.claim("r2").outcome is Outcome.LEASES


def test_a_reset_to_an_instant_ahead_reads_nothing_before_it(rig: Rig) -> None:
    left, _ = rig.stream.shards
    before = rig.stream.put("a", "b", "c", "d")
    drained(rig)
    target = rig.time.ms + TWO_HOURS
    moved(rig, target)
    rig.stream.put("e", "f")
    assert rig.claim("r1").outcome is Outcome.NOTHING
    rig.over("r1")
    low, high = rig.stream.split(left)
    rig.stream.put("g", shard_id=low)
    drained(rig, 1)  # the children get their rows
    inner, _ = rig.stream.split(high)
    rig.stream.put("h", shard_id=inner)
    at(rig, target)
    wanted = rig.stream.put("i", shard_id=low) + rig.stream.put("j", shard_id=inner)
    drained(rig, 4)
    assert sorted(rig.committed(), key=int) == before + wanted


def test_children_that_nobody_saw_before_the_instant_begin_there_too(rig: Rig) -> None:
    left, right = rig.stream.shards
    rig.stream.put("a")
    drained(rig)
    target = rig.time.ms + TWO_HOURS
    moved(rig, target)
    low, high = rig.stream.split(left)
    child = rig.stream.merge(high, right)
    rig.stream.put("b", shard_id=low)
    rig.stream.put("c", shard_id=child)
    at(rig, target)
    wanted = rig.stream.put("d", shard_id=low) + rig.stream.put("e", shard_id=child)
    before = len(rig.committed())
    drained(rig, 4)
    assert sorted(rig.committed()[before:], key=int) == wanted


def test_what_a_child_without_a_row_is_passed_over_is_told(rig: Rig) -> None:
    """Its parent was read to its end, and a reset went on to an instant before any claim saw the child (W6)."""
    left, _ = rig.stream.shards
    rig.stream.put("a", shard_id=left)
    found = rig.claim("r1", options=ClaimOptions(drain_lineage=False))
    low, _ = rig.stream.split(left)
    rig.land("r1", found, options=ClaimOptions(drain_lineage=False))
    frozen = rig.freeze("r1")
    rig.work(frozen)
    rig.commit("r1", frozen)
    rig.over("r1")
    rig.stream.put("b", shard_id=low)
    lower, higher = rig.stream.split(low)
    rig.stream.put("c", shard_id=lower)
    target = rig.time.ms + TWO_HOURS
    moved(rig, target)
    at(rig, target)
    wanted = rig.stream.put("d", shard_id=lower)
    drained(rig, 4)
    assert rig.committed()[-1:] == wanted
    assert {entry["shard_id"] for entry, _ in gaps(rig)} >= {low, lower, higher}


def test_a_child_of_a_shard_that_was_read_on_loses_nothing(rig: Rig) -> None:
    """Of two parents only one waits for an instant: the child has what follows the other's records."""
    left, right = rig.stream.shards
    rig.stream.put("a", shard_id=left)
    drained(rig)
    target = rig.time.ms + TWO_HOURS
    moved(rig, target, left)
    child = rig.stream.merge(left, right)
    first = rig.stream.put("b", shard_id=child)
    at(rig, target)
    then = rig.stream.put("c", shard_id=child)
    drained(rig, 4)
    assert rig.committed()[-2:] == first + then


def test_a_shard_that_left_the_stream_before_the_instant_lost_nothing(rig: Rig) -> None:
    left, _ = rig.stream.shards
    rig.stream.put("a", shard_id=left)
    drained(rig)
    target = rig.time.ms + TWO_HOURS
    moved(rig, target)
    low, _ = rig.stream.split(left)
    drained(rig, 1)
    rig.stream.forget(left)
    at(rig, target)
    wanted = rig.stream.put("b", shard_id=low)
    drained(rig, 4)
    assert rig.committed()[-1:] == wanted
    assert not any("GAP" in line for line in rig.said)


def test_a_shard_that_left_the_stream_long_after_the_instant_lost_something(rig: Rig) -> None:
    rig.options["start"] = at_timestamp(rig.stream.now_ms)
    rig.options["policies"] = Policies(gap=GapPolicy.RECORD)
    left, _ = rig.stream.shards
    rig.claim("r1")
    rig.over("r1")
    rig.stream.split(left)
    rig.stream.forget(left)
    at(rig, rig.stream.now_ms + 30 * 3_600_000)
    drained(rig)
    assert any("GAP" in line and "left the stream" in line for line in rig.said)


def test_an_interval_ahead_is_refused(rig: Rig) -> None:
    begin = rig.stream.now_ms + TWO_HOURS
    with pytest.raises(ConfigurationError, match="not over"):
        run(rig, *beside(rig, Interval(begin, begin + 1000)))
