# SPDX-License-Identifier: Apache-2.0
"""What every lease store keeps to, whatever stands behind it: rows and tables."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from shardbatch.core import batch, lease
from shardbatch.core.application import Application
from shardbatch.core.lease import Lease
from shardbatch.core.position import TRIM_HORIZON, after
from shardbatch.core.rows import BATCH, SHARD_LEASE, Key, Namespace
from shardbatch.errors import ProtocolError, StoreError, StoreNotFound
from tests.contract.stores.rows import fresh, frozen, slice_of


def test_every_kind_of_row_comes_back_as_it_was_written(store: Any, namespace: Namespace) -> None:
    held = dataclasses.replace(
        fresh(namespace, "s-1", scope="a/b%2Fc/ü%"[:6]), completed=True, millis_behind_latest=2**41
    )
    rows = [held, frozen(namespace, "b-1"), Application(namespace, "arn:1", TRIM_HORIZON, 1, deployments=("d",))]
    for each in rows:
        assert store.get(each.key) is None
        assert store.create(each)
        assert store.get(each.key) == each


def test_a_row_without_an_owner_comes_back(store: Any, namespace: Namespace) -> None:
    void = batch.void(namespace, "", "b-1", 1, 5)
    assert store.create(void)
    assert store.get(void.key) == void


def test_a_row_is_created_once(store: Any, other: Any, row: Lease) -> None:
    # K-18, KV-3: create by w2 -> ALREADY_EXISTS
    assert not other.create(dataclasses.replace(row, lease_owner="w2"))
    assert not store.create(row)
    assert store.get(row.key) == row


def test_a_replace_fits_the_counter_it_saw_and_no_other(store: Any, other: Any, row: Lease) -> None:
    # K-19, K-20, KV-3
    renewed = lease.renew(row, "w1", 8)
    assert store.replace(row, renewed)
    assert not store.replace(row, renewed), "seen has count 1, the row has 2"
    assert not other.replace(row, lease.take(row, "w2", None, 9))
    ahead = dataclasses.replace(renewed, lease_count=3)
    assert not other.replace(ahead, lease.take(ahead, "w2", None, 9)), "seen has count 3, the row has 2"
    assert store.get(row.key) == renewed
    taken = lease.take(renewed, "w2", "g1", 9)
    assert other.replace(renewed, taken)
    assert store.get(row.key) == taken
    assert taken.lease_count == 3


def test_nothing_but_the_counter_is_compared(store: Any, row: Lease) -> None:
    seen = dataclasses.replace(row, lease_owner="someone else", updated_at_ms=0)
    assert store.replace(seen, lease.take(seen, "w2", None, 9))


def test_a_lease_walks_through_its_life(store: Any, row: Lease) -> None:
    # K-21, K-22, KV-3: the former owner changes nothing, the checkpoint moves with the commit
    landed = lease.land(row, "w1", dataclasses.replace(slice_of(0), ended=True), 8)
    stamped = lease.stamp(landed, "w1", "b-1", 9)
    rolled = lease.roll_forward(stamped, "b-1", 10)
    for seen, new in ((row, landed), (landed, stamped), (stamped, rolled)):
        assert store.replace(seen, new)
        assert store.get(row.key) == new
        assert not store.replace(seen, new)
    assert rolled.completed
    assert rolled.checkpoint == after("77")


def test_a_batch_keeps_its_claims_and_its_event(store: Any, namespace: Namespace) -> None:
    made = dataclasses.replace(frozen(namespace, "b-1"), claims=("c1",))
    opened = batch.open_attempt(made, 3, "c2")
    decided = batch.decide(opened, (), 2, 10)
    sent = batch.send_event(decided, "run/0/7", 11)
    assert store.create(made)
    for seen, new in ((made, opened), (opened, decided), (decided, sent)):
        assert store.get(made.key) == seen
        assert store.replace(seen, new)
    assert store.get(made.key) == sent
    assert list(store.list(BATCH, namespace)) == [sent]


def test_a_delete_fits_the_counter_it_saw(store: Any, row: Lease) -> None:
    renewed = lease.renew(row, "w1", 8)
    assert store.replace(row, renewed)
    assert not store.delete(row)
    assert store.get(row.key) == renewed
    assert store.delete(renewed)
    assert store.get(row.key) is None
    assert not store.delete(renewed)
    assert not store.replace(renewed, lease.renew(renewed, "w1", 9))


def test_a_row_made_again_does_not_fit_what_was_seen_of_the_old_one(store: Any, row: Lease) -> None:
    # PROTOCOL V15
    zombie = lease.renew(row, "w1", 8)
    assert store.delete(row)
    again = fresh(row.namespace, row.shard_id, count=1_000_001)
    assert store.create(again)
    assert not store.replace(row, zombie)
    assert not store.delete(row)
    assert store.get(row.key) == again


def test_a_counter_must_rise_and_a_row_stay_itself(store: Any, row: Lease) -> None:
    for new in (row, dataclasses.replace(row, lease_count=9, shard_id="another")):
        with pytest.raises(ProtocolError):
            store.replace(row, new)


def test_a_column_of_a_later_version_survives(backend: Any, store: Any, row: Lease) -> None:
    backend.set_unknown(row.key, "later_column", "kept")
    assert store.get(row.key) == row
    assert list(store.list(SHARD_LEASE, row.namespace)) == [row]
    assert store.replace(row, lease.take(row, "w2", None, 8))
    assert backend.unknown(row.key, "later_column") == "kept"


def test_a_column_set_to_nothing_is_nothing(store: Any, row: Lease) -> None:
    assert store.replace(row, lease.release(row, 8))
    assert store.get(row.key).lease_owner is None


def test_a_large_slice_fits(store: Any, row: Lease) -> None:
    landed = lease.land(row, "w1", slice_of(300_000), 8)
    assert len(landed.columns()["pending"]) >= 300_000
    assert store.replace(row, landed)
    assert store.get(row.key) == landed
    assert list(store.list(SHARD_LEASE, row.namespace)) == [landed]


def test_a_slice_too_large_is_refused_and_changes_nothing(store: Any, row: Lease) -> None:
    landed = lease.land(row, "w1", slice_of(600_000), 8)
    refusal = None
    try:
        assert store.replace(row, landed)
    except StoreError as error:
        refusal = str(error)
    assert refusal is None or "KB" in refusal
    assert store.get(row.key) == (landed if refusal is None else row)


def test_a_key_too_long_is_refused_by_name(store: Any, namespace: Namespace) -> None:
    with pytest.raises(StoreError, match="scope"):
        store.create(fresh(namespace, "s", scope="x" * 769))
    longest = fresh(namespace, "s" * 190, scope="x" * 768)
    assert store.create(longest)
    assert list(store.list(SHARD_LEASE, namespace, "x" * 768)) == [longest]


def test_a_key_that_ends_in_a_blank_is_refused_by_name(store: Any, namespace: Namespace) -> None:
    """MariaDB took the scope of one blank for that of none, and the create of its row for a lost race."""
    for key, named in (
        (fresh(namespace, "shard ", scope="x"), "shard_id"),
        (fresh(namespace, "s", scope=" "), "scope"),
    ):
        with pytest.raises(StoreError, match=f"{named} of a shard_lease row ends in a blank"):
            store.create(key)


def test_preparing_again_clears_nothing(store: Any, row: Lease) -> None:
    # K-17: initialising is called on every start
    store.prepare()
    assert store.get(row.key) == row


def test_many_prepare_at_once(backend: Any, namespace: Namespace) -> None:
    place = backend.place()
    stores = [backend.open(**place) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda each: each.prepare(), stores))
    assert stores[3].create(fresh(namespace, "s-1"))
    assert [each.shard_id for each in stores[5].list(SHARD_LEASE, namespace)] == ["s-1"]
    for each in stores:
        each.close()


def test_a_missing_table_is_named(backend: Any, namespace: Namespace) -> None:
    absent = backend.open(create=False, **backend.place())
    key = Key(SHARD_LEASE, namespace, ("", "s"))
    for act in (
        absent.prepare,
        lambda: absent.get(key),
        lambda: list(absent.list(SHARD_LEASE, namespace)),
        lambda: absent.create(fresh(namespace, "s")),
    ):
        with pytest.raises(StoreNotFound, match="table") as told:
            act()
        assert "create=True" in str(told.value)
    absent.close()


def test_a_store_counts_its_writes(store: Any, row: Lease) -> None:
    sent = store.writes
    store.get(row.key)
    list(store.list(SHARD_LEASE, row.namespace))
    assert store.writes == sent
    assert store.replace(row, lease.renew(row, "w1", 8))
    assert not store.create(row)
    assert store.writes == sent + 2
