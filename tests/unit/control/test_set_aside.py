# SPDX-License-Identifier: Apache-2.0
"""Batches that a person gives up: set aside, so that shards go on without output (B9), or dropped (B6, L6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardbatch.control.drop import drop
from shardbatch.control.park import park
from shardbatch.control.set_aside import set_aside
from shardbatch.control.status import status
from shardbatch.core.batch import BatchState
from shardbatch.core.policies import Policies, Sink
from shardbatch.core.ports import Verdict
from shardbatch.core.rows import BATCH
from shardbatch.errors import NothingFinished
from shardbatch.run import Frozen
from tests.support.rig import Rig
from tests.support.verbs import Interrupted, application, batch, done, everything, namespace, told
from tests.unit.control.test_park import frozen


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def poisoned(rig: Rig) -> tuple[Frozen, str, list[str]]:
    """A batch whose work failed, of a run that is over."""
    sent = rig.stream.put("a", "b")
    made, batch_id = frozen(rig)
    rig.over("r1")
    return made, batch_id, sent


def alive(owner: str) -> Verdict:
    return Verdict.ACTIVE


def test_shards_go_on_behind_a_batch_that_was_set_aside_and_no_reader_sees_it(rig: Rig) -> None:
    _, batch_id, sent = poisoned(rig)
    assert done(set_aside, rig, batch_id) == [(batch_id, "set aside")]
    assert [row.batch_id for row in rig.consumer().leases()] == [None]  # at once, not only by the next claim
    later = rig.stream.put("c")
    rig.run("r2")
    assert rig.sink() == later
    assert sorted(rig.committed(), key=int) == sent + later  # decided, each once
    row = batch(rig, batch_id)
    assert (row.state, row.starts, row.decided, row.set_aside) == (BatchState.COMMITTED, (), 1, "kept")
    assert "ann set aside: bad data" in (row.note or "")
    assert (application(rig).last_action or "").endswith(f"ann set aside batch {batch_id}: bad data")


def test_what_was_set_aside_is_listed_until_a_replay_gives_it_output(rig: Rig) -> None:
    _, batch_id, sent = poisoned(rig)
    done(set_aside, rig, batch_id)
    assert [item.batch_id for item in status(rig.store, namespace(rig)).set_aside] == [batch_id]
    replay = rig.freeze("r1")  # its run is cleared
    assert (replay.replay, replay.attempt) == (True, 2)
    rig.work(replay)
    rig.commit("r1", replay)
    assert rig.sink() == sent
    assert status(rig.store, namespace(rig)).set_aside == ()
    assert batch(rig, batch_id).set_aside is None


def test_a_commit_that_comes_after_it_fails_and_changes_nothing(rig: Rig) -> None:
    rig.stream.put("a")
    made, batch_id = frozen(rig)
    rig.work(made)
    done(set_aside, rig, batch_id)
    before = everything(rig)
    with pytest.raises(NothingFinished, match="set aside"):  # V24
        rig.commit("r1", made)
    assert everything(rig) == before


def test_a_late_commit_of_a_batch_with_a_sink_of_its_own_says_so_too(rig: Rig) -> None:
    rig.options = {"policies": Policies(sink=Sink.OWN)}
    rig.stream.put("a")
    made, batch_id = frozen(rig)
    done(set_aside, rig, batch_id)
    with pytest.raises(NothingFinished, match="set aside"):
        rig.commit("r1", made)
    assert batch(rig, batch_id).set_aside == "kept"
    replay = rig.freeze("r1")
    assert rig.commit("r1", replay).replayed
    assert batch(rig, batch_id).set_aside is None


def test_a_commit_in_between_wins(rig: Rig) -> None:
    sent = rig.stream.put("a")
    made, batch_id = frozen(rig)
    rig.work(made)
    for verb in (set_aside, drop):
        store = Interrupted(rig.store, BATCH, lambda: rig.commit("r1", made))
        (item,) = told(verb, rig, batch_id, store=store)
        assert item.result == "left"
        assert "it is committed" in item.why
    assert rig.sink() == sent


@pytest.mark.parametrize("verb", [set_aside, drop])
def test_a_batch_of_an_owner_at_work_is_left_unless_forced(rig: Rig, verb: object) -> None:
    assert callable(verb)
    rig.stream.put("a")
    _, batch_id = frozen(rig)
    before = everything(rig)
    (item,) = told(verb, rig, batch_id, liveness=alive)
    assert (item.result, "at work" in item.why) == ("left", True)
    assert everything(rig) == before
    assert told(verb, rig, batch_id, liveness=alive, force=True)[0].result != "left"


@pytest.mark.parametrize("verb", [set_aside, drop])
def test_a_preview_names_the_owner_and_its_fate_and_changes_no_row(rig: Rig, verb: object) -> None:
    assert callable(verb)
    rig.stream.put("a")
    _, batch_id = frozen(rig)
    before = everything(rig)
    (item,) = told(verb, rig, batch_id, dry_run=True, reason="")
    assert item.result.startswith("would ")
    assert item.owner == str(rig.owner("r1"))
    assert "if its owner is at work, its commit fails" in item.effect
    assert everything(rig) == before
    (item,) = told(verb, rig, batch_id, dry_run=True, reason="", liveness=lambda owner: Verdict.OVER)
    assert "its owner is over" in item.effect


@pytest.mark.parametrize("verb", [set_aside, drop])
def test_a_parked_batch_can_be_given_up_and_a_second_call_does_nothing(rig: Rig, verb: object) -> None:
    assert callable(verb)
    _, batch_id, _ = poisoned(rig)
    done(park, rig, batch_id)
    assert told(verb, rig, batch_id)[0].result in ("set aside", "dropped")
    before = everything(rig)
    if verb is set_aside:
        assert done(set_aside, rig, batch_id) == [(batch_id, "already")]
    else:
        assert done(drop, rig, batch_id) == [(batch_id, "already")]
    assert everything(rig) == before
