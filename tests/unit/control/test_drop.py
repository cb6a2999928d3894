# SPDX-License-Identifier: Apache-2.0
"""Batches that a person drops: their slices go into later ones, and what may be left of them is told (B6, L6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardbatch.control.drop import drop
from shardbatch.control.set_aside import set_aside
from shardbatch.control.status import batches as listed
from shardbatch.control.status import status
from shardbatch.core.batch import BatchState
from shardbatch.errors import LeaseLost
from shardbatch.run import Outcome
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import batch, done, namespace, told
from tests.unit.control.test_park import frozen
from tests.unit.control.test_set_aside import poisoned


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


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
