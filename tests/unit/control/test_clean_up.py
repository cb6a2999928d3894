# SPDX-License-Identifier: Apache-2.0
"""Clean-up over real folders: what goes, what stays, and what the answer says (PROTOCOL A)."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.drop import drop
from shardbatch.control.park import park
from shardbatch.control.set_aside import set_aside
from shardbatch.core import batch as batches
from shardbatch.core import lease as leases
from shardbatch.core.archive import HISTORY_FOR
from shardbatch.core.batch import BatchState
from shardbatch.core.position import TRIM_HORIZON, after, at_timestamp
from shardbatch.core.rows import SHARD_LEASE
from shardbatch.errors import ConfigurationError, SlicesGone, StagingMissing, UnsupportedSchema
from shardbatch.landing.area import StagingArea
from shardbatch.landing.layout import slice_of
from tests.support.clean_rig import (
    clean,
    committed,
    days,
    documents,
    frozen,
    landed,
    left,
    slices,
    starts,
    went,
)
from tests.support.mortal import Killed, MortalStore
from tests.support.one_by_one import OneByOne
from tests.support.passing import only
from tests.support.rig import Rig
from tests.support.verbs import application, batch, everything, told


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


# ------------------------------------------------------------------ what stays


def test_nothing_of_a_young_archive_goes_and_it_can_be_replayed(rig: Rig) -> None:
    batch_id = committed(rig)
    days(rig, 6.9)
    before = everything(rig)
    (said,) = clean(rig)
    assert (said.result, said.why) == ("already", "there is nothing to remove")
    assert everything(rig) == before
    assert rig.freeze("again", batch_id, replay=batch_id).replay


@pytest.mark.parametrize("state", ["landed", "frozen", "parked", "kept aside"])
def test_what_waits_for_work_or_for_a_person_stays_however_old(rig: Rig, state: str) -> None:
    if state == "landed":
        landed(rig)
    else:
        batch_id = frozen(rig).batch_id or ""
        if state == "parked":
            told(park, rig, batch_id)
        if state == "kept aside":
            rig.over("r1")
            told(set_aside, rig, batch_id, liveness=rig.verdict)
    rig.over("r1")
    before = slices(rig)
    days(rig, 400)
    assert went(clean(rig)) == {}
    assert slices(rig) == before
    assert len(before) == 1


def test_a_read_at_work_keeps_its_folder_and_loses_it_once_it_can_store_nothing(rig: Rig) -> None:
    rig.stream.put("a")
    rig.claim("r1")
    row = only(rig)
    writer = StagingArea(str(rig.folder)).slice(rig.namespace, row.shard_id, row.checkpoint, row.tenure)
    writer.write(rig.stream._batch(rig.stream.shards[row.shard_id].items))
    writer.finish()
    days(rig, 30)
    assert went(clean(rig)) == {}
    freed = leases.release(row, 1)
    assert rig.store.replace(row, freed)
    assert rig.store.replace(freed, leases.take(freed, str(rig.owner("r1")), "000", 2))
    assert went(clean(rig)) == {"slices": 1}
    assert slices(rig) == []


@pytest.mark.parametrize("ended", [False, True])
def test_the_rest_of_an_interval_slice_is_not_taken_from_the_read_that_goes_on(rig: Rig, ended: bool) -> None:
    """A slice is pending already, and until it has ended more of it may be stored behind it (L9)."""
    landed(rig)
    row = only(rig)
    assert row.pending is not None
    side = replace(row, scope="backfill", pending=replace(row.pending, ended=ended), tenure=row.tenure)
    assert rig.store.create(side)
    more = StagingArea(str(rig.folder)).slice(rig.namespace, row.shard_id, row.pending.until, row.tenure)
    more.write(rig.stream._batch(rig.stream.shards[row.shard_id].items))
    more.finish()
    days(rig, 30)
    assert went(clean(rig)) == ({"slices": 1} if ended else {})
    assert len(slices(rig)) == (1 if ended else 2)


def test_another_application_and_what_is_not_ours_stay(rig: Rig) -> None:
    other = Rig(rig.folder, stream=rig.stream, app="other")
    landed(other)
    strange = rig.folder / "etl" / "orders" / "slices" / "shard" / "notes"
    strange.mkdir(parents=True)
    (strange / "readme.txt").write_text("mine")
    committed(rig)
    days(rig, 400)
    clean(rig)
    assert (strange / "readme.txt").exists()
    assert len(list((rig.folder / "other" / "orders" / "slices").glob("*/*"))) == 1


def test_what_was_just_written_is_left_to_the_next_clean_up(rig: Rig) -> None:
    committed(rig)
    days(rig, 8)
    now = rig.time.ms / 1000
    for path in rig.folder.rglob("part-*"):
        os.utime(path, (now, now))
    assert went(clean(rig)) == {"archive": 1}
    assert len(slices(rig)) == 1
    days(rig, 0.1)
    assert went(clean(rig)) == {"slices": 1}


# ------------------------------------------------------------------ the archive


def test_a_batch_whose_time_is_over_is_retired_and_its_slices_go(rig: Rig) -> None:
    batch_id = committed(rig)
    days(rig, 8)
    found = clean(rig)
    assert went(found) == {"archive": 1, "slices": 1}
    assert {item.kind: item.bytes for item in found}["slices"] > 0
    row = batch(rig, batch_id)
    assert row.retired_ms is not None
    assert "ann removed: bad data" in (row.note or "")
    assert slices(rig) == []
    with pytest.raises(SlicesGone, match="archive_for"):
        rig.claim("again", replay=batch_id)
    assert len(rig.sink()) == 2  # its output stays


def test_a_preview_says_the_same_and_changes_nothing(rig: Rig) -> None:
    batch_id = committed(rig)
    days(rig, 8)
    rows, files = everything(rig), sorted(rig.folder.parent.rglob("*"))
    found = clean(rig, dry_run=True, reason="")
    assert {item.kind: item.result for item in found} == {"archive": "would retire", "slices": "would remove"}
    assert (everything(rig), sorted(rig.folder.parent.rglob("*"))) == (rows, files)
    numbers = {item.kind: (item.number, item.bytes) for item in found}
    assert {item.kind: (item.number, item.bytes) for item in clean(rig)} == numbers
    assert batch(rig, batch_id).retired_ms is not None


def test_the_time_counts_from_the_last_attempt(rig: Rig) -> None:
    batch_id = committed(rig)
    days(rig, 6)
    again = rig.freeze("again", batch_id, replay=batch_id)
    rig.work(again)
    rig.commit("again", again)
    rig.over("again")
    days(rig, 6)
    assert went(clean(rig)) == {}
    days(rig, 2)
    assert went(clean(rig))["archive"] == 1


@pytest.mark.parametrize(("kept_for", "gone"), [(timedelta(days=30), 0), (timedelta(hours=1), 1), (timedelta(0), 1)])
def test_how_long_is_chosen(rig: Rig, kept_for: timedelta, gone: int) -> None:
    committed(rig)
    days(rig, 8 if gone == 0 else 0.1)
    assert went(clean(rig, archive_for=kept_for)).get("archive", 0) == gone


def test_a_replay_at_work_keeps_its_batch_and_one_that_comes_too_late_is_not_recorded(rig: Rig) -> None:
    batch_id = committed(rig)
    again = rig.freeze("again", batch_id, replay=batch_id)
    days(rig, 8)
    found = clean(rig)
    assert left(found) == {batch_id: "a replay of it is at work; end that run, or wait for it"}
    assert len(slices(rig)) == 1
    rig.work(again)
    rig.over("again")  # its commit only looks dead
    assert went(clean(rig)) == {"archive": 1, "slices": 1}
    with pytest.raises(SlicesGone):
        rig.commit("again", again)
    assert batch(rig, batch_id).decided == 1


def test_a_replay_that_died_keeps_nothing(rig: Rig) -> None:
    batch_id = committed(rig)
    rig.freeze("again", batch_id, replay=batch_id)
    rig.over("again")
    days(rig, 8)
    assert went(clean(rig))["archive"] == 1


def test_a_batch_whose_commit_died_is_told_and_its_leases_move_before_it_is_retired(rig: Rig) -> None:
    first = frozen(rig)
    rig.work(first)
    with pytest.raises(Killed):
        rig.commit("r1", first, store=MortalStore(rig.store, 0, applied=True))
    rig.over("r1")
    days(rig, 8)
    assert went(clean(rig, dry_run=True)) == {"archive": 1}
    assert went(clean(rig)) == {"archive": 1}
    assert (only(rig).pending, only(rig).batch_id) == (None, None)
    assert len(rig.sink()) == 2
    assert went(clean(rig)) == {"slices": 1}  # its lease named them when it was read


# ------------------------------------------------------------------ what never commits


def test_a_dropped_batch_leaves_its_slices_to_the_lease_and_nothing_else(rig: Rig) -> None:
    first = frozen(rig)
    rig.start(first)
    rig.over("r1")
    told(drop, rig, first.batch_id, liveness=rig.verdict)
    days(rig, 1)
    assert went(clean(rig)) == {"documents": 1, "starts": 1}
    assert (documents(rig), starts(rig)) == ([], [])
    assert len(slices(rig)) == 1
    assert rig.run("r2").records == 2
    assert batch(rig, first.batch_id or "").state is BatchState.VOID
    days(rig, HISTORY_FOR.days)
    assert went(clean(rig))["rows"] == 1
    assert rig.consumer().batch(first.batch_id or "") is None


def test_the_row_of_a_void_batch_stays_while_a_lease_carries_it(rig: Rig) -> None:
    landed(rig)
    with pytest.raises(Killed):  # the stamp is written, the row is not
        rig.freeze("r1", store=MortalStore(rig.store, 1, applied=False))
    days(rig, 1)
    (name,) = documents(rig)
    assert went(clean(rig)) == {"documents": 1}
    assert batch(rig, name).state is BatchState.VOID
    days(rig, HISTORY_FOR.days + 1)
    assert went(clean(rig)) == {}
    assert only(rig).batch_id == name
    assert rig.freeze("r1").record_count == 2
    assert went(clean(rig)) == {"rows": 1}


def test_a_freeze_that_only_was_slow_loses_its_id_and_freezes_the_same_slices(rig: Rig) -> None:
    landed(rig)
    found: list[Any] = []

    class Slow(StagingArea):
        def note_attempt(self, *words: Any) -> None:
            super().note_attempt(*words)
            if not found:
                days(rig, 0.5)
                found.extend(clean(rig))

    again = rig.freeze("r1", landing=Slow(str(rig.folder)))
    assert went(found) == {"documents": 1}
    assert again.record_count == 2
    assert [row.state for row in rig.batches()] == [BatchState.VOID, BatchState.FROZEN]
    assert rig.records(again.batch_id or "")


def test_a_freeze_slower_than_a_day_makes_no_row_of_its_id(rig: Rig) -> None:
    """The void row that would stop it may be gone by then."""
    landed(rig)
    slept: list[str] = []

    class Asleep(StagingArea):
        def note_attempt(self, namespace: Any, batch_id: str, attempt: int) -> None:
            super().note_attempt(namespace, batch_id, attempt)
            if not slept:
                slept.append(batch_id)
                days(rig, 1.1)

    again = rig.freeze("r1", landing=Asleep(str(rig.folder)))
    assert again.batch_id not in slept
    assert batch(rig, slept[0]).state is BatchState.VOID


def test_a_folder_without_row_and_manifest_goes_once_no_freeze_can_come_back_to_it(rig: Rig) -> None:
    committed(rig)
    stray = rig.folder / "etl" / "orders" / "batches" / "20200101t000000000-aa" / "works" / "w"
    stray.mkdir(parents=True)
    (stray / "begun.json").write_text("{}")
    now = rig.time.ms / 1000
    os.utime(stray / "begun.json", (now, now))
    days(rig, 1)
    assert went(clean(rig)) == {}
    days(rig, 1.5)
    assert went(clean(rig)) == {"documents": 1}
    assert not stray.exists()


def test_a_folder_of_unknown_age_without_a_manifest_stays(rig: Rig) -> None:
    """Some file systems tell no times: it may be the folder of a freeze that is about to write its manifest."""
    committed(rig)
    area = StagingArea(str(rig.folder))
    area.note_attempt(rig.namespace, "20200101t000000000-aa", 1)
    found = [replace(folder, newest_ms=None) for folder in area.cleaner.batches(rig.namespace)]
    area.cleaner.batches = lambda namespace: found  # type: ignore[method-assign]
    assert went(clean(rig, landing=area)) == {}
    assert len(documents(rig)) == 2


def test_a_manifest_without_a_row_that_cannot_be_read_is_left(rig: Rig) -> None:
    landed(rig)
    with pytest.raises(Killed):  # the stamp is written, the row is not
        rig.freeze("r1", store=MortalStore(rig.store, 1, applied=False))
    (stray,) = (rig.folder / "etl" / "orders" / "batches").iterdir()
    (stray / "manifest.json").write_text("{")
    days(rig, 1)
    assert "cannot be read" in left(clean(rig))[stray.name]
    assert stray.exists()


def test_a_batch_without_a_row_is_not_given_up_by_another_ones_manifest(rig: Rig) -> None:
    """It may tell another scope."""
    other = committed(rig)
    landed(rig, "r2")
    with pytest.raises(Killed):
        rig.freeze("r2", store=MortalStore(rig.store, 1, applied=False))
    (stray,) = set(documents(rig)) - {other}
    folder = rig.folder / "etl" / "orders" / "batches"
    shutil.copy(folder / other / "manifest.json", folder / stray / "manifest.json")
    days(rig, 1)
    found = clean(rig)
    assert (went(found), list(left(found))) == ({}, [stray])
    assert rig.consumer().batch(stray) is None


@pytest.mark.parametrize("state", ["frozen", "committed"])
def test_a_void_row_of_the_same_id_in_another_scope_takes_nothing_from_a_batch(rig: Rig, state: str) -> None:
    """A manifest that was copied into another batch's folder tells a wrong scope for B2."""
    batch_id = frozen(rig).batch_id or "" if state == "frozen" else committed(rig)
    assert rig.store.create(batches.void(rig.namespace, "backfill", batch_id, 1, rig.time.ms))
    days(rig, 6)
    assert went(clean(rig)) == {}
    assert rig.records(batch_id)


# ------------------------------------------------------------------ another store than the runs'


def test_nothing_goes_while_the_staging_folder_is_not_there(rig: Rig) -> None:
    """Its mount is missing: else the rows of batches would go whose documents stand on it."""
    first = frozen(rig)
    rig.over("r1")
    told(drop, rig, first.batch_id, liveness=rig.verdict)
    assert rig.run("r2").records == 2
    days(rig, HISTORY_FOR.days + 1)
    away = rig.folder.rename(rig.folder.parent / "away")
    with pytest.raises(StagingMissing):
        clean(rig)
    away.rename(rig.folder)
    assert went(clean(rig))["rows"] == 1


def test_the_row_of_a_void_batch_stays_whose_documents_stand_in_another_staging_folder(rig: Rig) -> None:
    first = frozen(rig)
    rig.over("r1")
    told(drop, rig, first.batch_id, liveness=rig.verdict)
    assert rig.run("r2").records == 2
    days(rig, HISTORY_FOR.days + 1)
    empty = rig.folder.parent / "empty"
    empty.mkdir()
    assert "rows" not in went(clean(rig, landing=StagingArea(str(empty))))
    assert went(clean(rig))["rows"] == 1


# ------------------------------------------------------------------ what happens while it looks


def test_the_manifest_of_a_freeze_that_has_only_made_its_folder_stays(rig: Rig) -> None:
    """An empty folder has no file that tells its age."""
    landed(rig)
    rig.time.ms = int(time.time() * 1000)
    made: list[Path] = []

    class Slow(StagingArea):
        def write_manifest(self, namespace: Any, batch_id: str, content: bytes) -> str:
            made.append(rig.folder / "etl" / "orders" / "batches" / batch_id)
            made[0].mkdir(parents=True)
            assert went(clean(rig)) == {}
            assert made[0].exists()
            return super().write_manifest(namespace, batch_id, content)

    assert rig.freeze("r1", landing=Slow(str(rig.folder))).record_count == 2
    assert made


def test_a_slice_that_is_read_while_a_clean_up_looks_at_rows_stays(rig: Rig) -> None:
    committed(rig)
    landing = StagingArea(str(rig.folder))
    look = landing.cleaner.manifests

    def read_meanwhile(*words: Any) -> Any:
        landed(rig, "r2")
        return look(*words)

    landing.cleaner.manifests = read_meanwhile  # type: ignore[method-assign]
    assert went(clean(rig, landing=landing)) == {}
    assert all((rig.folder / file.path).exists() for file in only(rig).pending.files)  # type: ignore[union-attr]


def test_a_slice_that_goes_from_its_lease_to_a_batch_while_a_clean_up_looks_stays(rig: Rig) -> None:
    """Leases are read before batches: what a lease has given up by then, a batch has."""
    landed(rig)

    class Committing(OneByOne):
        def __getattr__(self, name: str) -> Any:
            return getattr(rig.store, name)

        def list(self, table: Any, namespace: Any, scope: str | None = "", **equal: str) -> Any:
            if table is SHARD_LEASE and scope is None:
                first = rig.freeze("r1")
                rig.work(first)
                rig.commit("r1", first)
            return rig.store.list(table, namespace, scope, **equal)

    assert went(clean(rig, store=Committing())) == {}
    assert rig.records(rig.batches()[0].batch_id)


# ------------------------------------------------------------------ manifests that do not say


@pytest.mark.parametrize("how", ["gone", "another"])
def test_no_slice_goes_while_a_live_manifest_does_not_say_what_it_names(rig: Rig, how: str) -> None:
    old = committed(rig)
    days(rig, 8)
    new = committed(rig, "r2")
    manifest = rig.folder / "etl" / "orders" / "batches" / new / "manifest.json"
    if how == "gone":
        manifest.unlink()
    else:
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "owner": "another"}))
    found = clean(rig)
    assert "no slice is removed" in left(found)[new]
    assert went(found) == {"archive": 1}
    assert len(slices(rig)) == 2
    assert batch(rig, old).retired_ms is not None


def test_a_batch_of_an_earlier_staging_folder_keeps_nothing_here(rig: Rig) -> None:
    committed(rig)
    shutil.move(rig.folder, rig.folder.parent / "before")
    rig.folder.mkdir()
    row = rig.batches()[0]
    moved = (row.manifest_uri or "").replace("/staging/", "/before/")
    assert rig.store.replace(row, replace(row, manifest_uri=moved, row_count=row.row_count + 1))
    landed(rig, "r2")
    assert went(clean(rig)) == {}
    assert len(slices(rig)) == 1


def test_the_same_folder_by_another_path_keeps_what_its_batches_name(rig: Rig) -> None:
    batch_id = committed(rig)
    link = rig.folder.parent / "link"
    link.symlink_to(rig.folder)
    assert went(clean(rig, landing=StagingArea(str(link)))) == {}
    assert rig.records(batch_id)


# ------------------------------------------------------------------ folders of version 0.1.0


@pytest.mark.parametrize(
    ("begins", "checkpoint", "gone"),
    [
        (after("5"), after("9"), True),
        (after("5", 1), after("5", 2), True),
        (TRIM_HORIZON, after("9"), True),
        (at_timestamp(1_700_000_000_000), after("9"), True),
        (after("9"), after("9"), False),
        (after("19"), after("9"), False),
        (TRIM_HORIZON, TRIM_HORIZON, False),
        (after("5"), at_timestamp(1_700_000_000_000), False),
    ],
)
def test_a_folder_without_a_tenure_goes_once_the_checkpoint_has_passed_it(
    rig: Rig, begins: Any, checkpoint: Any, gone: bool
) -> None:
    rig.claim("r1")
    row = only(rig)
    assert rig.store.replace(row, replace(row, checkpoint=checkpoint, lease_count=row.lease_count + 1))
    place = str(begins).replace("/", ".").replace("AT_TIMESTAMP:", "AT_TIMESTAMP-")
    folder = rig.folder / "etl" / "orders" / "slices" / row.shard_id / f"{place}-{'0a' * 8}"
    folder.mkdir(parents=True)
    (folder / "part-00000.parquet").write_bytes(b"old")
    assert slice_of(folder.name) == (begins, None)
    assert went(clean(rig)) == ({"slices": 1} if gone else {})
    assert folder.exists() != gone


def test_a_folder_without_a_tenure_goes_if_its_shard_has_no_lease(rig: Rig) -> None:
    rig.claim("r1")
    folder = rig.folder / "etl" / "orders" / "slices" / "shard-gone" / f"5-{'0a' * 8}"
    folder.mkdir(parents=True)
    (folder / "part-00000.parquet").write_bytes(b"old")
    assert went(clean(rig)) == {"slices": 1}


def test_rows_of_the_version_before_are_not_cleaned(rig: Rig) -> None:
    committed(rig)
    row = application(rig)
    assert rig.store.replace(row, replace(row, schema_version=1, row_count=row.row_count + 1))
    with pytest.raises(UnsupportedSchema, match="migrate"):
        clean(rig)


# ------------------------------------------------------------------ the answer, and who may


def test_it_is_noted_on_the_application_before_anything_goes_and_only_then(rig: Rig) -> None:
    committed(rig)
    clean(rig)
    assert application(rig).last_action is None
    days(rig, 8)
    clean(rig)
    assert "ann removed what is not used any more: bad data" in (application(rig).last_action or "")


def test_it_needs_staging_a_reason_and_an_application(rig: Rig) -> None:
    committed(rig)
    with pytest.raises(ConfigurationError, match="needs a reason"):
        clean(rig, reason=" ")
    with pytest.raises(ConfigurationError, match="--staging"):
        clean(rig, landing=None)
    assert rig.store.delete(application(rig))
    with pytest.raises(ConfigurationError, match="no application"):
        clean(rig)
