# SPDX-License-Identifier: Apache-2.0
"""What a decision needs before it is made: starts that count, and roots that can be told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.policies import Policies, Sink
from shardbatch.core.start import Work
from shardbatch.errors import ConfigurationError, NothingFinished, StagingMoved, StartUnfinished
from shardbatch.landing.area import StagingArea
from shardbatch.run import Frozen, choice
from shardbatch.run.choice import Chosen, choose_starts
from tests.support.rig import Rig

#: A task that ended as a success and was not given the batch, as far as can be seen.
SILENT = Work("load", given=False)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


@pytest.fixture
def frozen(rig: Rig) -> Frozen:
    rig.stream.put("a", "b")
    found = rig.claim("r1")
    rig.land("r1", found)
    return rig.freeze("r1", found.batch_id)


def chosen(rig: Rig, works: Sequence[str | Work] = ("load",), attempt: int = 1, **changes: object) -> Chosen:
    (batch,) = rig.batches()
    return choose_starts(
        rig.consumer(**changes), batch, attempt, [Work(work) if isinstance(work, str) else work for work in works]
    )


def test_the_starts_of_the_works_that_ended_count_and_every_root_they_wrote_to_is_told(
    rig: Rig, frozen: Frozen
) -> None:
    load = rig.work(frozen, "load")
    check = rig.work(frozen, "check", roots=("rejects", "out"))
    rig.work(frozen, "other", roots=("elsewhere",))
    found = chosen(rig, ["load", "check"])
    assert {start.start_id for start in found.starts} == {load, check}
    assert sorted(Path(root).name for root in found.roots) == ["out", "rejects"]
    assert (found.same, found.note) == (False, None)


def test_a_work_that_left_nothing_is_noted_beside_others_and_refused_alone(rig: Rig, frozen: Frozen) -> None:
    with pytest.raises(NothingFinished, match="names no work"):
        chosen(rig, [])
    with pytest.raises(NothingFinished, match="load is a success and has left nothing"):
        chosen(rig, [SILENT])
    with pytest.raises(NothingFinished, match="did not end by itself"):
        chosen(rig)
    rig.work(frozen, "check")
    assert chosen(rig, [SILENT, "check"]).note == "not counted: load"


def test_a_batch_without_records_needs_no_work(rig: Rig) -> None:
    batch = Batch(rig.namespace, "", "b1", "me", 1, BatchState.FROZEN, roots=("out",), number=3)
    assert choose_starts(rig.consumer(), batch, 1, []) == Chosen(roots=("out",), number=3)


def test_what_the_row_says_already_is_not_decided_again(rig: Rig, frozen: Frozen) -> None:
    rig.work(frozen, "load")
    rig.commit("r1", frozen, works=["load"])
    assert chosen(rig).same
    again = rig.freeze("r1", frozen.batch_id)
    start = rig.work(again, "load")
    found = chosen(rig, attempt=2)
    assert ([one.start_id for one in found.starts], found.same) == ([start], False)


def test_an_application_that_lives_on_after_its_task_is_waited_for(rig: Rig, frozen: Frozen) -> None:
    rig.end(frozen, "load", token="t1")
    rig.start(frozen, "load", "late", token="t1", done=False)
    with pytest.raises(StartUnfinished, match=r"application of load.*its task has ended"):
        chosen(rig)
    rig.start(frozen, "load", "late", token="t1")
    assert [start.start_id for start in chosen(rig).starts] == ["late"]


def test_a_sink_that_is_atomic_by_itself_needs_no_start(rig: Rig) -> None:
    rig.options["policies"] = Policies(sink=Sink.OWN)
    rig.stream.put("a")
    found = rig.claim("r1")
    rig.land("r1", found)
    frozen = rig.freeze("r1", found.batch_id)
    assert chosen(rig).note == "committed_by_hand"
    rig.end(frozen, "load")
    assert chosen(rig) == Chosen()


def test_a_batch_in_another_staging_folder_is_refused(rig: Rig, frozen: Frozen, tmp_path: Path) -> None:
    rig.work(frozen, "load")
    with pytest.raises(StagingMoved):
        chosen(rig, landing=StagingArea(str(tmp_path / "other")))


def test_starts_that_no_row_has_room_for_are_refused(rig: Rig, frozen: Frozen, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.work(frozen, "load")
    monkeypatch.setattr(choice, "MOST_START_BYTES", 50)
    with pytest.raises(ConfigurationError, match="The 1 starts of batch"):
        chosen(rig)
