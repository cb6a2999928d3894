# SPDX-License-Identifier: Apache-2.0
"""What a claim finds for its run: each outcome once, in the order in which they come."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardbatch.core.batch import BatchState, heartbeat, park, unpark
from shardbatch.core.policies import Policies
from shardbatch.core.ports import Verdict
from shardbatch.core.rows import BATCH
from shardbatch.errors import BatchParked, OwnerUnknown, Starving
from shardbatch.run import Claim, Frozen, Outcome
from tests.support.passing import later
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import Interrupted


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging", ScriptedStream(shards=2))


def frozen(rig: Rig, run: str = "r1") -> Frozen:
    """A run that has frozen its batch, and died."""
    rig.stream.put("a", "b", "c")
    found = rig.claim(run)
    rig.land(run, found)
    return rig.freeze(run, found.batch_id)


def test_shards_that_nobody_has_are_taken_and_spread_over_read_groups(rig: Rig) -> None:
    found = rig.claim("r1")
    assert (found.outcome, found.shards, found.batch_id) == (Outcome.LEASES, 2, None)
    rows = rig.consumer().leases(lease_owner=str(rig.owner("r1")))
    assert len(rows) == 2
    assert {row.read_group for row in rows} == {group.group for group in found.groups}


def test_the_batch_that_this_run_froze_comes_before_anything_new(rig: Rig) -> None:
    batch = frozen(rig)
    rig.stream.put("d")
    assert rig.claim("r1") == Claim(Outcome.OWN_BATCH, batch_id=batch.batch_id)


def test_the_batch_that_this_run_committed_is_replayed(rig: Rig) -> None:
    batch = frozen(rig)
    rig.work(batch)
    rig.commit("r1", batch)
    assert rig.claim("r1") == Claim(Outcome.REPLAY, batch_id=batch.batch_id)


def test_a_frozen_batch_of_a_run_that_is_over_is_adopted(rig: Rig) -> None:
    batch = frozen(rig)
    assert batch.batch_id is not None
    assert rig.claim("r2").outcome is Outcome.HELD
    rig.over("r1")
    assert rig.claim("r2") == Claim(Outcome.ADOPTED, batch_id=batch.batch_id)
    row = rig.consumer().batch(batch.batch_id)
    assert row is not None
    assert row.owner == str(rig.owner("r2"))


def test_a_batch_that_waits_for_a_person_is_told_to_its_own_run_only(rig: Rig) -> None:
    batch = frozen(rig)
    (row,) = rig.batches()
    assert rig.store.replace(row, park(row, "by ann: bad data"))
    with pytest.raises(BatchParked, match=f"{batch.batch_id} .*by ann: bad data"):
        rig.claim("r1")
    rig.over("r1")
    assert rig.claim("r2").outcome is Outcome.HELD


@pytest.mark.parametrize("verdict", [Verdict.OVER, Verdict.GONE])
def test_a_batch_that_failed_too_often_is_parked_and_not_adopted(rig: Rig, verdict: Verdict) -> None:
    frozen(rig)
    rig.verdicts[str(rig.owner("r1"))] = verdict
    assert rig.claim("r2", policies=Policies(max_attempts=1)).outcome is Outcome.HELD
    (row,) = rig.batches()
    assert (row.state, row.owner) == (BatchState.PARKED, str(rig.owner("r1")))
    assert "parked by policy after 1 attempts" in (row.note or "")


@pytest.mark.parametrize("owner", ["r1", "r2"])
def test_a_sign_of_life_at_that_moment_does_not_keep_a_batch_from_being_parked(rig: Rig, owner: str) -> None:
    frozen(rig)
    rig.over("r1")

    def lives() -> None:
        (row,) = rig.batches()
        assert rig.store.replace(row, heartbeat(row, rig.time.now_ms(), None))

    store = Interrupted(rig.store, BATCH, lives)
    policies = Policies(max_attempts=1)
    if owner == "r1":
        with pytest.raises(BatchParked, match="parked by policy after 1 attempts"):
            rig.claim(owner, store=store, policies=policies)
    else:
        assert rig.claim(owner, store=store, policies=policies).outcome is Outcome.HELD
    (row,) = rig.batches()
    assert row.state is BatchState.PARKED


def test_a_batch_that_a_person_resumes_at_that_moment_is_worked_on(rig: Rig) -> None:
    batch = frozen(rig)
    rig.over("r1")

    def resumed() -> None:
        (row,) = rig.batches()
        parked = park(row, "by ann")
        assert rig.store.replace(row, parked)
        assert rig.store.replace(parked, unpark(parked, "by ann"))

    store = Interrupted(rig.store, BATCH, resumed)
    found = rig.claim("r2", store=store, policies=Policies(max_attempts=1))
    assert found == Claim(Outcome.ADOPTED, batch_id=batch.batch_id)


def test_a_batch_of_this_run_that_is_decided_at_that_moment_is_replayed(rig: Rig) -> None:
    batch = frozen(rig)
    rig.work(batch)
    store = Interrupted(rig.store, BATCH, lambda: rig.commit("r1", batch))
    found = rig.claim("r1", store=store, policies=Policies(max_attempts=1))
    assert found == Claim(Outcome.REPLAY, batch_id=batch.batch_id)


def test_of_many_shards_that_others_have_the_log_says_how_many_it_does_not_name(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=25)
    rig.claim("r1")
    rig.claim("r2")
    held = [line for line in rig.said if line.startswith("Held: ")]
    assert (len(held), held[-1]) == (21, "Held: 5 more shards.")
    assert rig.said[-1].startswith("Nothing was read: others hold 25 shards: ")


def test_what_others_have_is_named_with_its_owner(rig: Rig) -> None:
    rig.claim("r1")
    found = rig.claim("r2")
    assert (found.outcome, len(found.held)) == (Outcome.HELD, 2)
    assert all("r1" in line for line in found.held)


def test_with_every_shard_read_to_its_end_there_is_nothing(rig: Rig) -> None:
    for shard in rig.stream.shards.values():
        shard.closed = True
    rig.run("r1")
    assert rig.claim("r2").outcome is Outcome.NOTHING


def test_records_that_wait_too_long_for_what_others_hold_fail_the_run(rig: Rig) -> None:
    frozen(rig)
    later(rig, 2)
    with pytest.raises(Starving, match=r"All 2 open shards .* held by others"):
        rig.claim("r2")


def test_an_owner_of_whom_nobody_can_say_fails_a_claim_that_takes_nothing(rig: Rig) -> None:
    rig.claim("r1")

    def liveness(owner: str) -> Verdict:
        raise OwnerUnknown("Airflow does not answer.")

    with pytest.raises(OwnerUnknown):
        rig.claim("r2", liveness=liveness)


def test_a_run_that_is_told_a_batch_takes_no_lease(rig: Rig) -> None:
    batch = frozen(rig)
    rig.work(batch)
    rig.commit("r1", batch)
    rig.over("r1")
    assert rig.claim("r2", replay=batch.batch_id) == Claim(Outcome.REPLAY, batch_id=batch.batch_id)
    assert rig.consumer().leases(lease_owner=str(rig.owner("r2"))) == []
