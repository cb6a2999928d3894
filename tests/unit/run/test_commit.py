# SPDX-License-Identifier: Apache-2.0
"""Commit: one decision for a batch, made once; what it moves and answers, and whom it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardbatch.core import batch as batches
from shardbatch.core.batch import BatchState
from shardbatch.errors import BatchParked, LeaseLost, NothingFinished
from shardbatch.run import Committed, Frozen
from tests.support.passing import only
from tests.support.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


@pytest.fixture
def frozen(rig: Rig) -> Frozen:
    rig.stream.put("a", "b")
    found = rig.claim("r1")
    rig.land("r1", found)
    return rig.freeze("r1", found.batch_id)


def test_it_decides_tells_the_root_and_moves_the_checkpoint(rig: Rig, frozen: Frozen) -> None:
    start = rig.work(frozen)
    done = rig.commit("r1", frozen)
    assert (done.newly, done.replayed, done.decided, done.records, done.shards) == (True, False, 1, 2, 1)
    (batch,) = rig.batches(BatchState.COMMITTED)
    assert (batch.batch_id, batch.committed_at_ms is not None) == (frozen.batch_id, True)
    assert rig.starts_read() == [start]
    lease = only(rig)
    assert done.positions == {lease.shard_id: str(lease.checkpoint)}
    assert (lease.pending, lease.batch_id, lease.lease_owner) == (None, None, None)


def test_a_second_try_finds_it_done_and_changes_nothing(rig: Rig, frozen: Frozen) -> None:
    rig.work(frozen)
    rig.commit("r1", frozen)
    (before,) = rig.batches()
    again = rig.commit("r1", frozen)
    assert (again.newly, again.replayed, again.batch_id) == (False, False, frozen.batch_id)
    assert rig.batches() == [before]


def test_without_finished_work_nothing_changes(rig: Rig, frozen: Frozen) -> None:
    before = [*rig.batches(), *rig.consumer().leases()]
    with pytest.raises(NothingFinished):
        rig.commit("r1", frozen)
    assert [*rig.batches(), *rig.consumer().leases()] == before
    assert rig.decisions() == {}


def test_a_later_attempt_is_recorded_as_a_replay_and_moves_nothing(rig: Rig, frozen: Frozen) -> None:
    rig.work(frozen)
    rig.commit("r1", frozen)
    lease = only(rig)
    again = rig.freeze("r1", frozen.batch_id)
    assert (again.replay, again.attempt) == (True, 2)
    start = rig.work(again)
    done = rig.commit("r1", again)
    assert (done.newly, done.replayed, done.decided, done.shards) == (False, True, 2, 0)
    assert rig.starts_read() == [start]
    assert only(rig) == lease


def test_a_run_without_a_batch_gives_back_what_it_holds_and_says_that_nothing_was_new(rig: Rig) -> None:
    rig.claim("r1")
    assert rig.commit("r1", Frozen()) == Committed()
    assert only(rig).lease_owner is None
    assert rig.said[-1] == Committed().summary
    assert rig.said[-1].startswith("Nothing new: no shard had records or a gap to tell")


def test_the_last_line_says_in_one_line_what_the_run_came_to(rig: Rig) -> None:
    rig.stream.put("a")
    rig.stream.now_ms += 90_000
    rig.stream.put("b", "c")
    found = rig.claim("r1")
    rig.land("r1", found)
    frozen = rig.freeze("r1", found.batch_id)
    batch_id = frozen.batch_id
    rig.work(frozen)
    done = rig.commit("r1", frozen)
    what = "3 records that arrived 2027-01-15T08:00:00Z/2027-01-15T08:01:30Z, 0 gaps"
    assert done.summary == f"Committed batch {batch_id}: {what}; 1 checkpoints moved, 0 shards completed."
    assert rig.said[-1] == done.summary
    again = rig.commit("r1", frozen)
    assert again.summary == f"Batch {batch_id} was committed before: {what}; nothing was left to do."
    assert rig.said[-1] == again.summary
    replay = rig.freeze("r1", batch_id)
    rig.work(replay)
    third = rig.commit("r1", replay)
    assert third.summary == f"Recorded attempt 2 of batch {batch_id}: {what}; a replay, no checkpoint moves."
    assert rig.said[-1] == third.summary


def test_the_line_counts_gaps_and_what_was_dropped() -> None:
    told = Committed("b1", newly=True, records=5, gaps=2, dropped=1, shards=3, completed=1)
    assert told.summary == (
        "Committed batch b1: 5 records, 2 gaps, 1 dropped; 3 checkpoints moved, 1 shards completed."
    )


def test_the_batch_of_another_run_and_one_that_waits_or_was_given_up_are_refused(rig: Rig, frozen: Frozen) -> None:
    rig.work(frozen)
    with pytest.raises(LeaseLost, match="belongs to"):
        rig.commit("r2", frozen)
    (row,) = rig.batches()
    parked = batches.park(row, "by ann: bad data")
    assert rig.store.replace(row, parked)
    with pytest.raises(BatchParked, match="bad data"):
        rig.commit("r1", frozen)
    assert rig.store.replace(parked, batches.discard(parked, "by ann"))
    with pytest.raises(LeaseLost, match="given up"):
        rig.commit("r1", frozen)
    assert rig.decisions() == {}
