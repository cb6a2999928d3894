# SPDX-License-Identifier: Apache-2.0
"""Freeze: landed slices become one batch with a manifest, and each call after it opens another attempt."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardbatch.core import batch as batches
from shardbatch.core.batch import BatchState
from shardbatch.core.manifest import Manifest, digest
from shardbatch.core.policies import GapPolicy, Policies
from shardbatch.errors import BatchParked, LeaseLost
from shardbatch.run import Claim, Frozen, beat, freeze
from tests.support.passing import later, only
from tests.support.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


@pytest.fixture
def landed(rig: Rig) -> Claim:
    rig.stream.put("a", "b")
    found = rig.claim("r1")
    rig.land("r1", found)
    return found


def test_the_answer_the_row_and_the_manifest_say_the_same(rig: Rig, landed: Claim) -> None:
    frozen = rig.freeze("r1")
    (batch,) = rig.batches()
    assert (batch.state, batch.owner, batch.attempt) == (BatchState.FROZEN, str(rig.owner("r1")), 1)
    assert (frozen.batch_id, frozen.attempt, frozen.replay) == (batch.batch_id, 1, False)
    assert frozen.record_count == batch.records == 2
    assert only(rig).batch_id == batch.batch_id
    content = (rig.folder / "etl" / "orders" / "batches" / batch.batch_id / "manifest.json").read_bytes()
    assert digest(content) == frozen.manifest_digest == batch.manifest_digest
    assert Manifest.loads(content).totals.records == 2


def test_a_second_call_opens_the_next_attempt_of_the_same_batch(rig: Rig, landed: Claim) -> None:
    first = rig.freeze("r1")
    second = rig.freeze("r1")
    assert (second.batch_id, second.attempt, second.manifest_digest) == (first.batch_id, 2, first.manifest_digest)
    assert len(rig.batches()) == 1


def test_a_committed_batch_is_opened_as_a_replay_only_if_something_follows(rig: Rig, landed: Claim) -> None:
    first = rig.freeze("r1")
    rig.work(first)
    rig.commit("r1", first)

    def refuse(batch: batches.Batch) -> None:
        raise LeaseLost(f"Nothing follows {batch.batch_id}.")

    with pytest.raises(LeaseLost, match="Nothing follows"):
        freeze(rig.consumer(), rig.owner("r1"), first.batch_id, may_replay=refuse)
    again = rig.freeze("r1", first.batch_id)
    assert (again.batch_id, again.attempt, again.replay) == (first.batch_id, 2, True)


def test_where_nothing_was_landed_there_is_no_batch(rig: Rig) -> None:
    found = rig.claim("r1")
    rig.land("r1", found)
    assert rig.freeze("r1", found.batch_id) == Frozen()
    assert rig.batches() == []


def test_a_slice_with_a_gap_waits_and_goes_along_once_the_policy_says_so(rig: Rig, landed: Claim) -> None:
    first = rig.freeze("r1")
    rig.work(first)
    rig.commit("r1", first)
    rig.over("r1")
    rig.stream.put("c")
    later(rig, 48)
    rig.stream.put("d")
    found = rig.claim("r2")
    rig.land("r2", found)
    assert rig.freeze("r2") == Frozen(waiting=(only(rig).shard_id,))
    frozen = rig.freeze("r2", policies=Policies(gap=GapPolicy.RECORD))
    assert (frozen.record_count, frozen.gaps, frozen.waiting) == (1, 1, ())


def test_a_batch_that_went_to_another_run_or_waits_for_a_person_is_refused(rig: Rig, landed: Claim) -> None:
    frozen = freeze(rig.consumer(), rig.owner("r1"), claim="c1")
    (row,) = rig.batches()
    assert row.claims == ("c1",)
    adopted = batches.adopt(row, str(rig.owner("r2")))
    assert rig.store.replace(row, adopted)
    with pytest.raises(LeaseLost, match="r2"):
        rig.freeze("r1", frozen.batch_id)
    with pytest.raises(LeaseLost, match="r2"):
        freeze(rig.consumer(), rig.owner("r1"), claim="c1")  # frozen behind this claim, and gone since
    assert rig.store.replace(adopted, batches.park(adopted, "by ann"))
    with pytest.raises(BatchParked):
        rig.freeze("r2")


def test_an_attempt_that_is_known_to_have_ended_is_not_waited_for(rig: Rig, landed: Claim) -> None:
    frozen = rig.freeze("r1")
    assert frozen.batch_id is not None
    beat(rig.consumer(), rig.owner("r1"), frozen.batch_id, 1, "local-1")
    before = rig.time.ms
    asked: list[int] = []

    def ended(batch: batches.Batch) -> bool:
        asked.append(batch.attempt)
        return True

    assert freeze(rig.consumer(), rig.owner("r1"), ended=ended).attempt == 2
    assert asked == [1]
    assert rig.time.ms - before < 1_000
