# SPDX-License-Identifier: Apache-2.0
"""What clean-up removes from output roots, and what readers may still see there (PROTOCOL A)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from shardbatch.control.drop import drop
from shardbatch.core.archive import READER_GRACE
from shardbatch.landing.area import StagingArea
from tests.support.clean_rig import (
    clean,
    committed,
    days,
    documents,
    frozen,
    left,
    starts,
    went,
)
from tests.support.rig import Rig
from tests.support.verbs import batch, told


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def test_a_root_out_of_reach_keeps_the_batch_and_the_answer_says_so(rig: Rig) -> None:
    batch_id = committed(rig)
    (rig.folder.parent / "out").rename(rig.folder.parent / "away")
    days(rig, 8)
    found = clean(rig)
    assert "forget-root" in left(found)[batch_id]
    assert batch(rig, batch_id).retired_ms is None
    (rig.folder.parent / "away").rename(rig.folder.parent / "out")
    assert went(clean(rig))["archive"] == 1


def test_documents_and_superseded_starts_go_once_readers_had_their_time(rig: Rig) -> None:
    batch_id = committed(rig)
    rig.start(rig.freeze("again", batch_id, replay=batch_id), start_id="lost", done=False)
    again = rig.freeze("again", batch_id, replay=batch_id)
    rig.work(again)
    rig.commit("again", again)
    rig.over("again")
    assert starts(rig) == ["start=lost", "start=s1", "start=s3"]
    days(rig, 8)
    clean(rig)
    assert (documents(rig), len(starts(rig))) == ([batch_id], 3)
    days(rig, READER_GRACE.days + 0.1)
    found = clean(rig)
    assert went(found) == {"documents": 1, "starts": 2}
    assert starts(rig) == ["start=s3"]
    assert documents(rig) == []
    assert len(rig.sink()) == 2
    assert went(clean(rig)) == {}


def test_a_start_that_writes_after_that_is_removed_by_a_later_clean_up(rig: Rig) -> None:
    batch_id = committed(rig)
    rig.freeze("again", batch_id, replay=batch_id)
    rig.over("again")
    for _ in range(2):
        days(rig, 8)
        clean(rig)
    works = rig.folder / "etl" / "orders" / "batches" / batch_id / "works" / "transform" / "begun" / "2-late"
    written = rig.folder.parent / "out" / f"batch_id={batch_id}" / "start=late"
    for folder in (works, written):
        folder.mkdir(parents=True)
        (folder / "file.json").write_text("{}")
    days(rig, 1)
    assert went(clean(rig)) == {"documents": 1, "starts": 1}
    assert starts(rig) == ["start=s1"]


def test_what_the_highest_marker_names_stays_though_the_row_names_another(rig: Rig) -> None:
    """A row of another store, or an older backup of it: readers go by the marker."""
    batch_id = committed(rig)
    again = rig.freeze("again", batch_id, replay=batch_id)
    rig.work(again)
    rig.commit("again", again)
    rig.over("again")
    row = batch(rig, batch_id)
    first = replace(row.starts[0], start_id="s1", attempt=1)
    assert rig.store.replace(row, replace(row, starts=(first,), decided=1, row_count=row.row_count + 1))
    for _ in range(2):
        days(rig, 8)
        clean(rig)
    assert starts(rig) == ["start=s1", "start=s2"]


def test_a_start_of_a_void_batch_is_found_in_a_root_that_no_row_names(rig: Rig) -> None:
    first = frozen(rig)
    rig.start(first, roots=("elsewhere",))
    rig.over("r1")
    told(drop, rig, first.batch_id, liveness=rig.verdict)
    days(rig, 1)
    assert went(clean(rig))["starts"] == 1
    assert starts(rig, "elsewhere") == []


def test_the_output_of_an_interval_goes_once_it_was_taken_back_though_its_documents_had_gone(rig: Rig) -> None:
    batch_id = committed(rig)
    row = batch(rig, batch_id)
    assert rig.store.delete(row)
    side = replace(row, scope="backfill", from_ms=1, to_ms=2, number=1)
    assert rig.store.create(side)
    for _ in range(2):
        days(rig, 8)
        clean(rig)
    assert (documents(rig), starts(rig)) == ([], ["start=s1"])
    landing = StagingArea(str(rig.folder))
    told(drop, rig, batch_id, landing=landing, liveness=rig.verdict, clock=rig.time.clock())
    assert went(clean(rig)) == {}  # readers that planned before it was taken back have their time
    days(rig, READER_GRACE.days + 0.1)
    assert went(clean(rig)) == {"starts": 1}
    assert starts(rig) == []
