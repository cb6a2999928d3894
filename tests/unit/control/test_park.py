# SPDX-License-Identifier: Apache-2.0
"""A parked batch waits with its shards while all others go on, and is resumed by its owner or by the next run (B5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardbatch.control.park import park, unpark
from shardbatch.control.release import release
from shardbatch.core import batch as batches
from shardbatch.core.batch import BatchState
from shardbatch.core.policies import Policies
from shardbatch.core.rows import BATCH
from shardbatch.errors import BatchParked, ConfigurationError
from shardbatch.run import Frozen, Outcome
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import Interrupted, application, batch, done, everything, told


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def frozen(rig: Rig, run: str = "r1") -> tuple[Frozen, str]:
    """A run that has frozen its batch and is at work on it."""
    found = rig.claim(run)
    rig.land(run, found)
    made = rig.freeze(run, found.batch_id)
    assert made.batch_id is not None
    return made, made.batch_id


def test_the_shards_of_a_parked_batch_wait_and_all_others_go_on(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    first, second = rig.stream.shards
    rig.run("r0")
    rig.stream.put("a", shard_id=first)
    _, batch_id = frozen(rig)
    assert done(park, rig, batch_id) == [(batch_id, "parked")]
    rig.over("r1")
    rig.stream.put("b", shard_id=first)
    sent = rig.stream.put("c", shard_id=second)
    rig.run("r2")
    assert rig.committed() == sent
    assert {row.batch_id for row in rig.consumer().leases() if row.shard_id == first} == {batch_id}


def test_who_when_and_why_stand_on_the_batch_and_on_the_application(rig: Rig) -> None:
    rig.stream.put("a")
    _, batch_id = frozen(rig)
    done(park, rig, batch_id)
    done(unpark, rig, batch_id, reason="mended", actor="bob")
    note = batch(rig, batch_id).note or ""
    assert "ann parked: bad data" in note
    assert "bob unparked: mended" in note
    assert note.count("Z ") == 2  # when
    assert (application(rig).last_action or "").endswith(f"bob unparked batch {batch_id}: mended")


def test_previews_change_no_row_and_need_no_reason(rig: Rig) -> None:
    rig.stream.put("a")
    _, batch_id = frozen(rig)
    before = everything(rig)
    (item,) = told(park, rig, batch_id, dry_run=True, reason="")
    assert (item.result, item.owner) == ("would park", str(rig.owner("r1")))
    assert "1 shards wait" in item.effect
    assert everything(rig) == before
    done(park, rig, batch_id)
    before = everything(rig)
    assert done(unpark, rig, batch_id, dry_run=True, reason="") == [(batch_id, "would unpark")]
    assert everything(rig) == before


def test_a_second_call_changes_nothing(rig: Rig) -> None:
    rig.stream.put("a")
    _, batch_id = frozen(rig)
    assert done(unpark, rig, batch_id) == [(batch_id, "already")]
    done(park, rig, batch_id)
    before = everything(rig)
    assert done(park, rig, batch_id) == [(batch_id, "already")]
    assert everything(rig) == before


def test_a_decided_batch_is_neither_parked_nor_resumed(rig: Rig) -> None:
    rig.stream.put("a")
    batch_id = rig.run("r1").batch_id
    for verb in (park, unpark):
        (item,) = told(verb, rig, batch_id)
        assert (item.result, item.why) == ("left", "it is committed")


def test_the_run_that_has_it_commits_nothing_while_it_is_parked(rig: Rig) -> None:
    sent = rig.stream.put("a")
    made, batch_id = frozen(rig)
    rig.work(made)
    done(park, rig, batch_id)
    with pytest.raises(BatchParked, match="bad data"):
        rig.commit("r1", made)
    assert rig.committed() == []
    done(unpark, rig, batch_id)
    rig.commit("r1", made)  # it was its owner's all the while
    assert rig.committed() == sent


def test_a_resumed_batch_of_an_owner_that_is_over_is_taken_by_the_next_run(rig: Rig) -> None:
    sent = rig.stream.put("a")
    _, batch_id = frozen(rig)
    rig.over("r1")
    done(park, rig, batch_id)
    assert rig.claim("r2").outcome is Outcome.HELD
    rig.over("r2")
    done(unpark, rig, batch_id)
    found = rig.claim("r3")
    assert (found.outcome, found.batch_id) == (Outcome.ADOPTED, batch_id)
    retried = rig.freeze("r3", batch_id)
    rig.work(retried)
    rig.commit("r3", retried)
    assert rig.sink() == sent


def test_a_parked_batch_is_not_released_but_unpark_is_named(rig: Rig) -> None:
    rig.stream.put("a")
    _, batch_id = frozen(rig)
    done(park, rig, batch_id)
    (item,) = told(release, rig, batch_id=batch_id)
    assert item.result == "left"
    assert f"airflow shardbatch unpark --batch {batch_id}" in item.why
    assert batch(rig, batch_id).state is BatchState.PARKED


def test_attempts_before_a_batch_was_resumed_no_longer_count(rig: Rig) -> None:
    policies = Policies(max_attempts=2)
    sent = rig.stream.put("a")
    _, batch_id = frozen(rig)
    rig.over("r1")
    for run in ("r2", "r3"):  # the second attempt; then it is parked
        found = rig.claim(run, policies=policies)
        if found.batch_id:
            rig.freeze(run, found.batch_id)
        rig.over(run)
    assert (batch(rig, batch_id).state, batch(rig, batch_id).attempt) == (BatchState.PARKED, 2)
    done(unpark, rig, batch_id)
    found = rig.claim("r4", policies=policies)
    assert (found.outcome, found.batch_id) == (Outcome.ADOPTED, batch_id)
    rig.freeze("r4", batch_id)
    rig.over("r4")
    found = rig.claim("r5", policies=policies)  # the second one again: attempt 4
    retried = rig.freeze("r5", found.batch_id)
    assert retried.attempt == 4
    rig.over("r5")
    assert rig.claim("r6", policies=policies).outcome is Outcome.HELD
    assert "after 2 attempts" in (batch(rig, batch_id).note or "")
    done(unpark, rig, batch_id)
    rig.run("r7", policies=policies)
    assert rig.sink() == sent


def test_a_heartbeat_in_between_does_not_stop_it(rig: Rig) -> None:
    rig.stream.put("a")
    _, batch_id = frozen(rig)

    def beat() -> None:
        seen = batch(rig, batch_id)
        assert rig.store.replace(seen, batches.heartbeat(seen, 1, "app-1"))

    assert done(park, rig, batch_id, store=Interrupted(rig.store, BATCH, beat)) == [(batch_id, "parked")]
    assert batch(rig, batch_id).spark_application == (1, "app-1")


def test_a_commit_in_between_wins(rig: Rig) -> None:
    sent = rig.stream.put("a")
    made, batch_id = frozen(rig)
    rig.work(made)
    store = Interrupted(rig.store, BATCH, lambda: rig.commit("r1", made))
    (item,) = told(park, rig, batch_id, store=store)
    assert (item.result, item.why) == ("left", "it is committed")
    assert rig.committed() == sent


def test_an_owner_that_writes_all_the_while_is_not_fought_for_ever(rig: Rig) -> None:
    rig.stream.put("a")
    _, batch_id = frozen(rig)

    def beat() -> None:
        seen = batch(rig, batch_id)
        assert rig.store.replace(seen, batches.heartbeat(seen, 1, None))

    (item,) = told(park, rig, batch_id, store=Interrupted(rig.store, BATCH, beat, always=True))
    assert (item.result, "all the time" in item.why) == ("left", True)


def test_what_is_not_there_or_has_no_reason_is_refused(rig: Rig) -> None:
    rig.store.prepare()
    with pytest.raises(ConfigurationError, match="no application"):
        told(park, rig, "b0")
    rig.stream.put("a")
    _, batch_id = frozen(rig)
    with pytest.raises(ConfigurationError, match="no batch 'b0'"):
        told(park, rig, "b0")
    with pytest.raises(ConfigurationError, match="needs a reason"):
        told(park, rig, batch_id, reason=" ")
