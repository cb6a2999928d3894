# SPDX-License-Identifier: Apache-2.0
"""Several groups, DAGs and deployments on one application: who is let in, and how long a silent one is believed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shardbatch.core import lease as leases
from shardbatch.core.application import Application
from shardbatch.core.lease import Lease
from shardbatch.core.owner import Owner
from shardbatch.core.policies import ClaimOptions
from shardbatch.core.ports import Verdict
from shardbatch.core.rows import APPLICATION
from shardbatch.errors import ApplicationTaken
from shardbatch.run import Claim, Outcome, claim
from tests.support.one_by_one import OneByOne
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    rig = Rig(tmp_path / "staging", stream=ScriptedStream(shards=2))
    rig.stream.put(*"abcdef")
    return rig


def claimed(rig: Rig, owner: Owner, **options: Any) -> Claim:
    return claim(rig.consumer(deployment=owner.deployment, options=ClaimOptions(**options)), owner)


def row(rig: Rig) -> Application:
    (found,) = rig.store.list(APPLICATION, rig.consumer().namespace)
    assert isinstance(found, Application)
    return found


COPY = Owner("here", "copied_dag", "r1", "orders")
TWIN = Owner("here", "dag", "r1", "orders_again")


@pytest.mark.parametrize("second", [COPY, TWIN], ids=["another DAG", "another group"])
def test_a_second_group_of_an_application_is_refused_and_both_are_named(rig: Rig, second: Owner) -> None:
    rig.run("r1")
    before = rig.consumer().leases(), row(rig)
    with pytest.raises(ApplicationTaken) as error:
        claimed(rig, second)
    for name in ("'dag'", "'orders'", repr(second.dag_id), repr(second.group_id), "shared=True", "app_name"):
        assert name in str(error.value)
    assert not error.value.retryable
    assert (rig.consumer().leases(), row(rig)) == before


def test_a_group_that_shares_divides_the_shards_with_the_other(rig: Rig) -> None:
    first = rig.claim("r1", options=ClaimOptions(max_shards=1))
    second = claimed(rig, COPY, max_shards=1, shared=True)
    assert (first.shards, second.shards) == (1, 1)
    assert {lease.lease_owner for lease in rig.consumer().leases()} == {str(rig.owner("r1")), str(COPY)}
    # Both are known from now on, and neither has to say it again.
    assert rig.claim("r2").outcome is Outcome.HELD
    assert claimed(rig, replace(COPY, run_id="r2")).outcome is Outcome.HELD


def test_a_dag_of_the_same_name_in_another_deployment_is_no_stranger(rig: Rig) -> None:
    rig.run("r1")
    rig.stream.put("g")
    assert claimed(rig, replace(rig.owner("r2"), deployment="there")).outcome is Outcome.LEASES
    assert row(rig).deployments == ("here", "there")


def test_an_interval_run_of_another_dag_takes_no_part_and_is_let_in(rig: Rig) -> None:
    from shardbatch.core.interval import Interval

    rig.run("r1")
    before = row(rig)
    owner = replace(COPY, mode="interval")
    span = Interval(rig.stream.now_ms - 1000, rig.stream.now_ms + 1)
    found = claim(rig.consumer(scope=owner.scope, interval=span), owner)
    assert found.outcome is Outcome.LEASES
    assert row(rig) == before


def test_rows_that_no_group_has_signed_let_the_next_one_in(rig: Rig) -> None:
    rig.run("r1")
    unsigned = replace(row(rig), claimed_by=(), row_count=row(rig).row_count + 1)  # as the version before wrote it
    assert rig.store.replace(row(rig), unsigned)
    rig.stream.put("g")
    assert claimed(rig, COPY).outcome is Outcome.LEASES
    with pytest.raises(ApplicationTaken):
        rig.claim("r2")


def test_two_groups_that_claim_first_at_once_are_told_apart(rig: Rig) -> None:
    store = rig.store

    class Beaten(OneByOne):
        """Another group's claim comes between this one's look and its write."""

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def create(self, new: Any) -> bool:
            if isinstance(new, Application):
                rig.claim("r1")
            return store.create(new)

    consumer = rig.consumer(store=Beaten())
    with pytest.raises(ApplicationTaken):
        claim(consumer, COPY)


def test_a_claim_that_was_beaten_to_its_shard_takes_another(rig: Rig) -> None:
    store = rig.store

    class Beaten(OneByOne):
        """Another run claims just before this one's first write to a lease."""

        late = True

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def replace(self, seen: Any, new: Any) -> bool:
            if isinstance(new, Lease) and self.late:
                self.late = False
                rig.claim("r2", options=ClaimOptions(max_shards=1))
            return store.replace(seen, new)

    found = rig.claim("r1", options=ClaimOptions(max_shards=1), store=Beaten())
    assert (found.outcome, found.shards) == (Outcome.LEASES, 1)
    assert {lease.lease_owner for lease in rig.consumer().leases()} == {str(rig.owner("r1")), str(rig.owner("r2"))}


THERE = Owner("there", "dag", "r1", "orders")


def held_there(rig: Rig, **options: Any) -> None:
    """All leases are another deployment's, whose DAG has its own idea of a lease's duration."""
    assert claimed(rig, THERE, **options).outcome is Outcome.LEASES
    rig.verdicts[str(THERE)] = Verdict.FOREIGN


def test_a_rival_of_a_shorter_lease_duration_gets_nothing_of_an_owner_that_renews_as_it_said(rig: Rig) -> None:
    held_there(rig, lease_duration=timedelta(seconds=300))
    silent = [0.0]

    def renewing(seconds: float) -> None:
        rig.time.sleep(seconds)
        silent[0] += seconds
        if silent[0] >= 100:  # a third of 300 s
            silent[0] = 0
            for lease in rig.consumer().leases():
                assert rig.store.replace(lease, leases.renew(lease, str(THERE), rig.time.ms))

    for number in range(4):
        clock = replace(rig.time.clock(), sleep=renewing)
        short = ClaimOptions(lease_duration=timedelta(seconds=5))
        assert rig.claim(f"r{number}", options=short, clock=clock).outcome is Outcome.HELD
    assert {lease.lease_owner for lease in rig.consumer().leases()} == {str(THERE)}


@pytest.mark.parametrize(("theirs", "mine", "waited"), [(300, 5, 300), (5, 60, 60)])
def test_the_longer_of_both_durations_counts(rig: Rig, theirs: int, mine: int, waited: int) -> None:
    held_there(rig, lease_duration=timedelta(seconds=theirs))
    began = rig.time.ms
    found = rig.claim("r1", options=ClaimOptions(lease_duration=timedelta(seconds=mine)))
    assert (found.outcome, found.shards) == (Outcome.LEASES, 2)
    assert waited * 1000 <= rig.time.ms - began < waited * 1100


def test_each_lease_is_watched_for_as_long_as_its_own_owner_said(rig: Rig) -> None:
    held_there(rig, lease_duration=timedelta(seconds=300), max_shards=1)
    elsewhere = replace(THERE, deployment="elsewhere")
    assert claimed(rig, elsewhere, lease_duration=timedelta(seconds=20)).shards == 1
    rig.verdicts[str(elsewhere)] = Verdict.FOREIGN
    kept: list[int] = []

    def renewing(seconds: float) -> None:
        rig.time.sleep(seconds)
        for lease in rig.consumer().leases(lease_owner=str(THERE)):
            kept.append(lease.lease_count)
            assert rig.store.replace(lease, leases.renew(lease, str(THERE), rig.time.ms))

    found = rig.claim(
        "r1", options=ClaimOptions(lease_duration=timedelta(seconds=5)), clock=replace(rig.time.clock(), sleep=renewing)
    )
    assert (found.outcome, found.shards) == (Outcome.LEASES, 1)
    assert kept


def test_a_lower_duration_counts_from_the_groups_next_claim_on(rig: Rig) -> None:
    held_there(rig, lease_duration=timedelta(seconds=300))
    claimed(rig, replace(THERE, run_id="r2"), lease_duration=timedelta(seconds=10))
    assert row(rig).silence_ms(THERE) == 10_000
    assert row(rig).silence_ms(replace(THERE, dag_id="another")) == 0
