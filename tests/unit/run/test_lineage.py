# SPDX-License-Identifier: Apache-2.0
"""Parents before children where reshards fall between a claim and its reads, and what following children costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardbatch.core import lease as leases
from shardbatch.core.policies import ClaimOptions
from shardbatch.core.ports import Verdict
from shardbatch.core.position import LATEST, TRIM_HORIZON
from shardbatch.core.rows import Key, Row
from shardbatch.errors import OwnerUnknown
from shardbatch.stores.memory import MemoryStore
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def test_a_child_waits_for_a_listed_parent_that_has_no_row_yet(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=2)
    left, right = rig.stream.shards
    found = rig.claim("r1", options=ClaimOptions(max_shards=1))  # the left shard only
    inner, _ = rig.stream.split(right)
    first = rig.stream.put("a", "b", shard_id=inner)
    child = rig.stream.merge(left, inner)
    then = rig.stream.put("c", "d", shard_id=child)
    rig.land("r1", found)
    frozen = rig.freeze("r1")
    rig.commit("r1", frozen)
    rig.over("r1")
    assert rig.committed() == []  # the left shard ended empty, and its child's other parent is unread
    rig.run("r2")
    rig.run("r3")
    assert rig.committed() == first + then


def test_the_stream_is_listed_once_for_all_children_that_the_listing_shows(rig: Rig) -> None:
    rig.stream = ScriptedStream(shards=6)
    for parent in list(rig.stream.shards):
        rig.stream.split(parent)
    found = rig.claim("r1", options=ClaimOptions(read_tasks=1))
    listed = []
    list_shards = rig.stream.list_shards
    rig.stream.list_shards = lambda: listed.append(1) or list_shards()  # type: ignore[method-assign, func-returns-value]
    (landed,) = rig.land("r1", found)
    assert landed.ended == 6
    assert landed.shards == 18
    assert len(listed) - 6 <= 1  # the scripted shards list once themselves, to name their children


@pytest.mark.parametrize(
    "reader", [pytest.param("another", id="nobody knows"), pytest.param("here/dag/r0/orders/incremental", id="at work")]
)
def test_a_child_that_another_run_reads_is_left_to_it(rig: Rig, reader: str) -> None:
    rig.stream.put("a")
    (parent,) = rig.stream.shards
    found = rig.claim("r1")
    left, right = rig.stream.split(parent)
    rig.stream.put("b", shard_id=left)
    consumer = rig.consumer()
    child = next(shard for shard in rig.stream.list_shards() if shard.shard_id == left)
    theirs = leases.take(leases.add(consumer.namespace, "", child, TRIM_HORIZON, 7, 1), reader, "000", 1)
    assert rig.store.create(theirs)
    rig.land("r1", found)
    assert consumer.lease(left) == theirs
    followed = [line for line in rig.said if "follows its parents" in line]
    assert len(followed) == 1
    assert right in followed[0]


def test_a_first_claim_begins_children_that_are_there_already_where_it_was_asked_to(rig: Rig) -> None:
    rig.stream.put("a")
    (parent,) = rig.stream.shards
    left, _ = rig.stream.split(parent)
    rig.stream.put("b", shard_id=left)
    rig.stream.now_ms += 60_000
    rig.run("r1", start=LATEST)
    assert rig.committed() == []
    sent = rig.stream.put("c", shard_id=left)
    rig.run("r2", start=LATEST)
    assert rig.committed() == sent


def read_by_a_run_that_dies(rig: Rig) -> list[str]:
    rig.stream = ScriptedStream(shards=1)
    [parent] = rig.stream.shards
    sent = rig.stream.put("a", "b")
    rig.stream.split(parent)
    sent += rig.stream.put("c", "d")
    rig.land("r1", rig.claim("r1"))
    assert all(row.lease_owner == str(rig.owner("r1")) for row in rig.consumer().leases())
    return sent


def test_children_that_a_dead_run_landed_are_frozen_with_their_parent_by_the_next_run(rig: Rig) -> None:
    sent = read_by_a_run_that_dies(rig)
    rig.over("r1")
    rig.run("r2")
    assert sorted(rig.committed(), key=int) == sent
    assert {row.lease_owner for row in rig.consumer().leases()} == {None}


def test_children_stay_with_an_owner_of_whom_nobody_can_say_whether_it_is_over(rig: Rig) -> None:
    sent = read_by_a_run_that_dies(rig)
    rig.over("r1")
    found = rig.claim("r2")

    def silent(owner: str) -> Verdict:
        raise OwnerUnknown("Airflow gives no answer")

    rig.land("r2", found, liveness=silent)
    frozen = rig.freeze("r2")
    rig.work(frozen)
    rig.commit("r2", frozen)
    assert sorted(rig.committed(), key=int) == sent[:2]
    rig.over("r2")
    rig.run("r3")
    assert sorted(rig.committed(), key=int) == sent


class CountingStore(MemoryStore):
    """Counts how often single rows are asked for."""

    gets = 0

    def get(self, key: Key) -> Row | None:
        self.gets += 1
        return super().get(key)


def test_a_lineage_costs_a_few_rows_a_shard_however_long_it_is_without_records(tmp_path: Path) -> None:
    asked = []
    for generations in (10, 60):
        store = CountingStore()
        rig = Rig(tmp_path / f"staging-{generations}", ScriptedStream(), store=store)
        youngest = next(iter(rig.stream.shards))
        for _ in range(generations):
            youngest = rig.stream.merge(*rig.stream.split(youngest))
        sent = rig.stream.put("a", "b")
        rig.run("r1")
        assert rig.committed() == sent
        asked.append(store.gets / len(rig.stream.shards))
    few, many = asked
    assert many < few + 1
