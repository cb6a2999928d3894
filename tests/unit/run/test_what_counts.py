# SPDX-License-Identifier: Apache-2.0
"""Which tries and which decisions count, in orders that only faults bring about."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.set_aside import set_aside
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.rows import Namespace
from shardbatch.errors import NothingFinished, StagingError
from shardbatch.landing.area import StagingArea
from shardbatch.run import choice
from shardbatch.run.end_record import Ended, leave_end_record
from tests.support.backfill import Backfill, span_of
from tests.support.rig import Rig
from tests.support.verbs import batch, done
from tests.unit.run.test_outputs import frozen


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def test_a_try_that_is_sure_of_its_token_takes_no_earlier_tries_application(rig: Rig) -> None:
    made = frozen(rig)
    assert made.batch_id is not None
    rig.start(made, token="t1")
    ended = Ended(made.batch_id, made.attempt, "transform", 2, "t2", "try-2", sure=True)
    record = leave_end_record(StagingArea(str(rig.folder)), Namespace("etl", rig.stream.name), ended)
    assert record.starts == ()


def test_what_ran_before_a_batch_was_set_aside_gives_it_no_output(rig: Rig) -> None:
    made = frozen(rig)
    assert made.batch_id is not None
    rig.over("r1")
    rig.work(made)
    done(set_aside, rig, made.batch_id)
    again = rig.freeze("r1")  # its run is cleared, and a person marks the work without running it
    with pytest.raises(NothingFinished, match="set aside"):
        rig.commit("r1", again)
    assert batch(rig, made.batch_id).set_aside is not None
    assert rig.sink() == []


def test_the_roots_of_earlier_runs_over_an_interval_are_looked_at_before_anything_is_drawn(rig: Rig) -> None:
    rig.stream.put("a")
    Backfill(rig, span_of(rig), "b1").whole(roots=("gone",))
    shutil.rmtree(rig.folder.parent / "gone")
    second = Backfill(rig, span_of(rig), "b2")
    second.worked()
    with pytest.raises(StagingError):
        second.commit()
    assert second.row.state is BatchState.FROZEN
    third = Backfill(rig, span_of(rig), "b3")
    (rig.folder.parent / "gone").mkdir()
    third.whole()
    assert third.row.number == 2  # the second drew none


def test_the_roots_of_a_run_that_draws_meanwhile_are_looked_at_too(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.stream.put("a")
    first, second = Backfill(rig, span_of(rig), "b1"), Backfill(rig, span_of(rig), "b2")
    first.worked(roots=("gone",))
    second.worked()
    draw = choice.draw_number

    def after_the_first(consumer: Any, row: Batch, roots: Sequence[str]) -> Any:
        monkeypatch.setattr(choice, "draw_number", draw)
        first.commit()
        shutil.rmtree(rig.folder.parent / "gone")
        return draw(consumer, row, roots)

    monkeypatch.setattr(choice, "draw_number", after_the_first)
    with pytest.raises(StagingError):
        second.commit()
    assert second.row.state is BatchState.FROZEN
