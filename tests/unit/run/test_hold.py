# SPDX-License-Identifier: Apache-2.0
"""A lease in the hands of a read task: what it writes, when it is lost, and that it shows signs of life."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from shardbatch.core import lease as leases
from shardbatch.core.lease import Lease
from shardbatch.core.policies import ClaimOptions
from shardbatch.core.position import after
from shardbatch.core.rows import Row
from shardbatch.core.slice import Slice
from shardbatch.errors import StoreError
from shardbatch.run.hold import Held, Renewal
from shardbatch.stores.memory import MemoryStore
from tests.support.passing import only
from tests.support.rig import Rig
from tests.support.waiting import wait_until


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(tmp_path / "staging")
    made.claim("r1")
    return made


@pytest.fixture
def held(rig: Rig) -> Held:
    return Held(rig.consumer(), str(rig.owner("r1")), only(rig))


def sliced(row: Lease, last: str = "100") -> Slice:
    return Slice(row.shard_id, row.checkpoint, after(last), False, records=1, last=last)


def robbed(rig: Rig) -> Lease:
    """Another run takes it."""
    row = only(rig)
    taken = leases.take(row, str(rig.owner("r2")), "000", 1)
    assert rig.store.replace(row, taken)
    return taken


def test_a_slice_is_stored_once_whoever_of_the_tries_is_first(rig: Rig, held: Held) -> None:
    other = Held(rig.consumer(), str(rig.owner("r1")), held.row)
    assert held.land(sliced(held.row))
    assert held.row == only(rig)
    assert not other.land(sliced(other.row, "200"))
    assert other.row == only(rig)  # what the first try stored is the answer of both
    assert not other.lost


def test_an_interval_slice_is_read_on_behind_what_was_begun(rig: Rig) -> None:
    row = replace(only(rig), scope="backfill")
    assert rig.store.create(row)
    held = Held(rig.consumer(scope="backfill"), str(rig.owner("r1")), row)
    begun = sliced(row)
    more = Slice(row.shard_id, begun.until, after("200"), False, records=1, last="200")
    assert not held.land(more, begun)  # nothing stands there yet
    assert held.land(begun)
    assert held.land(more, begun)
    assert held.row.pending == begun.followed_by(more)


def test_a_lease_that_was_only_touched_is_written_all_the_same(rig: Rig, held: Held) -> None:
    row = only(rig)
    assert rig.store.replace(row, leases.renew(row, str(rig.owner("r1")), 1))
    held.give_back(7)
    assert (only(rig).lease_owner, only(rig).caught_up_ms, held.lost) == (None, 7, False)


def test_a_lease_that_another_has_is_lost_and_written_no_more(rig: Rig, held: Held) -> None:
    taken = robbed(rig)
    assert not held.land(sliced(held.row))
    assert held.lost
    held.renew()
    held.give_back(None)
    assert only(rig) == taken
    assert not held.gone


@pytest.mark.parametrize("what", ["land", "renew", "give_back"])
def test_a_try_writes_nothing_once_its_run_gave_the_lease_back_and_took_it_again(
    rig: Rig, held: Held, what: str
) -> None:
    """Owner and checkpoint are the same, but clean-up may have removed its files in between."""
    me = str(rig.owner("r1"))
    freed = leases.release(only(rig), 1)
    assert rig.store.replace(only(rig), freed)
    again = leases.take(freed, me, held.row.read_group, 2)
    assert rig.store.replace(freed, again)
    {
        "land": lambda: held.land(sliced(held.row)),
        "renew": held.renew,
        "give_back": lambda: held.give_back(7),
    }[what]()
    assert held.lost
    assert only(rig) == again
    assert Held(rig.consumer(), me, again).land(sliced(again))


def test_an_interval_slice_is_not_read_on_by_a_try_of_before_its_run_took_the_lease_again(rig: Rig) -> None:
    me = str(rig.owner("r1"))
    row = replace(only(rig), scope="backfill")
    assert rig.store.create(row)
    held = Held(rig.consumer(scope="backfill"), me, row)
    begun = sliced(row)
    assert held.land(begun)
    zombie = Held(rig.consumer(scope="backfill"), me, held.row)
    freed = leases.release(held.row, 1)
    assert rig.store.replace(held.row, freed)
    assert rig.store.replace(freed, leases.take(freed, me, "000", 2))
    more = Slice(row.shard_id, begun.until, after("200"), False, records=1, last="200")
    assert not zombie.land(more, begun)
    assert zombie.lost


def test_a_row_that_is_not_there_any_more_is_lost_and_gone(rig: Rig, held: Held) -> None:
    assert rig.store.delete(only(rig))
    assert not held.land(sliced(held.row))
    assert (held.lost, held.gone) == (True, True)


def test_a_landed_slice_is_not_given_back(rig: Rig, held: Held) -> None:
    held.land(sliced(held.row))
    before = only(rig)
    held.give_back(7)
    assert only(rig) == before


def test_a_lease_that_showed_no_life_for_too_long_is_nobodys_and_is_told_so(held: Held) -> None:
    held.silent_s = 301.0
    with pytest.raises(StoreError, match="no sign of life for 301 s"):
        _ = held.lost


class Deaf(MemoryStore):
    """A store that takes no writes while it is deaf."""

    deaf = False

    def replace(self, seen: Row, new: Row) -> bool:
        if self.deaf:
            raise StoreError("The store is silent.")
        return super().replace(seen, new)


def test_what_a_task_holds_is_renewed_until_the_task_ends(rig: Rig, held: Held) -> None:
    options = ClaimOptions(lease_duration=timedelta(seconds=0.03))
    renewal = Renewal(rig.consumer(options=options))
    renewal.add(held)
    before = only(rig).lease_count
    with renewal.running():
        wait_until(lambda: only(rig).lease_count > before + 1, 30, "two signs of life")
    after_it = only(rig).lease_count
    assert only(rig).lease_owner == str(rig.owner("r1"))
    assert only(rig).lease_count == after_it


def test_a_store_that_is_silent_for_a_lease_duration_ends_the_read(tmp_path: Path) -> None:
    store = Deaf()
    rig = Rig(tmp_path / "staging", store=store)
    rig.claim("r1")
    held = Held(rig.consumer(), str(rig.owner("r1")), only(rig))
    renewal = Renewal(rig.consumer(options=ClaimOptions(lease_duration=timedelta(seconds=0.03))))
    renewal.add(held)
    store.deaf = True
    rig.time.ms += 1_000
    with renewal.running():
        wait_until(lambda: held.silent_s is not None, 30, "the silence to be noticed")
        store.deaf = False
        wait_until(lambda: held.silent_s is None, 30, "a sign of life")  # it is back: the read goes on
    assert not held.lost
    assert any("Could not renew the lease" in line for line in rig.said)
