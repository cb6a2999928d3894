# SPDX-License-Identifier: Apache-2.0
"""What a claim that finds everything held says: how long the oldest record waits, and whose batch is finished first."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from shardbatch.core.batch import BatchState
from shardbatch.core.policies import ClaimOptions
from shardbatch.core.ports import Verdict
from shardbatch.run.watch import PEEKED_SHARDS, abandoned, waiting_ms
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream

MINUTE = 60_000


@pytest.mark.parametrize("oldest", [0, 1, 2])
def test_what_waits_longest_counts_of_all_held_shards(tmp_path: Path, oldest: int) -> None:
    rig = Rig(tmp_path / "staging", stream=ScriptedStream(shards=3))
    rig.claim("r0")
    names = list(rig.stream.shards)
    rig.stream.put("a", shard_id=names[oldest])
    rig.stream.now_ms += 50 * MINUTE
    for at in {0, 1, 2} - {oldest}:
        rig.stream.put("b", shard_id=names[at])
    rig.time.ms += 60 * MINUTE
    waited = waiting_ms(rig.consumer(), rig.consumer().leases())
    assert waited is not None
    assert waited // MINUTE == 60


def test_the_shards_that_were_read_longest_ago_are_asked(tmp_path: Path) -> None:
    """Only a few are asked: these, wherever their names stand."""
    rig = Rig(tmp_path / "staging", stream=ScriptedStream(shards=PEEKED_SHARDS + 2))
    *others, last = rig.stream.shards
    rig.stream.put("a", shard_id=last)
    rig.run("r0")
    rig.stream.now_ms += 50 * MINUTE
    for name in others:
        rig.stream.put("a", shard_id=name)
    rig.run("r1")
    rig.stream.put("b", shard_id=last)
    rig.stream.now_ms += 50 * MINUTE
    for name in others:
        rig.stream.put("b", shard_id=name)
    rig.time.ms = rig.stream.now_ms
    waited = waiting_ms(rig.consumer(), rig.consumer().leases())
    assert waited is not None
    assert waited // MINUTE == 50


def test_of_batches_whose_runs_are_gone_the_oldest_comes_first(tmp_path: Path) -> None:
    minute = ClaimOptions(lease_duration=timedelta(seconds=60), max_shards=1)
    rig = Rig(tmp_path / "staging", stream=ScriptedStream(shards=3), options={"options": minute})
    for shard in rig.stream.shards:
        rig.stream.put("a", shard_id=shard)
    frozen = []
    for name in ("r1", "r2", "r3"):
        rig.land(name, rig.claim(name))
        frozen.append(rig.freeze(name).batch_id)
        rig.time.ms += MINUTE
    for name in ("r1", "r2", "r3"):
        rig.verdicts[str(rig.owner(name))] = Verdict.GONE
    application = rig.consumer().application()
    assert application is not None
    batches = list(reversed(rig.batches(BatchState.FROZEN)))
    found = abandoned(rig.consumer(), batches, application, all_of_them=True)
    assert [batch.batch_id for batch in found] == frozen


@pytest.mark.parametrize("ahead_hours", [0, 300])
def test_what_a_deleted_run_holds_is_taken_beside_other_work_whatever_its_clock_was(
    tmp_path: Path, ahead_hours: int
) -> None:
    """A row from the future looks young until that time has come, and other shards are there to take in every run."""
    rig = Rig(tmp_path / "staging", stream=ScriptedStream(shards=2))
    rig.run("r0")
    now_ms = rig.time.ms
    rig.time.ms += ahead_hours * 60 * MINUTE
    claimed = rig.claim("r1", options=ClaimOptions(max_shards=1))
    assert claimed.shards == 1
    rig.time.ms = now_ms + 60 * MINUTE
    rig.verdicts[str(rig.owner("r1"))] = Verdict.GONE
    assert rig.claim("r2").shards == 2


@pytest.mark.parametrize("ahead_hours", [0, 300])
def test_a_batch_that_a_deleted_run_froze_is_adopted_whatever_its_clock_was(tmp_path: Path, ahead_hours: int) -> None:
    rig = Rig(tmp_path / "staging", stream=ScriptedStream(shards=2))
    rig.stream.put("a")
    now_ms = rig.time.ms
    rig.time.ms += ahead_hours * 60 * MINUTE
    rig.land("r1", rig.claim("r1"))
    frozen = rig.freeze("r1")
    rig.time.ms = now_ms + 60 * MINUTE
    rig.verdicts[str(rig.owner("r1"))] = Verdict.GONE
    assert rig.claim("r2").batch_id == frozen.batch_id
