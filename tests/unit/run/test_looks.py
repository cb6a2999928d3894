# SPDX-License-Identifier: Apache-2.0
"""A claim that comes back to see whether rows of others stood still, instead of staying (PROTOCOL T8)."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from shardbatch.core import lease as leases
from shardbatch.core.lease import Lease
from shardbatch.core.looks import MOST_TIMES, LookAgain, Looks
from shardbatch.core.policies import ClaimOptions
from shardbatch.core.ports import Verdict
from shardbatch.run import Claim, Outcome
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream

MINUTE = ClaimOptions(lease_duration=timedelta(seconds=60))


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging", stream=ScriptedStream(shards=2), options={"options": MINUTE})


def claim(rig: Rig, run: str, looks: Looks | None) -> Claim:
    from shardbatch.run import claim

    return claim(rig.consumer(), rig.owner(run), looks)


def away(rig: Rig, run: str, looks: Looks) -> LookAgain:
    """The order to come back that a claim gives."""
    began = rig.time.ms
    with pytest.raises(LookAgain) as caught:
        claim(rig, run, looks)
    assert rig.time.ms - began < 1000  # it did not stay
    return caught.value


def held(rig: Rig) -> list[Lease]:
    """Leases of a run that Airflow does not know."""
    rig.stream.put("a")
    rig.claim("r1")
    rig.verdicts[str(rig.owner("r1"))] = Verdict.GONE
    return rig.consumer().leases()


def test_what_stood_still_while_the_claim_was_away_is_taken_at_once(rig: Rig) -> None:
    before = held(rig)
    again = away(rig, "r2", Looks())
    assert again.seconds == 60
    assert rig.consumer().leases() == before
    began = rig.time.ms
    found = claim(rig, "r2", Looks.from_json(json.loads(json.dumps(again.looks.to_json()))))
    assert (found.outcome, found.shards) == (Outcome.LEASES, 2)
    assert rig.time.ms - began < 1000


def test_what_showed_life_meanwhile_keeps_its_leases(rig: Rig) -> None:
    held(rig)
    again = away(rig, "r2", Looks())
    for lease in rig.consumer().leases():
        assert rig.store.replace(lease, leases.renew(lease, str(rig.owner("r1")), rig.time.ms))
    assert claim(rig, "r2", again.looks).outcome is Outcome.HELD
    assert {lease.lease_owner for lease in rig.consumer().leases()} == {str(rig.owner("r1"))}


def test_what_was_not_seen_before_is_left_to_the_next_run(rig: Rig) -> None:
    alone, other = held(rig)
    again = away(rig, "r2", Looks())
    seen = {name: look for name, look in again.looks.seen.items() if name == alone.shard_id}
    assert claim(rig, "r2", Looks(seen, 1)).shards == 1
    kept = rig.consumer().lease(other.shard_id)
    assert kept == other


def test_a_time_that_was_too_short_proves_nothing(rig: Rig) -> None:
    held(rig)
    seen = {name: (counter, 59.0) for name, (counter, _) in away(rig, "r2", Looks()).looks.seen.items()}
    assert claim(rig, "r2", Looks(seen, 1)).outcome is Outcome.HELD


def test_free_shards_are_taken_together_with_what_stood_still(rig: Rig) -> None:
    free, _ = held(rig)
    released = leases.release(free, rig.time.ms)
    assert rig.store.replace(free, released)
    rig.time.ms += 61_000  # the other one looks old
    again = away(rig, "r2", Looks())
    assert rig.consumer().lease(free.shard_id) == released
    assert claim(rig, "r2", again.looks).shards == 2


def test_a_short_time_is_waited_for_in_place(rig: Rig) -> None:
    rig.options = {"options": ClaimOptions(lease_duration=timedelta(seconds=9))}
    held(rig)
    began = rig.time.ms
    assert claim(rig, "r2", Looks()).outcome is Outcome.LEASES
    assert rig.time.ms - began >= 9000


def test_a_batch_of_a_run_that_is_gone_is_adopted_by_the_claim_that_comes_back(rig: Rig) -> None:
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    frozen = rig.freeze("r1")
    rig.verdicts[str(rig.owner("r1"))] = Verdict.GONE
    rig.time.ms += 61_000
    again = away(rig, "r2", Looks())
    found = claim(rig, "r2", again.looks)
    assert (found.outcome, found.batch_id) == (Outcome.ADOPTED, frozen.batch_id)


def test_time_passes_for_all_that_was_seen_and_a_claim_goes_away_a_few_times_only(rig: Rig) -> None:
    looks = Looks()
    for number in range(MOST_TIMES):
        again = looks.go_away({f"s{number}": number}, 60.0)
        assert again is not None
        looks = again.looks
    assert looks.seen == {f"s{number}": (number, 60.0 * (MOST_TIMES - number)) for number in range(MOST_TIMES)}
    held(rig)
    assert claim(rig, "r2", looks).outcome is Outcome.HELD
