# SPDX-License-Identifier: Apache-2.0
"""Staging is set to another folder: nothing is looked for where it is not, and what is not done is not left behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.drop import drop
from shardbatch.control.reset import reset
from shardbatch.core.batch import BatchState
from shardbatch.core.interval import MARGIN_MS, Interval
from shardbatch.errors import SourceError, StagingMoved
from shardbatch.landing.area import StagingArea
from shardbatch.run import claim, land
from tests.support.rig import Rig
from tests.support.verbs import act

BY: dict[str, Any] = {"actor": "ada", "reason": "the disk was changed", "dry_run": False}


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "old")


def moved(rig: Rig, name: str = "new") -> Rig:
    """The same application, whose DAG names another folder."""
    folder = rig.folder.parent / name
    folder.mkdir(exist_ok=True)
    return replace(rig, folder=folder)


def landed(rig: Rig, run: str = "r1") -> list[str]:
    """A run that dies after it landed its slices."""
    sent = rig.stream.put("a", "b")
    rig.land(run, rig.claim(run))
    rig.over(run)
    return sent


def refused(rig: Rig, run: str, **changes: Any) -> str:
    with pytest.raises(StagingMoved) as told:
        rig.claim(run, **changes)
    assert not told.value.retryable
    return str(told.value)


def test_slices_in_the_old_folder_hold_the_claim_until_they_are_committed(rig: Rig) -> None:
    sent = landed(rig)
    new = moved(rig)
    text = refused(new, "r2")
    assert f"stand in file://{rig.folder}, and staging is file://{new.folder} now" in text
    assert "Set staging back to the old folder" in text
    rig.run("r3")
    assert rig.committed() == sent
    later = rig.stream.put("c")
    done = new.run("r4")  # nothing waits in the old folder any more
    assert new.records(done.batch_id or "") == later


def test_a_folder_that_is_spelled_otherwise_is_the_same(rig: Rig) -> None:
    sent = landed(rig)
    rig.run("r2", landing=StagingArea(f"file:{rig.folder.parent}//old/"))
    assert rig.committed() == sent


def test_a_frozen_batch_in_the_old_folder_holds_the_claim_and_a_dropped_one_does_not_come_again(rig: Rig) -> None:
    sent = rig.stream.put("a", "b")
    rig.land("r1", rig.claim("r1"))
    frozen = rig.freeze("r1")
    rig.over("r1")
    new = moved(rig)
    # The lease says first where its slice stands; the batch alone is seen where a version before landed the slice.
    assert "stands in" in refused(new, "r2")
    space = rig.namespace
    (done,) = act(drop, rig.store, space, frozen.batch_id or "", landing=StagingArea(str(new.folder)), **BY)
    assert f"this staging is not the batch's, which says where: file://{rig.folder}" in done.effect
    assert "stand in" in refused(new, "r3")
    assert not rig.batches(BatchState.FROZEN)
    (row,) = rig.consumer().leases()
    act(reset, rig.store, space, to=row.checkpoint, shards=[row.shard_id], clock=rig.time.clock(), **BY)
    done_anew = new.run("r4")
    assert new.records(done_anew.batch_id or "") == sent


def test_a_batch_of_slices_of_which_nobody_knows_where_they_stand_is_looked_for_by_its_manifest(rig: Rig) -> None:
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    frozen = rig.freeze("r1")
    rig.over("r1")
    (row,) = rig.consumer().leases()
    rig.store.replace(row, replace(row, staging=None, lease_count=row.lease_count + 1))
    text = refused(moved(rig), "r2")
    assert f"Batch {frozen.batch_id} stands in {frozen.manifest_uri}" in text


def test_a_run_whose_dag_changes_between_its_tasks_freezes_and_commits_nothing_from_elsewhere(rig: Rig) -> None:
    sent = rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    new = moved(rig)
    with pytest.raises(StagingMoved):
        new.freeze("r1")
    frozen = rig.freeze("r1")
    with pytest.raises(StagingMoved):
        new.freeze("r1", frozen.batch_id)
    rig.work(frozen)
    with pytest.raises(StagingMoved):
        new.commit("r1", frozen)
    rig.commit("r1", frozen)
    assert rig.committed() == sent


def test_a_read_that_lands_in_the_old_folder_after_the_new_one_was_claimed_with_is_seen(rig: Rig) -> None:
    """Its lease was held, with nothing landed, when the first run of the new folder looked."""
    sent = rig.stream.put("a")
    found = rig.claim("r1")
    new = moved(rig)
    new.claim("r2")
    rig.land("r1", found)
    rig.over("r1")
    rig.over("r2")
    refused(new, "r3")
    rig.run("r4")
    assert rig.committed() == sent


def test_the_replay_of_a_batch_that_stands_elsewhere_says_where(rig: Rig) -> None:
    rig.stream.put("a")
    done = rig.run("r1")
    new = moved(rig)
    text = refused(new, "again", replay=done.batch_id)
    assert f"Batch {done.batch_id} stands in {done.manifest_uri}" in text
    with pytest.raises(StagingMoved):
        new.freeze("r1", done.batch_id)  # its own run, cleared
    rig.over("again")
    assert rig.claim("back", replay=done.batch_id).batch_id == done.batch_id


def test_an_interval_is_not_read_on_in_another_folder(rig: Rig) -> None:
    (shard,) = rig.stream.shards
    rig.stream.page_size = 1
    rig.stream.put("a", "b", "c")
    owner = replace(rig.owner("backfill"), mode="interval")
    span = Interval(rig.stream.now_ms, rig.stream.now_ms + 1000)
    rig.time.ms = rig.stream.now_ms = span.to_ms + MARGIN_MS
    consumer = rig.consumer(scope=owner.scope, interval=span)
    (group,) = claim(consumer, owner).groups
    read = rig.stream.read

    def cut(shard_id: str, position: Any) -> Any:
        yield next(read(shard_id, position))
        raise SourceError("cut")

    rig.stream.read = cut  # type: ignore[method-assign]
    with pytest.raises(SourceError):
        land(consumer, owner, group.group, rig.stream.now_ms)
    rig.stream.read = read  # type: ignore[method-assign]
    elsewhere = moved(rig).consumer(scope=owner.scope, interval=span)
    with pytest.raises(StagingMoved, match=shard):
        land(elsewhere, owner, group.group, rig.stream.now_ms)
    with pytest.raises(StagingMoved):
        claim(elsewhere, owner)
    (landed,) = (land(consumer, owner, group.group, rig.stream.now_ms),)
    assert (landed.records, landed.errors) == (3, {})
