# SPDX-License-Identifier: Apache-2.0
"""Stamps are obeyed: what becomes of leases whose batch is committed, void, undecided or was never created."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from shardbatch.core import batch as batches
from shardbatch.core import lease as leases
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.start import Start
from shardbatch.run.settle import decision_at, mark, one_each, read_batches, roll_forward, settle, unstamp, void_absent
from tests.support.passing import only
from tests.support.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """A lease that carries the stamp of a batch which has no row yet."""
    made = Rig(tmp_path / "staging")
    made.stream.put("a", "b")
    made.land("r1", made.claim("r1"))
    landed = only(made)
    assert made.store.replace(landed, leases.stamp(landed, str(made.owner("r1")), "b1", 1))
    return made


def row(rig: Rig, state: BatchState = BatchState.FROZEN, **changes: object) -> Batch:
    batch = Batch(rig.namespace, "", "b1", str(rig.owner("r1")), 1, state, 1, records=2, **changes)  # type: ignore[arg-type]
    assert rig.store.create(batch)
    return batch


def obeyed(rig: Rig, *, may_undo: bool = True, me: str = "r2") -> list[Lease]:
    consumer = rig.consumer()
    rows = consumer.leases()
    stamped = read_batches(consumer, rows)
    return settle(consumer, rows, stamped, str(rig.owner(me)), lambda lease: may_undo)


def test_a_committed_batch_is_told_and_rolled_forward_by_anyone(rig: Rig) -> None:
    root = str(rig.folder.parent / "out")
    (rig.folder.parent / "out").mkdir()
    row(rig, BatchState.COMMITTED, starts=(Start("s1", 1, "load", (root,)),), roots=(root,), decided=1)
    pending = only(rig).pending
    assert pending is not None
    (lease,) = obeyed(rig, may_undo=False)
    assert (lease.batch_id, lease.checkpoint, lease.pending) == (None, pending.until, None)
    assert only(rig) == lease
    assert rig.starts_read() == ["s1"]


@pytest.mark.parametrize("state", [BatchState.FROZEN, BatchState.PARKED])
def test_leases_of_an_undecided_batch_stay(rig: Rig, state: BatchState) -> None:
    row(rig, state)
    before = only(rig)
    assert obeyed(rig) == [before]
    assert only(rig) == before


def test_a_void_batch_is_undone_and_the_lease_is_free_but_for_its_owners(rig: Rig) -> None:
    row(rig, BatchState.VOID)
    before = only(rig)
    assert obeyed(rig, may_undo=False) == [before]
    (own,) = obeyed(rig, me="r1")
    assert (own.batch_id, own.lease_owner, own.pending) == (None, before.lease_owner, before.pending)


def test_a_batch_that_was_never_created_never_will_be(rig: Rig) -> None:
    before = only(rig)
    assert obeyed(rig, may_undo=False) == [before]
    assert rig.batches() == []
    (lease,) = obeyed(rig)
    assert (lease.batch_id, lease.lease_owner, lease.pending) == (None, None, before.pending)
    (batch,) = rig.batches()
    assert (batch.batch_id, batch.state) == ("b1", BatchState.VOID)


def test_a_row_that_came_first_is_not_replaced_by_a_void_one(rig: Rig) -> None:
    frozen = row(rig)
    assert void_absent(rig.consumer(), "b1") == frozen
    assert rig.batches() == [frozen]


def test_a_lease_that_moved_meanwhile_is_left_as_it_is_found(rig: Rig) -> None:
    stale = only(rig)
    moved = leases.unstamp(stale, "b1", 1, free=True)
    assert rig.store.replace(stale, moved)
    consumer = rig.consumer()
    assert unstamp(consumer, "b1", [stale]) == [moved]
    assert roll_forward(consumer, row(rig, BatchState.COMMITTED), [stale]) == [moved]
    assert only(rig) == moved


def test_a_lease_that_was_only_touched_is_changed_all_the_same(rig: Rig) -> None:
    stale = only(rig)
    touched = replace(stale, lease_count=stale.lease_count + 1)
    assert rig.store.replace(stale, touched)
    (lease,) = unstamp(rig.consumer(), "b1", [stale])
    assert (lease.batch_id, lease.lease_count) == (None, touched.lease_count + 1)


def test_each_root_is_told_its_own_starts_and_all_roots_in_one_spelling(rig: Rig, tmp_path: Path) -> None:
    out, other = str(tmp_path / "out"), str(tmp_path / "other")
    for root in (out, other):
        Path(root).mkdir()
    landing = rig.consumer().landing
    assert one_each(landing, [out, f"file://{out}", other]) == (out, other)
    starts = (Start("s1", 1, "load", (out,)), Start("s2", 1, "check", (f"file://{out}", other)))
    batch = batches.decide(row(rig), starts, 1, 7, roots=(out, other))
    told = decision_at(landing, batch, other)
    assert (told.starts, told.roots, told.decided) == ((("s2", 1),), (out, other), 1)
    mark(landing, batch)
    assert rig.decisions("out")["b1"].starts == (("s1", 1), ("s2", 1))
    assert rig.decisions("other")["b1"] == told
