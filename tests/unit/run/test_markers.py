# SPDX-License-Identifier: Apache-2.0
"""The committed marker is there before any lease moves, whoever moves it: else readers would never find the batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shardbatch.core.batch import BatchState
from shardbatch.landing.layout import MARKERS, marker_name
from shardbatch.landing.roots import OutputRoots
from shardbatch.run import Frozen
from tests.support.passing import only
from tests.support.rig import Rig


class Killed(BaseException):
    """The worker died."""


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


@pytest.fixture
def undecided(rig: Rig) -> Frozen:
    rig.stream.put("a", "b")
    rig.land("r1", rig.claim("r1"))
    frozen = rig.freeze("r1")
    rig.work(frozen)
    return frozen


def killed(*_: Any) -> None:
    raise Killed


def marker(rig: Rig, frozen: Frozen) -> Path:
    return rig.folder.parent / "out" / MARKERS / marker_name(frozen.batch_id or "", 1)


def died_before_its_marker(rig: Rig, frozen: Frozen) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OutputRoots, "mark", killed)
        with pytest.raises(Killed):
            rig.commit("r1", frozen)
    assert rig.batches(BatchState.COMMITTED)
    assert only(rig).batch_id == frozen.batch_id
    assert not marker(rig, frozen).exists()


def test_the_retry_of_a_commit_that_died_before_its_marker_leaves_it(rig: Rig, undecided: Frozen) -> None:
    died_before_its_marker(rig, undecided)
    assert not rig.commit("r1", undecided).newly
    assert marker(rig, undecided).exists()
    assert only(rig).batch_id is None


def test_the_next_run_leaves_the_marker_of_a_commit_that_died_before_it(rig: Rig, undecided: Frozen) -> None:
    died_before_its_marker(rig, undecided)
    rig.over("r1")
    rig.stream.put("c")
    rig.run("r2")
    assert marker(rig, undecided).exists()  # V25
    assert rig.sink() == sorted(rig.committed(), key=int)


def test_the_next_run_that_dies_at_that_marker_has_moved_no_lease(rig: Rig, undecided: Frozen) -> None:
    died_before_its_marker(rig, undecided)
    rig.over("r1")
    before = only(rig)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OutputRoots, "mark", killed)
        with pytest.raises(Killed):
            rig.claim("r2")
    assert only(rig) == before
