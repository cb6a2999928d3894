# SPDX-License-Identifier: Apache-2.0
"""What a claim takes over of owners that nobody knows any more, what it leaves, and what it asks for."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shardbatch.core import batch as batches
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.policies import ClaimOptions, Policies
from shardbatch.core.ports import Verdict
from shardbatch.errors import BatchParked, LeaseLost, NothingFinished, OwnerUnknown
from shardbatch.run import Frozen, Outcome
from shardbatch.run.attempt import beat
from tests.support.mortal import Killed, MortalStore
from tests.support.one_by_one import OneByOne
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream

SHORT = ClaimOptions(lease_duration=timedelta(seconds=60))


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def stamped_and_deleted(rig: Rig) -> list[str]:
    """A run that died between its stamps and its batch row, and was deleted from Airflow then."""
    rig.stream = ScriptedStream(shards=2)
    sent = rig.stream.put(*"abcdef")
    rig.land("r1", rig.claim("r1"))
    with pytest.raises(Killed):
        rig.freeze("r1", store=MortalStore(rig.store, 1, applied=True))
    assert all(row.batch_id for row in rig.consumer().leases())
    assert rig.batches() == []
    rig.verdicts[str(rig.owner("r1"))] = Verdict.GONE
    return sent


def test_leases_that_a_deleted_run_stamped_without_a_batch_go_on(rig: Rig) -> None:
    sent = stamped_and_deleted(rig)
    began = rig.time.ms
    rig.run("r2", options=SHORT)
    assert rig.time.ms - began >= 60_000  # it may be another deployment's, and alive
    assert sorted(rig.committed(), key=int) == sent
    assert rig.sink() == sent


def test_a_deleted_run_that_stamped_and_lives_on_freezes_nothing_any_more(rig: Rig) -> None:
    sent = stamped_and_deleted(rig)
    found = rig.claim("r2", options=SHORT)
    assert rig.freeze("r1").batch_id is None  # its leases went to r2
    rig.land("r2", found)
    frozen = rig.freeze("r2")
    rig.work(frozen)
    rig.commit("r2", frozen)
    assert sorted(rig.committed(), key=int) == sent


def frozen_and_deleted(rig: Rig, shards: int) -> tuple[list[str], Frozen]:
    """A run that was deleted from Airflow after it had frozen a batch of one shard of these."""
    rig.stream = ScriptedStream(shards=shards)
    sent = rig.stream.put(*"abcdef")
    rig.land("r1", rig.claim("r1", options=replace(SHORT, max_shards=1)))
    rig.verdicts[str(rig.owner("r1"))] = Verdict.GONE
    return sent, rig.freeze("r1")


def test_the_batch_of_a_deleted_run_is_adopted_once_it_has_stood_still(rig: Rig) -> None:  # KV-15
    sent, frozen = frozen_and_deleted(rig, shards=1)
    began = rig.time.ms
    found = rig.claim("r3", options=SHORT)
    assert (found.outcome, found.batch_id) == (Outcome.ADOPTED, frozen.batch_id)
    assert rig.time.ms - began >= 60_000
    adopted = rig.freeze("r3", found.batch_id)
    rig.work(adopted)
    rig.commit("r3", adopted)
    assert rig.sink() == sent


def test_the_batch_of_a_deleted_run_that_looks_old_comes_before_new_records(rig: Rig) -> None:
    _, frozen = frozen_and_deleted(rig, shards=2)
    assert rig.claim("r2", options=SHORT).outcome is Outcome.LEASES
    rig.time.ms += 100_000
    found = rig.claim("r3", options=SHORT)
    assert (found.outcome, found.batch_id) == (Outcome.ADOPTED, frozen.batch_id)


def test_a_batch_of_a_run_that_nobody_knows_is_left_alone_while_it_shows_life(rig: Rig) -> None:  # KV-15
    _, frozen = frozen_and_deleted(rig, shards=1)  # the same id by mistake: the run is another Airflow's, and at work
    consumer = rig.consumer()

    def working(seconds: float) -> None:
        rig.time.sleep(seconds)
        beat(consumer, rig.owner("r1"), str(frozen.batch_id), frozen.attempt, "app-1 work")

    assert rig.claim("r3", options=SHORT, clock=replace(consumer.clock, sleep=working)).outcome is Outcome.HELD
    assert rig.batches(BatchState.FROZEN)[0].owner == str(rig.owner("r1"))


class Sleepy(OneByOne):
    """Sleeps before it creates a frozen batch, while another run claims."""

    def __init__(self, rig: Rig) -> None:
        self._rig, self.found = rig, None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rig.store, name)

    def create(self, row: Any) -> bool:
        if isinstance(row, Batch) and row.state is BatchState.FROZEN and self.found is None:
            self._rig.over("r1")  # Airflow says so, and it lives on
            self.found = self._rig.claim("r2")
        return bool(self._rig.store.create(row))


def test_a_freeze_that_wakes_after_its_batch_was_given_up_has_frozen_nothing(rig: Rig) -> None:  # V4
    rig.stream = ScriptedStream(shards=2)
    sent = rig.stream.put(*"abcdef")
    rig.land("r1", rig.claim("r1"))
    store: Any = Sleepy(rig)
    assert rig.freeze("r1", store=store).batch_id is None
    assert store.found.outcome is Outcome.LEASES
    rig.land("r2", store.found)
    frozen = rig.freeze("r2")
    rig.work(frozen)
    rig.commit("r2", frozen)
    assert sorted(rig.committed(), key=int) == sent
    assert [batch.batch_id for batch in rig.batches(BatchState.COMMITTED)] == [frozen.batch_id]


def test_a_void_stamp_of_a_deleted_run_goes(rig: Rig) -> None:
    sent = stamped_and_deleted(rig)
    (batch_id,) = {row.batch_id for row in rig.consumer().leases()}
    assert batch_id is not None
    assert rig.store.create(batches.void(rig.consumer().namespace, "", batch_id, 1, 1))
    rig.run("r2", options=SHORT)
    assert rig.sink() == sent


class Asked(OneByOne):
    """Counts the reads of single rows."""

    def __init__(self, store: Any) -> None:
        self._store, self.gets = store, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, key: Any) -> Any:
        self.gets += 1
        return self._store.get(key)


def test_a_batch_row_is_read_once_however_many_leases_carry_its_stamp(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=40)
    rig.stream.put("a", shard_id=next(iter(rig.stream.shards)))
    for shard_id in rig.stream.shards:
        rig.stream.put("b", shard_id=shard_id)
    rig.land("r1", rig.claim("r1"))
    rig.freeze("r1")
    asked = Asked(rig.store)
    assert rig.claim("r2", store=asked).outcome is Outcome.HELD
    assert asked.gets < 10


def test_a_run_whose_own_batch_is_parked_says_so_and_claims_nothing(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    first, second = rig.stream.shards
    rig.stream.put("a", shard_id=first)
    policies = Policies(max_attempts=1)
    rig.land("r1", rig.claim("r1", options=ClaimOptions(max_shards=1)))
    rig.freeze("r1")
    for _ in range(2):  # parked by this claim, and found parked by the next
        with pytest.raises(BatchParked, match="after 1 attempts"):
            rig.claim("r1", policies=policies)
    sent = rig.stream.put("b", shard_id=second)
    rig.run("r2", policies=policies)
    assert rig.committed() == sent


def test_a_replay_without_work_of_a_batch_that_was_set_aside_fails(rig: Rig) -> None:
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    frozen = rig.freeze("r1")
    rig.work(frozen)
    (batch,) = rig.batches(BatchState.FROZEN)
    assert rig.store.replace(batch, batches.set_aside(batch, "by hand", 1))
    replay = rig.freeze("r1")
    assert (replay.replay, replay.attempt) == (True, 2)
    with pytest.raises(NothingFinished, match="set aside"):
        rig.commit("r1", replay)
    rig.work(replay)
    assert rig.commit("r1", replay).replayed


def test_a_frozen_batch_tells_how_many_shards_it_has(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    for shard_id in rig.stream.shards:
        rig.stream.put("a", shard_id=shard_id)
    rig.land("r1", rig.claim("r1"))
    assert rig.freeze("r1").shards == 2
    assert rig.freeze("r1").shards == 2  # a further attempt


def test_a_claim_that_lost_every_race_does_not_say_that_nothing_is_new(rig: Rig) -> None:
    rig.stream.put("a")
    rig.run("r0")
    rig.stream.put("b")

    class Robbed(Asked):
        def replace(self, seen: Any, new: Any) -> bool:
            rig.claim("r2")
            return bool(self._store.replace(seen, new))

    found = rig.claim("r1", store=Robbed(rig.store))
    assert found.outcome is Outcome.HELD
    assert not any("Nothing new" in line for line in rig.said)


def test_a_task_that_a_run_left_behind_does_not_keep_the_batch_by_its_heartbeats(rig: Rig) -> None:
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    frozen = rig.freeze("r1")
    rig.verdicts[str(rig.owner("r1"))] = Verdict.OVER
    left_behind = rig.consumer()

    class Beaten(Asked):
        beats = 2

        def replace(self, seen: Any, new: Any) -> bool:
            if isinstance(seen, Batch) and self.beats:
                self.beats -= 1
                beat(left_behind, rig.owner("r1"), str(frozen.batch_id), 1, "app-1", "work")
            return bool(self._store.replace(seen, new))

    found = rig.claim("r2", store=Beaten(rig.store))
    assert (found.outcome, found.batch_id) == (Outcome.ADOPTED, frozen.batch_id)
    with pytest.raises(LeaseLost):
        beat(left_behind, rig.owner("r1"), str(frozen.batch_id), 1, "app-1", "work")


def test_a_batch_that_another_run_adopted_first_is_that_runs(rig: Rig) -> None:
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    rig.freeze("r1")
    rig.verdicts[str(rig.owner("r1"))] = Verdict.OVER

    class Outrun(Asked):
        def replace(self, seen: Any, new: Any) -> bool:
            if isinstance(seen, Batch) and rig.batches()[0].owner == seen.owner:
                assert rig.claim("r3").outcome is Outcome.ADOPTED
            return bool(self._store.replace(seen, new))

    assert rig.claim("r2", store=Outrun(rig.store)).outcome is Outcome.HELD
    assert rig.batches()[0].owner == str(rig.owner("r3"))


def test_an_owner_of_whom_nobody_can_say_whether_it_is_over_keeps_its_shards_and_stops_no_others(rig: Rig) -> None:
    """One DAG that the worker may not ask for, say: its shards stay with it, and the rest goes on."""
    rig.stream = ScriptedStream(shards=2)
    sent = rig.stream.put(*"abcdef")
    rig.claim("r1", options=ClaimOptions(max_shards=1))

    def silent(owner: str) -> Verdict:
        if owner == str(rig.owner("r1")):
            raise OwnerUnknown("Airflow gives no answer")
        return rig.verdict(owner)

    rig.run("r2", liveness=silent)
    assert 0 < len(rig.committed()) < len(sent)
    assert any("keeps its leases and batches" in line for line in rig.said)
    found = rig.claim("r3", liveness=silent)
    assert found.shards == 1
    with pytest.raises(OwnerUnknown):  # where there is nothing else, it is no idle run but one to be tried again
        rig.claim("r4", liveness=silent)
    rig.over("r1")
    rig.over("r3")
    rig.run("r5")
    assert sorted(rig.committed(), key=int) == sent
