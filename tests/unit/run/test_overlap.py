# SPDX-License-Identifier: Apache-2.0
"""Runs that overlap: tries of one run, rivals that are told wrongly who is over, and workers whose clocks differ."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shardbatch.core import lease as leases
from shardbatch.core.batch import BatchState
from shardbatch.core.interval import Interval
from shardbatch.core.lease import Lease
from shardbatch.core.limits import ReadLimits
from shardbatch.core.policies import ClaimOptions, GapPolicy, Policies, ShardErrors
from shardbatch.core.ports import Clock, Verdict
from shardbatch.errors import ConfigurationError, LeaseLost, NothingFinished, ShardbatchError, SourceError, StoreError
from shardbatch.run import Claim, Frozen, Outcome, claim
from tests.support.mortal import Killed, MortalStore
from tests.support.one_by_one import OneByOne
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream

MINUTES_2 = 120_000
HOUR = 3_600_000
MINUTE = ClaimOptions(lease_duration=timedelta(seconds=60))


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging", stream=ScriptedStream(shards=2))


class Steps:
    """One process that takes the steps of a run one by one; an error ends it, as it would end its task."""

    def __init__(self, rig: Rig, run: str, name: str) -> None:
        self.rig, self.run, self.name = rig, run, name
        self.claimed = Claim(Outcome.NOTHING)
        self.frozen = Frozen()
        self.error: ShardbatchError | None = None
        self.todo: list[Callable[[], Any]] = [self.claim, self.land, self.freeze, self.commit]

    def claim(self) -> None:
        self.claimed = self.rig.claim(self.run)

    def land(self) -> None:
        self.rig.land(self.run, self.claimed)

    def freeze(self) -> None:
        if self.claimed.outcome not in (Outcome.NOTHING, Outcome.HELD):
            self.frozen = self.rig.freeze(self.run, self.claimed.batch_id)

    def commit(self) -> None:
        if self.frozen.record_count:
            self.rig.work(self.frozen, start_id=f"{self.name}-{self.frozen.attempt}")
        self.rig.commit(self.run, self.frozen)

    def step(self) -> None:
        todo = self.todo.pop(0)
        if self.error is None:
            try:
                todo()
            except ShardbatchError as error:
                self.error = error


#: All ways in which two processes of four steps may take turns; every fifth in the usual run of the tests.
TURNS = ["".join("A" if turn in chosen else "B" for turn in range(8)) for chosen in itertools.combinations(range(8), 4)]
each_way = pytest.mark.parametrize(
    "turns", [pytest.param(turns, marks=pytest.mark.long if at % 5 else ()) for at, turns in enumerate(TURNS)]
)


def drained(rig: Rig) -> None:
    """A few healthy runs leave nothing."""
    for number in range(3):
        rig.run(f"healthy{number}")
    assert not rig.batches(BatchState.FROZEN)
    assert all(row.lease_owner is None and row.pending is None for row in rig.consumer().leases())


@each_way
def test_two_deployments_of_one_id_that_have_the_same_run_lose_and_double_nothing(rig: Rig, turns: str) -> None:
    # Their owners are the same text: each finds the leases of the other to be its own.
    sent = rig.stream.put(*"abcdef")
    both = {name: Steps(rig, "r1", name) for name in "AB"}
    for name in turns:
        both[name].step()
    rig.over("r1")
    drained(rig)
    assert rig.sink() == sent
    assert sorted(rig.committed(), key=int) == sent


@each_way
def test_a_run_that_another_airflow_calls_over_while_it_works_loses_and_doubles_nothing(rig: Rig, turns: str) -> None:
    # The same id by mistake, and the other Airflow has a run of that name, which has ended.
    sent = rig.stream.put(*"abcdef")
    rig.over("r1")
    rig.over("r2")
    both = {"A": Steps(rig, "r1", "A"), "B": Steps(rig, "r2", "B")}
    for name in turns:
        both[name].step()
        for error in (both["A"].error, both["B"].error):
            assert error is None or isinstance(error, LeaseLost)
    drained(rig)
    assert rig.sink() == sent
    assert sorted(rig.committed(), key=int) == sent


def test_a_run_of_another_deployment_is_watched_and_its_frozen_batch_waits_for_a_person(rig: Rig) -> None:
    sent = rig.stream.put(*"abcdef")
    rig.land("r1", rig.claim("r1", options=ClaimOptions(max_shards=1)))
    frozen = rig.freeze("r1")
    rig.claim("r2", options=ClaimOptions(max_shards=1))
    for run in ("r1", "r2"):
        rig.verdicts[str(rig.owner(run))] = Verdict.FOREIGN
    began = rig.time.ms
    found = rig.claim("r3", options=MINUTE)
    assert (found.outcome, found.shards) == (Outcome.LEASES, 1)
    assert rig.time.ms - began >= 60_000
    rig.land("r3", found)
    second = rig.freeze("r3")
    rig.work(second)
    rig.commit("r3", second)
    assert rig.claim("r4", options=MINUTE).shards == 1  # nor does a claim that has something else to do take it
    rig.work(frozen)
    assert rig.commit("r1", frozen).newly  # it was alive all the while
    assert rig.sink() == sent


# ---------------------------------------------------------------------- robbed owners


def test_an_owner_whose_renewal_paused_lands_nothing_on_what_was_taken(rig: Rig) -> None:
    sent = rig.stream.put(*"abcdef")  # R57
    found = rig.claim("r1")
    rig.verdicts[str(rig.owner("r1"))] = Verdict.FOREIGN
    taken = rig.claim("r2", options=MINUTE)
    assert taken.shards == 2
    rig.land("r2", taken)
    with contextlib.suppress(LeaseLost):
        assert rig.land("r1", found)[0].shards == 0
    assert rig.freeze("r1").batch_id is None
    frozen = rig.freeze("r2")
    rig.work(frozen)
    rig.commit("r2", frozen)
    assert rig.sink() == sent


def test_the_output_of_an_owner_that_was_robbed_after_its_freeze_is_never_published(rig: Rig) -> None:
    sent = rig.stream.put(*"abcdef")  # R57
    rig.land("r1", rig.claim("r1"))
    frozen = rig.freeze("r1")
    rig.over("r1")  # or so Airflow says: a person marked it failed while its work runs on
    adopted = rig.freeze("r2", rig.claim("r2").batch_id)
    rig.work(frozen, start_id="of-the-robbed")
    with pytest.raises(LeaseLost, match="r2"):
        rig.commit("r1", frozen)
    rig.work(adopted, start_id="of-the-adopter")
    rig.commit("r2", adopted)
    (batch,) = rig.batches(BatchState.COMMITTED)
    assert [start.start_id for start in batch.starts] == ["of-the-adopter"]
    with pytest.raises(LeaseLost):
        rig.commit("r1", replace(frozen, attempt=3))
    assert rig.sink() == sent


# ---------------------------------------------------------------------- clocks


def skewed(rig: Rig, ms: int) -> Clock:
    """The clock of a worker that is so far ahead; only its wall clock differs."""
    clock = rig.time.clock()
    return replace(clock, now_ms=lambda: rig.time.now_ms() + ms)


@pytest.mark.parametrize("ahead", [MINUTES_2, -MINUTES_2], ids=["ahead", "behind"])
def test_a_claimer_whose_clock_differs_takes_no_lease_that_is_renewed(rig: Rig, ahead: int) -> None:
    rig.stream.put("a")  # R56
    rig.claim("r1")
    rig.verdicts[str(rig.owner("r1"))] = Verdict.FOREIGN

    def renewing(seconds: float) -> None:
        rig.time.sleep(seconds)
        for lease in rig.consumer().leases():
            assert rig.store.replace(lease, leases.renew(lease, str(rig.owner("r1")), rig.time.ms))

    clock = replace(skewed(rig, ahead), sleep=renewing)
    for number in range(3):
        assert rig.claim(f"rival{number}", options=MINUTE, clock=clock).outcome is Outcome.HELD
    assert {lease.lease_owner for lease in rig.consumer().leases()} == {str(rig.owner("r1"))}


@pytest.mark.parametrize("ahead", [MINUTES_2, -MINUTES_2], ids=["ahead", "behind"])
def test_a_claimer_whose_clock_differs_takes_a_dead_lease_after_the_same_time(rig: Rig, ahead: int) -> None:
    rig.stream.put("a")
    rig.claim("r1")
    rig.verdicts[str(rig.owner("r1"))] = Verdict.FOREIGN
    began = rig.time.ms
    assert rig.claim("r2", options=MINUTE, clock=skewed(rig, ahead)).outcome is Outcome.LEASES
    assert 60_000 <= rig.time.ms - began < 66_000


@pytest.mark.parametrize("at", range(16))
def test_runs_on_workers_two_minutes_apart_lose_and_double_nothing(rig: Rig, at: int) -> None:
    sent = rig.stream.put(*"abcdefgh")  # R101
    left = next(iter(rig.stream.shards))
    clocks = [skewed(rig, ms) for ms in (MINUTES_2, 0, -MINUTES_2)]
    options = ClaimOptions(max_shards=1)
    for number in range(9):
        store = MortalStore(rig.store, at, applied=bool(number % 2)) if number % 3 == 0 else rig.store
        try:
            rig.run(f"r{number}", clock=clocks[number % 3], options=options, store=store)
        except Killed:
            rig.over(f"r{number}")
        if number == 1:
            rig.stream.split(left)
            sent += rig.stream.put(*"ijklmnop")
    drained(rig)
    assert rig.sink() == sent
    assert sorted(rig.committed(), key=int) == sent


def test_a_gap_is_not_overlooked_by_a_worker_whose_clock_is_behind(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "staging")
    shard = next(iter(rig.stream.shards))
    rig.stream.put("a")
    rig.run("r1", clock=skewed(rig, MINUTES_2))  # it writes that it saw the tip two minutes later than it did
    rig.stream.put("b")
    rig.time.ms += int(rig.stream.retention.total_seconds() * 1000) + 60_000
    rig.stream.trim(shard, keep=0)
    rig.stream.put("c")
    answer = rig.run("r2", policies=Policies(gap=GapPolicy.RECORD))
    assert (answer.gaps, answer.records) == (1, 1)


@pytest.mark.parametrize(("ahead", "waits"), [(MINUTES_2, True), (HOUR, False)], ids=["two minutes", "an hour"])
def test_an_interval_ends_by_the_clock_of_the_stream(rig: Rig, ahead: int, waits: bool) -> None:
    rig.stream.put("a")
    rig.run("r1")
    clock = replace(rig.time.clock(), now_ms=lambda: rig.stream.now_ms + ahead)
    owner = replace(rig.owner("backfill"), mode="interval")
    span = Interval(rig.stream.now_ms - HOUR, rig.stream.now_ms + ahead)  # it has ended, says the worker
    consumer = rig.consumer(scope=owner.scope, interval=span, clock=clock)
    began = rig.time.ms
    if waits:
        assert claim(consumer, owner).outcome is Outcome.LEASES
        assert rig.time.ms - began >= ahead
    else:
        with pytest.raises(ConfigurationError, match="not over for another 3600 s"):
            claim(consumer, owner)


# ---------------------------------------------------------------------- what old consumers got wrong


def test_what_was_read_and_not_committed_is_in_the_next_runs_batch(rig: Rig) -> None:
    sent = rig.stream.put(*"abcdef")  # R52
    rig.land("r1", rig.claim("r1"))
    rig.over("r1")
    assert [str(row.checkpoint) for row in rig.consumer().leases()] == ["TRIM_HORIZON"] * 2
    assert rig.run("r2").records == 6
    assert rig.sink() == sent


def test_work_that_fails_moves_no_position(rig: Rig) -> None:
    sent = rig.stream.put(*"abcdef")  # R59
    rig.land("r1", rig.claim("r1"))
    frozen = rig.freeze("r1")
    with pytest.raises(NothingFinished):
        rig.commit("r1", frozen)
    assert [str(row.checkpoint) for row in rig.consumer().leases()] == ["TRIM_HORIZON"] * 2
    rig.over("r1")
    assert rig.run("r2").batch_id == frozen.batch_id
    assert rig.sink() == sent


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, 5))
def test_a_commit_that_dies_among_its_checkpoints_is_finished_by_its_retry(
    tmp_path: Path, at: int, applied: bool
) -> None:
    rig = Rig(tmp_path / "staging", stream=ScriptedStream(shards=3))  # R53: shard 2 of 3
    sent = [number for shard in rig.stream.shards for number in rig.stream.put("a", "b", shard_id=shard)]
    rig.land("r1", rig.claim("r1"))
    frozen = rig.freeze("r1")
    rig.work(frozen)
    died = False
    try:
        rig.commit("r1", frozen, store=MortalStore(rig.store, at, applied=applied))
    except Killed:
        died = True
    assert died == (at < 4)  # the decision, then one write for each shard
    rig.commit("r1", frozen)
    ends = {shard: str(items[-1].sequence_number) for shard, items in _items(rig).items()}
    assert {row.shard_id: row.checkpoint.sequence_number for row in rig.consumer().leases()} == ends
    assert rig.sink() == sorted(sent, key=int)


def _items(rig: Rig) -> dict[str, Any]:
    return {shard.shard_id: shard.items for shard in rig.stream.shards.values()}


def test_a_commit_that_wakes_late_does_not_put_an_older_position_back(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "staging")  # R53: 10 and 12
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    first = rig.freeze("r1")
    rig.work(first)

    class Asleep(OneByOne):
        """Its first write to a lease comes when another run has committed more."""

        late = True

        def __getattr__(self, name: str) -> Any:
            return getattr(rig.store, name)

        def replace(self, seen: Any, new: Any) -> bool:
            if isinstance(new, Lease) and self.late:
                self.late = False
                rig.over("r1")
                rig.stream.put("b")
                rig.run("r2")
            return rig.store.replace(seen, new)

    rig.commit("r1", first, store=Asleep())
    (lease,) = rig.consumer().leases()
    assert lease.checkpoint.sequence_number == "101"
    assert rig.sink() == ["100", "101"]


@pytest.mark.parametrize("at", range(12))
@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
def test_a_run_killed_between_a_parents_last_page_and_its_commit_loses_nothing_of_it(
    tmp_path: Path, at: int, applied: bool
) -> None:
    rig = Rig(tmp_path / "staging")  # R14
    parent = next(iter(rig.stream.shards))
    sent = rig.stream.put(*"abcde")
    rig.run("r0", limits=ReadLimits(records=2))
    rig.stream.split(parent)
    sent += rig.stream.put(*"fghij")
    try:
        rig.run("r1", store=MortalStore(rig.store, at, applied=applied))
    except Killed:
        rig.over("r1")
    for number in range(2, 5):
        rig.run(f"r{number}")
    assert rig.sink() == sent
    batches = [rig.records(batch.batch_id) for batch in rig.batches(BatchState.COMMITTED)]
    order = [number for batch in sorted(batches, key=lambda records: min(map(int, records))) for number in batch]
    assert [number for number in order if number in sent[:5]] == sent[:5]  # once, and in order
    assert all(sent.index(number) >= 5 for number in order[5:])  # children after


def test_a_claim_that_finds_another_shard_first_leaves_every_shard_its_own_slice(rig: Rig) -> None:
    first, second = rig.stream.shards  # R91: [a, b], then [z, a, b]
    rig.stream.put("a", "b", shard_id=first)
    rig.stream.put("c", "d", shard_id=second)
    options, strict = ClaimOptions(read_tasks=3), Policies(shard_errors=ShardErrors.FAIL)
    limits = ReadLimits(concurrency=1)
    found = rig.claim("r1", options=options, limits=limits)
    assert len(found.groups) == 2
    rig.stream.failing[second] = SourceError("broken")
    with pytest.raises(SourceError):
        rig.land("r1", found, policies=strict)
    landed = {row.shard_id: row.pending for row in rig.consumer().leases() if row.pending}
    assert set(landed) == {first}

    rig.stream.failing.clear()
    low, _ = rig.stream.split(second)
    rig.stream.shards[low].parents = ()  # a shard that stands first in the new claim, whatever its lineage
    rig.stream.put("z", shard_id=low)
    again = rig.claim("r1", options=options, limits=limits)
    assert len(again.groups) == 3
    rig.land("r1", replace(again, groups=tuple(reversed(again.groups))), policies=strict)
    slices = {row.shard_id: row.pending for row in rig.consumer().leases() if row.pending}
    assert slices[first] == landed[first]  # not read anew, and nobody else's
    assert {shard: piece.records for shard, piece in slices.items()} == {first: 2, second: 2, low: 1}
    frozen = rig.freeze("r1")
    rig.work(frozen)
    rig.commit("r1", frozen)
    assert rig.sink() == [str(number) for number in range(100, 105)]


def test_a_store_that_fails_once_among_the_checkpoints_leaves_the_rest_to_the_retry(rig: Rig) -> None:
    sent = rig.stream.put(*"abcdef")  # R53
    rig.land("r1", rig.claim("r1"))
    frozen = rig.freeze("r1")
    rig.work(frozen)

    class Failing(OneByOne):
        left = 1

        def __getattr__(self, name: str) -> Any:
            return getattr(rig.store, name)

        def replace(self, seen: Any, new: Any) -> bool:
            if isinstance(new, Lease):
                self.left -= 1
                if self.left < 0:
                    raise StoreError("The store does not answer.")
            return rig.store.replace(seen, new)

    with pytest.raises(StoreError):
        rig.commit("r1", frozen, store=Failing())
    assert sorted(row.batch_id is None for row in rig.consumer().leases()) == [False, True]
    rig.over("r1")
    drained(rig)
    assert rig.sink() == sent
