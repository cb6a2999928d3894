# SPDX-License-Identifier: Apache-2.0
"""An application's own row, made at its first claim, and rows for shards that have none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from shardbatch.core.application import Application
from shardbatch.core.owner import Owner
from shardbatch.core.policies import ClaimOptions
from shardbatch.core.position import LATEST, TRIM_HORIZON, Position, at_timestamp
from shardbatch.errors import ApplicationTaken, ImportUnfinished, StreamRecreated
from shardbatch.run.enrol import add_rows, check, enrol
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(tmp_path / "staging", ScriptedStream(shards=2))
    made.store.prepare()
    return made


def added(rig: Rig, row: Application, **more: object) -> dict[str, Position]:
    """Where each shard begins that has a row once those that lack one were added."""
    consumer = rig.consumer()
    rows = add_rows(consumer, rig.stream.list_shards(), consumer.leases(), row, **more)  # type: ignore[arg-type]
    assert sorted(consumer.leases(), key=str) == sorted(rows, key=str)
    return {lease.shard_id: lease.checkpoint for lease in rows}


def test_the_first_claim_resolves_the_start_once_and_for_all(rig: Rig) -> None:
    first = enrol(rig.consumer(start=LATEST), rig.owner("r1"))
    assert first.start_position == at_timestamp(rig.stream.now_ms)
    assert [group.group_id for group in first.claimed_by] == ["orders"]
    rig.stream.now_ms += 1_000
    assert enrol(rig.consumer(start=LATEST), rig.owner("r2")) == first


def test_another_group_is_let_in_if_it_says_that_it_shares(rig: Rig) -> None:
    enrol(rig.consumer(), rig.owner("r1"))
    other = Owner("here", "dag", "r1", "other")
    with pytest.raises(ApplicationTaken, match=r"group 'orders' of DAG 'dag'.*not by group 'other'"):
        enrol(rig.consumer(), other)
    row = enrol(rig.consumer(options=ClaimOptions(shared=True)), other)
    assert [group.group_id for group in row.claimed_by] == ["orders", "other"]


def test_another_stream_of_the_same_name_is_refused(rig: Rig) -> None:
    row = enrol(rig.consumer(), rig.owner("r1"))
    check(row, rig.stream.identity())
    rig.stream.created_ms += 1
    with pytest.raises(StreamRecreated, match="checkpoints belong to"):
        enrol(rig.consumer(), rig.owner("r1"))


def test_nothing_is_claimed_while_leases_are_being_taken_over(rig: Rig) -> None:
    row = enrol(rig.consumer(), rig.owner("r1"))
    assert rig.store.replace(row, replace(row, importing="by ann", row_count=row.row_count + 1))
    with pytest.raises(ImportUnfinished, match="by ann"):
        enrol(rig.consumer(), rig.owner("r1"))


def test_a_retention_that_was_changed_is_noted(rig: Rig) -> None:
    enrol(rig.consumer(), rig.owner("r1"))
    rig.stream.retention *= 2
    row = enrol(rig.consumer(), rig.owner("r1"))
    assert row.retention_ms == rig.stream.retention_ms()
    assert rig.consumer().application() == row


def test_shards_without_a_row_begin_at_the_start_and_children_at_their_oldest_record(rig: Rig) -> None:
    row = enrol(rig.consumer(start=LATEST), rig.owner("r1"))
    parent, other = rig.stream.shards
    assert added(rig, row) == {parent: row.start_position, other: row.start_position}
    rig.stream.put("a", shard_id=parent)
    rig.run("r1", start=LATEST)
    low, high = rig.stream.split(parent)
    found = added(rig, row)
    assert (found[low], found[high]) == (TRIM_HORIZON, TRIM_HORIZON)


def test_orphans_wait_and_so_do_shards_whose_instant_has_not_come(rig: Rig) -> None:
    row = enrol(rig.consumer(), rig.owner("r1"))
    first, second = rig.stream.shards
    assert set(added(rig, row, orphaned=frozenset([first]))) == {second}
    ahead = replace(row, start_position=at_timestamp(rig.stream.now_ms + 60_000))
    assert set(added(rig, ahead, reached_ms=rig.stream.now_ms)) == {second}
    assert set(added(rig, ahead, reached_ms=rig.stream.now_ms + 60_000)) == {first, second}
