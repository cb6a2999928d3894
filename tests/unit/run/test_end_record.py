# SPDX-License-Identifier: Apache-2.0
"""The record that a try of a work leaves at its end: which starts are its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from shardbatch.errors import ConfigurationError, StartUnfinished
from shardbatch.landing.area import StagingArea
from shardbatch.run import Frozen
from shardbatch.run.end_record import Ended, leave_end_record
from tests.support.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


@pytest.fixture
def frozen(rig: Rig) -> Frozen:
    rig.stream.put("a", "b")
    found = rig.claim("r1")
    rig.land("r1", found)
    return rig.freeze("r1", found.batch_id)


def ended(frozen: Frozen, work: str = "load") -> Ended:
    assert frozen.batch_id is not None
    return Ended(frozen.batch_id, frozen.attempt, work, 1, "", "try-1")


def test_it_names_the_starts_of_its_own_work_and_can_be_read_back(rig: Rig, frozen: Frozen) -> None:
    own = rig.start(frozen, "load")
    rig.start(frozen, "check")
    area = StagingArea(str(rig.folder))
    record = leave_end_record(area, rig.namespace, ended(frozen))
    assert [(start.start_id, start.work) for start in record.starts] == [(own, "load")]
    assert frozen.batch_id is not None
    assert area.left_by(rig.namespace, frozen.batch_id, ["load"])["load"].last == record


def test_a_work_that_entered_no_block_leaves_a_record_without_starts(rig: Rig, frozen: Frozen) -> None:
    record = leave_end_record(StagingArea(str(rig.folder)), rig.namespace, ended(frozen))
    assert (record.work, record.attempt, record.starts) == ("load", 1, ())


def test_a_block_that_was_not_left_well_is_an_error_of_the_task_and_nothing_is_written(
    rig: Rig, frozen: Frozen
) -> None:
    rig.start(frozen, "load", done=False)
    area = StagingArea(str(rig.folder))
    with pytest.raises(StartUnfinished):
        leave_end_record(area, rig.namespace, ended(frozen))
    assert frozen.batch_id is not None
    assert area.left_by(rig.namespace, frozen.batch_id, ["load"])["load"].last is None


def test_starts_that_do_not_say_for_whom_they_work_belong_to_the_only_task(rig: Rig, frozen: Frozen) -> None:
    start_id = rig.start(frozen, "")
    area = StagingArea(str(rig.folder))
    with pytest.raises(ConfigurationError, match=r"open_batch\(work='load'\)"):
        leave_end_record(area, rig.namespace, ended(frozen))
    record = leave_end_record(area, rig.namespace, replace(ended(frozen), only=True))
    assert [(start.start_id, start.work) for start in record.starts] == [(start_id, "load")]


def test_of_several_tries_only_the_start_that_was_told_the_token_counts(rig: Rig, frozen: Frozen) -> None:
    rig.start(frozen, "load", "s1", token="old")
    rig.start(frozen, "load", "s2", token="new")
    told = replace(ended(frozen), token="new", sure=True)
    record = leave_end_record(StagingArea(str(rig.folder)), rig.namespace, told)
    assert [start.start_id for start in record.starts] == ["s2"]
