# SPDX-License-Identifier: Apache-2.0
"""Batches that a person gives up: set aside, so that shards go on without output (B9), or dropped (B6, L6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardbatch.control.drop import drop
from shardbatch.control.park import park
from shardbatch.control.set_aside import set_aside
from shardbatch.control.status import batches as listed
from shardbatch.control.status import status
from shardbatch.core.batch import BatchState
from shardbatch.core.policies import Policies, Sink
from shardbatch.core.ports import Verdict
from shardbatch.core.rows import BATCH
from shardbatch.errors import LeaseLost, NothingFinished
from shardbatch.run import Frozen, Outcome
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
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


def test_the_slices_of_a_dropped_batch_go_into_a_later_one(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    _, batch_id, sent = poisoned(rig)
    reads = len(rig.stream.reads)
    assert done(drop, rig, batch_id) == [(batch_id, "dropped")]
    for row in rig.consumer().leases():
        assert (row.batch_id, row.lease_owner) == (None, None)
    rig.run("r2")
    assert rig.sink() == sent
    assert sorted(rig.committed(), key=int) == sent
    slices = [position for shard_id, position in rig.stream.reads[reads:] if position == "TRIM_HORIZON"]
    assert len(slices) <= 1  # nothing that was landed is read anew; a shard without records may be looked at
    assert batch(rig, batch_id).state is BatchState.VOID


def test_a_run_at_work_on_a_dropped_batch_commits_nothing(rig: Rig) -> None:
    sent = rig.stream.put("a")
    made, batch_id = frozen(rig)
    rig.work(made)
    done(drop, rig, batch_id)
    with pytest.raises(LeaseLost):
        rig.commit("r1", made)
    rig.over("r1")
    rig.run("r2")
    assert rig.sink() == sent


def test_the_cleared_run_of_a_dropped_batch_freezes_anew(rig: Rig) -> None:
    made, batch_id, sent = poisoned(rig)
    done(drop, rig, batch_id)
    found = rig.claim("r1")
    assert found.outcome is Outcome.LEASES
    rig.land("r1", found)
    again = rig.freeze("r1")
    assert again.batch_id != made.batch_id
    rig.work(again)
    rig.commit("r1", again)
    assert rig.sink() == sent


def test_a_dropped_batch_is_listed_as_a_possible_orphan(rig: Rig) -> None:
    made, batch_id, _ = poisoned(rig)
    rig.work(made)
    (item,) = told(drop, rig, batch_id, landing=rig.consumer().landing)
    assert f"POSSIBLE ORPHANS: rows of batch_id={batch_id}" in item.effect
    assert "start folders" in item.effect
    assert f"finished below {rig.folder.parent / 'out'}" in item.effect
    found = status(rig.store, namespace(rig))
    assert [entry.batch_id for entry in found.possible_orphans] == [batch_id]
    assert [entry.possible_orphan for entry in listed(rig.store, namespace(rig))] == [True]


def test_a_batch_without_records_leaves_no_orphan(rig: Rig) -> None:
    rig.stream.split(next(iter(rig.stream.shards)))
    found = rig.claim("r1")
    rig.land("r1", found)
    made = rig.freeze("r1")
    assert (made.record_count, made.batch_id is None) == (0, False)
    (item,) = told(drop, rig, made.batch_id)
    assert "ORPHAN" not in item.effect
    assert status(rig.store, namespace(rig)).possible_orphans == ()


def test_what_was_set_aside_is_kept_until_it_is_dropped_by_name(rig: Rig) -> None:
    _, batch_id, _ = poisoned(rig)
    done(set_aside, rig, batch_id)
    assert done(drop, rig, batch_id) == [(batch_id, "dropped")]
    row = batch(rig, batch_id)
    assert (row.state, row.set_aside) == (BatchState.COMMITTED, "dropped")
    assert status(rig.store, namespace(rig)).set_aside == ()
    assert done(drop, rig, batch_id) == [(batch_id, "already")]


def test_a_marker_that_cannot_be_read_does_not_stop_a_drop(rig: Rig) -> None:
    made, batch_id, _ = poisoned(rig)
    rig.work(made)
    (marker,) = rig.folder.rglob("done/*/mark.json")
    marker.write_text("no json")
    (item,) = told(drop, rig, batch_id, landing=rig.consumer().landing)
    assert (item.result, "staging does not say where" in item.effect) == ("dropped", True)
