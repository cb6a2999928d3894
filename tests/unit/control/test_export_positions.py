# SPDX-License-Identifier: Apache-2.0
"""Where an application stands, written down by what is committed; what positions cannot say is said beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.action import TRIES
from shardbatch.control.export_positions import export_positions
from shardbatch.control.park import park
from shardbatch.control.position_format import Exported
from shardbatch.control.reset import reset
from shardbatch.control.set_aside import set_aside
from shardbatch.core.batch import BatchState
from shardbatch.core.lease import NEVER_MS, Lease
from shardbatch.core.owner import ResetHolder
from shardbatch.core.policies import GapPolicy, Policies
from shardbatch.core.position import SHARD_END, at_timestamp
from shardbatch.core.rows import SHARD_LEASE
from shardbatch.errors import ApplicationUnknown, ImportUnfinished, LeaseLost, StreamRecreated
from tests.support.mortal import Killed, MortalStore
from tests.support.plain_positions import PlainPlaces
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import application, done, everything
from tests.unit.control.test_park import frozen


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def export(rig: Rig, **more: Any) -> Exported:
    return export_positions(rig.consumer(**more), source=rig.stream, form=PlainPlaces())


def remarks(found: Exported) -> list[tuple[str, str, str]]:
    assert all(remark.text for remark in found.remarks)
    return [(remark.kind, remark.name, remark.result) for remark in found.remarks]


def test_what_is_committed_is_written_and_no_row_is_changed(rig: Rig) -> None:
    (shard,) = rig.stream.shards
    *_, last = rig.stream.put("a", "b")
    rig.run("r1")
    before = everything(rig)
    assert export(rig) == Exported({shard: last}, ())
    assert everything(rig) == before


def test_a_shard_that_has_no_row_yet_is_written_where_its_reading_would_begin(rig: Rig) -> None:  # F4
    (parent,) = rig.stream.shards
    rig.run("r1", start=at_timestamp(rig.stream.now_ms))
    low, high = rig.stream.split(parent)
    assert export(rig).positions == {
        parent: f"AT_TIMESTAMP:{rig.stream.now_ms}",
        low: "TRIM_HORIZON",
        high: "TRIM_HORIZON",
    }
    (row,) = rig.consumer().leases()
    assert row.shard_id == parent


def test_what_a_run_has_read_and_not_committed_is_not_in_it(rig: Rig) -> None:
    (shard,) = rig.stream.shards
    rig.stream.put("a", "b")
    found = rig.claim("r1")
    assert remarks(export(rig)) == [("lease", shard, "read again")]
    assert "is reading it" in export(rig).remarks[0].text
    rig.land("r1", found)
    assert export(rig).positions == {shard: "TRIM_HORIZON"}
    assert remarks(export(rig)) == [("lease", shard, "read again")]
    assert "2 records of it are landed and not committed" in export(rig).remarks[0].text


@pytest.mark.parametrize("parked", [True, False])
def test_an_unfinished_batch_is_not_in_it(rig: Rig, parked: bool) -> None:
    (shard,) = rig.stream.shards
    rig.stream.put("a", "b")
    _, batch_id = frozen(rig)
    if parked:
        done(park, rig, batch_id)
    found = export(rig)
    assert found.positions == {shard: "TRIM_HORIZON"}
    assert remarks(found) == [("batch", batch_id, "read again")]
    assert ("PARKED" in found.remarks[0].text) is parked


def test_a_batch_that_was_set_aside_is_behind_it_and_told(rig: Rig) -> None:
    (shard,) = rig.stream.shards
    *_, last = rig.stream.put("a", "b")
    _, batch_id = frozen(rig)
    rig.over("r1")
    done(set_aside, rig, batch_id)
    found = export(rig)
    assert found.positions == {shard: last}
    assert remarks(found) == [("batch", batch_id, "not read")]


def test_a_decided_batch_counts_before_its_leases_have_moved(rig: Rig) -> None:  # B4, L5
    rig.stream = ScriptedStream(shards=2)
    one, two = rig.stream.shards
    (first,), (second,) = rig.stream.put("a", shard_id=one), rig.stream.put("b", shard_id=two)
    found = rig.claim("r1")
    rig.land("r1", found)
    made = rig.freeze("r1", found.batch_id)
    rig.work(made)
    for at in range(8):  # a death right behind the decision: no lease has moved
        with pytest.raises(Killed):
            rig.commit("r1", made, store=MortalStore(rig.store, at, applied=True))
        if rig.batches(BatchState.COMMITTED):
            break
    assert all(row.batch_id for row in rig.consumer().leases())
    written = export(rig)
    assert written.positions == {one: first, two: second}
    assert remarks(written) == [("batch", made.batch_id, "unfinished")]
    assert all(row.batch_id for row in rig.consumer().leases())


def test_a_gap_that_waits_is_told(rig: Rig) -> None:
    (shard,) = rig.stream.shards
    (first,) = rig.stream.put("a")
    rig.run("r0")
    rig.stream.put("b", "c", "d")
    rig.stream.trim(shard, 1)
    rig.stream.now_ms += 48 * 3_600_000
    rig.time.ms += 48 * 3_600_000
    rig.land("r1", rig.claim("r1"))
    found = export(rig)
    assert found.positions == {shard: first}
    assert ("lease", shard, "gap") in remarks(found)


def test_what_a_reset_skipped_is_told(rig: Rig) -> None:
    (shard,) = rig.stream.shards
    rig.stream.put("a")
    rig.run("r1")
    rig.stream.now_ms += 60_000
    done(reset, rig, every=True, to=at_timestamp(rig.stream.now_ms))
    found = export(rig)
    assert remarks(found) == [("lease", shard, "gap")]
    assert "bad data" in found.remarks[0].text


def test_what_a_shard_lost_that_left_the_stream_is_told(rig: Rig) -> None:
    (shard,) = rig.stream.shards
    (first,) = rig.stream.put("a")
    rig.run("r1")
    rig.stream.put("b")
    rig.stream.split(shard)
    rig.stream.forget(shard)
    found = export(rig)
    assert found.positions[shard] == first
    assert remarks(found) == [("lease", shard, "gap")]
    rig.run("r2", policies=Policies(gap=GapPolicy.RECORD))
    found = export(rig)
    assert found.positions[shard] == str(SHARD_END)
    assert found.remarks == ()


def test_a_shard_that_may_have_lost_its_first_records_is_told(rig: Rig) -> None:
    (shard,) = rig.stream.shards
    rig.run("r1", start=at_timestamp(rig.stream.now_ms))
    (row,) = rig.consumer().leases()
    assert export(rig).remarks == ()
    assert rig.store.replace(row, replace(row, caught_up_ms=NEVER_MS, lease_count=row.lease_count + 1))
    assert remarks(export(rig)) == [("lease", shard, "gap")]


# what is refused


def test_an_application_that_is_not_there_or_not_whole_is_refused(rig: Rig) -> None:
    rig.store.prepare()
    with pytest.raises(ApplicationUnknown):
        export(rig)
    rig.run("r1")
    row = application(rig)
    assert rig.store.replace(row, replace(row.acted("x"), importing="ann began to import"))
    with pytest.raises(ImportUnfinished, match="ann began"):
        export(rig)


def test_another_stream_of_the_name_is_refused(rig: Rig) -> None:
    rig.run("r1")
    rig.stream.created_ms = 2
    with pytest.raises(StreamRecreated):
        export(rig)


def test_a_reset_that_has_not_ended_is_refused(rig: Rig) -> None:
    rig.run("r1")
    (row,) = rig.consumer().leases()
    assert rig.store.replace(row, replace(row, lease_owner=str(ResetHolder("x")), lease_count=row.lease_count + 1))
    with pytest.raises(LeaseLost, match="run 'airflow shardbatch reset' again"):
        export(rig)


class Moving:
    """A store in which something happens between a list of leases and the next read."""

    def __init__(self, store: Any, happen: Callable[[], Any], times: int) -> None:
        self._store, self._happen, self.left = store, happen, times

    def list(self, table: Any, *words: Any, **more: Any) -> Any:
        found = list(self._store.list(table, *words, **more))
        if table is SHARD_LEASE and self.left:
            self.left -= 1
            self._happen()
        return iter(found)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_a_commit_in_the_middle_of_the_list_is_seen_whole(rig: Rig) -> None:
    (parent,) = rig.stream.shards
    rig.stream.put("a")
    rig.run("r0")
    low, high = rig.stream.split(parent)
    sent = rig.stream.put("b", shard_id=low)
    found = export(rig, store=Moving(rig.store, lambda: rig.run("r1"), 1))
    assert found.positions == {parent: "SHARD_END", low: sent[-1], high: "TRIM_HORIZON"}


def test_leases_that_never_stand_still_are_refused(rig: Rig) -> None:
    rig.stream.put("a")
    rig.run("r0")
    moves = iter(range(1000))

    def move() -> None:
        (row,) = rig.consumer().leases()
        assert isinstance(row, Lease)
        rig.store.replace(row, replace(row, lease_count=row.lease_count + 1, lease_owner=f"o{next(moves)}"))

    with pytest.raises(LeaseLost, match="written all the while"):
        export(rig, store=Moving(rig.store, move, TRIES))
