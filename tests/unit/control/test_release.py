# SPDX-License-Identifier: Apache-2.0
"""Release frees what nobody will come back for, and nothing else (PROTOCOL L7, B15)."""

from __future__ import annotations

from typing import Any

import pytest

from shardbatch.control.action import Done
from shardbatch.control.release import release
from shardbatch.core import batch as batch_rows
from shardbatch.core import lease as lease_rows
from shardbatch.core.application import Application
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.rows import APPLICATION, BATCH, SHARD_LEASE, Key
from shardbatch.errors import ConfigurationError
from shardbatch.stores.memory import MemoryStore
from tests.support.verbs import act
from tests.unit.cli.rows import NAMESPACE, NOW, OTHER, OWNER, filled, frozen_batch


def lease(store: MemoryStore, shard_id: str) -> Lease:
    row = store.get(Key(SHARD_LEASE, NAMESPACE, ("", shard_id)))
    assert isinstance(row, Lease)
    return row


def batch(store: MemoryStore, batch_id: str) -> Batch:
    row = store.get(Key(BATCH, NAMESPACE, ("", batch_id)))
    assert isinstance(row, Batch)
    return row


def application(store: MemoryStore) -> Application:
    row = store.get(Key(APPLICATION, NAMESPACE, ()))
    assert isinstance(row, Application)
    return row


def run(store: MemoryStore, **chosen: Any) -> list[tuple[str, str]]:
    settings: dict[str, Any] = {"actor": "ann", "reason": "the staging cluster is gone", "dry_run": False, **chosen}
    return [(item.name, item.result) for item in act(release, store, NAMESPACE, **settings)]


def test_a_preview_changes_no_row() -> None:
    store = filled()
    before = store.writes
    assert run(store, owner=OTHER, dry_run=True, reason="") == [("s-landed", "would release")]
    assert store.writes == before
    assert application(store).last_action is None


def test_releasing_a_lease_keeps_its_slice_for_the_next_owner() -> None:
    store = filled()
    assert run(store, shards=["s-landed"]) == [("s-landed", "released")]
    row = lease(store, "s-landed")
    assert (row.lease_owner, row.pending is not None) == (None, True)


def test_who_why_and_what_stand_on_the_application_row() -> None:
    store = filled()
    run(store, owner=OTHER)
    note = application(store).last_action or ""
    assert "ann released" in note
    assert OTHER in note
    assert note.endswith(": the staging cluster is gone")


def test_a_frozen_batch_is_free_to_be_adopted_and_its_leases_stay_stamped() -> None:
    store = filled()
    assert run(store, batch_id="b2") == [("b2", "released")]
    row = batch(store, "b2")
    assert (row.owner, row.state, row.attempt) == ("", BatchState.FROZEN, 2)
    assert lease(store, "s-frozen").batch_id == "b2"
    assert batch_rows.adopt(row, OTHER).owner == OTHER


def test_an_owner_gives_back_its_leases_and_its_frozen_batches() -> None:
    store = filled()
    assert run(store, owner=OWNER) == [("b2", "released"), ("s-held", "released")]
    assert lease(store, "s-frozen").batch_id == "b2"
    assert lease(store, "s-held").lease_owner is None


def test_a_frozen_lease_is_left_and_its_batch_named() -> None:
    store = filled()
    (item,) = act(release, store, NAMESPACE, shards=["s-frozen"], actor="ann", reason="x", dry_run=False)
    assert item == Done("lease", "s-frozen", OWNER, "left", "it is frozen in batch b2; release that with --batch b2")
    assert lease(store, "s-frozen").lease_owner == OWNER


@pytest.mark.parametrize(
    ("state", "word"),
    [(BatchState.COMMITTED, "by itself"), (BatchState.VOID, "by itself")],
)
def test_a_batch_that_is_not_frozen_is_left_with_what_to_do(state: BatchState, word: str) -> None:
    store = filled()
    store.create(frozen_batch("b9", OTHER, state))
    (item,) = act(release, store, NAMESPACE, batch_id="b9", actor="ann", reason="x", dry_run=False)
    assert item.result == "left"
    assert word in item.why
    assert batch(store, "b9").owner == OTHER


def test_a_parked_batch_is_left_and_unpark_named() -> None:
    store = filled()
    store.create(frozen_batch("b9", OTHER, BatchState.PARKED))
    (item,) = act(release, store, NAMESPACE, batch_id="b9", actor="ann", reason="x", dry_run=False)
    assert item.result == "left"
    assert "unpark --batch b9" in item.why
    assert (batch(store, "b9").state, batch(store, "b9").owner) == (BatchState.PARKED, OTHER)


def test_a_parked_batch_is_not_resumed_by_its_owners_release() -> None:
    store = filled()
    store.create(frozen_batch("b9", OTHER, BatchState.PARKED))
    assert "b9" not in [name for name, _ in run(store, owner=OTHER)]
    assert batch(store, "b9").state is BatchState.PARKED


def test_a_lease_whose_batch_was_never_made_is_left_to_the_next_claim() -> None:
    store = filled()
    row = lease(store, "s-landed")
    assert row.lease_owner is not None
    assert store.replace(row, lease_rows.stamp(row, row.lease_owner, "never-made", NOW))
    (item,) = act(release, store, NAMESPACE, shards=["s-landed"], actor="ann", reason="x", dry_run=False)
    assert item.result == "left"
    assert "next claim" in item.why
    assert "--batch" not in item.why


def test_another_owner_that_came_meanwhile_keeps_the_lease() -> None:
    store = filled()
    newcomer = MemoryStore(store.memory)

    def overtake(when: str, write: Any) -> None:
        row = write.row
        if when == "before" and isinstance(row, Lease) and row.lease_owner is None:
            store.fault = None
            current = lease(newcomer, "s-landed")
            newcomer.replace(current, lease_rows.take(lease_rows.release(current, NOW), OWNER, "g1", NOW))

    store.fault = overtake
    (item,) = act(release, store, NAMESPACE, shards=["s-landed"], actor="ann", reason="x", dry_run=False)
    assert item.result == "left"
    assert f"went to {OWNER}" in item.why
    assert lease(store, "s-landed").lease_owner == OWNER


def test_a_heartbeat_in_between_does_not_stop_the_release_of_a_batch() -> None:
    store = filled()
    other = MemoryStore(store.memory)

    def beat(when: str, write: Any) -> None:
        if when == "before" and isinstance(write.row, Batch):
            store.fault = None
            current = batch(other, "b2")
            other.replace(current, batch_rows.heartbeat(current, NOW, None))

    store.fault = beat
    assert run(store, batch_id="b2") == [("b2", "released")]


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        ({}, "Nothing was chosen"),
        ({"owner": OTHER, "reason": " "}, "needs a reason"),
        ({"shards": ["s-none"]}, "'s-none' has no lease"),
        ({"batch_id": "b0"}, "no batch 'b0'"),
    ],
)
def test_a_release_that_makes_no_sense_is_refused(chosen: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        run(filled(), **chosen)


def test_a_shard_of_another_owner_is_not_touched_when_an_owner_is_given() -> None:
    store = filled()
    assert run(store, owner=OTHER, shards=["s-held", "s-landed"]) == [("s-landed", "released")]
    assert lease(store, "s-held").lease_owner == OWNER
