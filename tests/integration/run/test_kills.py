# SPDX-License-Identifier: Apache-2.0
"""A run that dies at any of its writes: whoever goes on, every record is in the sink once."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardbatch.core.batch import BatchState
from shardbatch.core.position import SHARD_END
from tests.support.mortal import Killed, MortalStore
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream

#: As many writes as the run below makes, and a few more: the last cases are a run that nobody kills.
WRITES = 30


def resharded(folder: Path) -> tuple[Rig, list[str]]:
    rig = Rig(folder)
    rig.stream = ScriptedStream(shards=2)
    left, right = rig.stream.shards
    sent = rig.stream.put(*"abcdef")
    rig.stream.split(left)
    sent += rig.stream.put(*"ghijkl")
    rig.stream.merge(right, "shardId-000000000003")
    return rig, sent + rig.stream.put(*"mnopqr")


def killed_run(rig: Rig, run: str, at: int, applied: bool) -> bool:
    mortal = MortalStore(rig.store, at, applied=applied)
    try:
        rig.run(run, store=mortal)
    except Killed:
        return True
    return False


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("clear", [False, True], ids=["next run", "cleared"])
@pytest.mark.parametrize("at", range(WRITES))
def test_every_record_is_in_the_sink_once_whoever_goes_on(tmp_path: Path, at: int, clear: bool, applied: bool) -> None:
    rig, sent = resharded(tmp_path / "staging")
    killed_run(rig, "r0", at, applied)
    if clear:
        rig.run("r0")
    rig.over("r0")
    for number in range(1, 5):
        rig.run(f"r{number}")
    assert rig.sink() == sent
    assert sorted(rig.committed(), key=int) == sent
    for row in rig.consumer().leases():
        assert row.lease_owner is None
        assert row.pending is None
        assert row.completed == (row.checkpoint == SHARD_END)
    assert not rig.batches(BatchState.FROZEN)


def test_the_cases_reach_from_the_first_write_to_the_last(tmp_path: Path) -> None:
    first, _ = resharded(tmp_path / "first")
    assert killed_run(first, "r0", 0, applied=False)
    last, _ = resharded(tmp_path / "last")
    assert not killed_run(last, "r0", WRITES + 40, applied=False)


def test_a_parent_is_never_committed_after_its_child(tmp_path: Path) -> None:
    for at in range(WRITES):
        rig, _ = resharded(tmp_path / str(at))
        killed_run(rig, "r0", at, applied=True)
        rig.over("r0")
        seen: set[str] = set()
        for number in range(1, 5):
            rig.run(f"r{number}")
            done = {row.shard_id for row in rig.consumer().leases() if row.completed}
            moved = {row.shard_id for row in rig.consumer().leases() if row.checkpoint.exact}
            for row in rig.consumer().leases():
                if row.shard_id in moved:
                    assert set(row.parent_shard_ids) <= done
            seen |= done
        assert len(seen) == 3
