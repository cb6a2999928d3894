# SPDX-License-Identifier: Apache-2.0
"""Compaction: rows of shards that are long gone leave the store, and nothing is read again for want of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.reset import reset
from shardbatch.core.interval import Interval
from shardbatch.core.owner import Owner
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.run import maintenance
from tests.support.rig import Rig
from tests.support.verbs import done

DAY_MS = 86_400_000


def pass_days(rig: Rig, days: float) -> None:
    """Time passes, for the workers and for the stream, whose records expire."""
    rig.time.ms += int(days * DAY_MS)
    rig.stream.now_ms += int(days * DAY_MS)
    kept = rig.stream.now_ms - int(rig.stream.retention / timedelta(milliseconds=1))
    for shard in rig.stream.shards.values():
        shard.items = [item for item in shard.items if item.arrival_ms >= kept]


def rows(rig: Rig) -> dict[str, int]:
    """The counters of all lease rows."""
    return {lease.shard_id: lease.lease_count for lease in rig.consumer().leases()}


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """A shard that was split, and is drained; its children have records too. All of it is committed."""
    rig = Rig(tmp_path / "staging")
    (parent,) = rig.stream.shards
    rig.stream.put("a", "b", "c")
    low, high = rig.stream.split(parent)
    rig.stream.put("d", shard_id=low)
    rig.stream.put("e", shard_id=high)
    rig.run("r1")
    assert len(rig.committed()) == 5
    return rig


def keep_alive(rig: Rig, run: str) -> None:
    """A run that finds something in every open shard, so that none of them has a gap."""
    for shard_id, shard in rig.stream.shards.items():
        if not shard.closed:
            rig.stream.put("x", shard_id=shard_id)
    rig.run(run)


def test_a_row_goes_when_its_shard_has_left_the_stream_and_its_records_have_expired(rig: Rig) -> None:
    parent, *children = rig.stream.shards
    rig.stream.forget(parent)  # K-10: a listing that lacks it, while it is there
    for run in ("r2", "r3"):
        pass_days(rig, 0.9)
        keep_alive(rig, run)
    assert parent in rows(rig)
    pass_days(rig, 0.9)
    rig.stream.shards[parent].gone = False
    keep_alive(rig, "r4")
    assert parent in rows(rig), "it is listed"
    rig.stream.forget(parent)
    keep_alive(rig, "r5")
    assert sorted(rows(rig)) == children
    assert any("Removed the rows of 1 completed shards" in line for line in rig.said)
    assert len(rig.committed()) == 5 + 4 * 2


def test_a_shard_that_comes_back_into_the_listing_is_not_read_again(rig: Rig) -> None:
    parent, *_ = rig.stream.shards  # K-38, KV-16: no replay from TRIM_HORIZON
    used = rows(rig)[parent]
    for run in ("r2", "r3", "r4"):
        pass_days(rig, 0.7)
        keep_alive(rig, run)
    rig.stream.forget(parent)
    keep_alive(rig, "r5")
    assert parent not in rows(rig)
    before = rig.committed()
    rig.stream.shards[parent].gone = False
    for run in ("r6", "r7"):
        keep_alive(rig, run)
    again = next(lease for lease in rig.consumer().leases() if lease.shard_id == parent)
    assert again.completed
    assert rig.committed()[: len(before)] == before
    assert len(rig.committed()) == len(set(rig.committed())) == len(before) + 4
    assert again.lease_count > 1000 + used or again.lease_count < used - 1000, "a counter never begins again (L1)"


def test_a_lineage_goes_oldest_first_and_some_in_each_run(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "MOST_REMOVED", 2)
    parent, low, high = rig.stream.shards
    merged = rig.stream.merge(low, high)
    keep_alive(rig, "r2")
    last = rig.stream.split(merged)
    keep_alive(rig, "r3")
    pass_days(rig, 2.1)
    for shard_id in (parent, low, high, merged):
        rig.stream.forget(shard_id)
    keep_alive(rig, "r4")
    assert sorted(rows(rig)) == [high, merged, *last]
    keep_alive(rig, "r5")
    assert sorted(rows(rig)) == sorted(last)


def test_the_rows_stay_while_nobody_knows_how_long_records_are_kept(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    parent, *_ = rig.stream.shards
    pass_days(rig, 2.1)
    rig.stream.forget(parent)
    monkeypatch.setattr(type(rig.stream), "retention_ms", lambda self: None)
    keep_alive(rig, "r2")
    assert parent in rows(rig)


def test_an_interval_run_removes_nothing(rig: Rig) -> None:
    parent, *_ = rig.stream.shards
    pass_days(rig, 2.1)
    rig.stream.forget(parent)
    owner = Owner("here", "dag", "r2", "orders", "interval")
    span = Interval(rig.stream.now_ms - 1000, rig.stream.now_ms)
    from shardbatch.run import claim

    claim(rig.consumer(scope=owner.scope, interval=span), owner)
    assert parent in rows(rig)


def test_a_row_that_a_reset_takes_meanwhile_stays(rig: Rig) -> None:
    parent, *_ = rig.stream.shards
    pass_days(rig, 2.1)
    rig.stream.forget(parent)
    store = rig.store

    class Late:
        """A person resets the lineage just before its row is removed."""

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def delete(self, seen: Any) -> bool:
            assert done(reset, rig, shards=[parent], to=TRIM_HORIZON, force=True)
            return store.delete(seen)

    rig.claim("r2", store=Late())
    (row,) = [lease for lease in rig.consumer().leases() if lease.shard_id == parent]
    assert not row.completed


def test_a_row_that_looks_old_stays_if_only_one_listing_lacks_its_shard(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that was wrong wrote it. Without its row a shard that is there would be read from its beginning again."""
    parent = next(iter(rig.stream.shards))
    row = rig.consumer().lease(parent)
    assert row is not None
    rig.store.replace(row, replace(row, updated_at_ms=1, lease_count=row.lease_count + 1))
    whole, lacking = rig.stream.list_shards, [True]

    def torn() -> Any:
        return [shard for shard in whole() if not (lacking and shard.shard_id == parent)]

    def once() -> Any:
        found = torn()
        lacking.clear()
        return found

    monkeypatch.setattr(rig.stream, "list_shards", once)
    rig.run("r2")
    assert parent in rows(rig)
    rig.run("r3")
    assert len(rig.committed()) == 5
