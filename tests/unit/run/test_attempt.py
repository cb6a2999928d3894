# SPDX-License-Identifier: Apache-2.0
"""Attempts of a batch follow one another: the next waits for the one before, and none is taken for another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shardbatch.core.policies import ClaimOptions
from shardbatch.errors import AttemptAlive, LeaseLost
from shardbatch.run import Frozen, Turn, beat, begin, end
from tests.support.rig import Rig

GRACE_MS = 60_000
OPTIONS = ClaimOptions(attempt_grace=timedelta(milliseconds=GRACE_MS))


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging", options={"options": OPTIONS})


@pytest.fixture
def first(rig: Rig) -> Frozen:
    rig.stream.put("a")
    rig.land("r1", rig.claim("r1"))
    return rig.freeze("r1")


def show_life(rig: Rig, frozen: Frozen, application: str | None = "yarn:app-1") -> None:
    beat(rig.consumer(), rig.owner("r1"), frozen.batch_id or "", frozen.attempt, application)


def while_waiting(rig: Rig, act: Callable[[], None]) -> dict[str, Any]:
    """Acts at each look of a freeze that waits."""

    def sleep(seconds: float) -> None:
        rig.time.sleep(seconds)
        act()

    return {"clock": replace(rig.time.clock(), sleep=sleep)}


def test_an_attempt_that_shows_life_all_the_while_keeps_the_next_from_opening(rig: Rig, first: Frozen) -> None:
    show_life(rig, first)
    with pytest.raises(AttemptAlive, match="yarn:app-1"):
        rig.freeze("r1", **while_waiting(rig, lambda: show_life(rig, first)))
    (batch,) = rig.batches()
    assert batch.attempt == first.attempt


def test_an_attempt_without_a_sign_of_life_is_given_up_after_its_grace_and_not_before(rig: Rig, first: Frozen) -> None:
    show_life(rig, first)
    began = rig.time.ms
    assert rig.freeze("r1").attempt == 2
    assert GRACE_MS <= rig.time.ms - began < 2 * GRACE_MS


def test_the_grace_begins_anew_with_each_sign_of_life(rig: Rig, first: Frozen) -> None:
    show_life(rig, first)
    began, beats = rig.time.ms, [GRACE_MS * 3 // 4]

    def once() -> None:
        if beats and rig.time.ms - began > beats[0]:
            beats.pop()
            show_life(rig, first)

    assert rig.freeze("r1", **while_waiting(rig, once)).attempt == 2
    assert rig.time.ms - began >= GRACE_MS * 7 // 4


def test_an_attempt_that_was_closed_is_not_waited_for(rig: Rig, first: Frozen) -> None:
    show_life(rig, first)
    end(rig.consumer(), first.batch_id or "", first.attempt)
    began = rig.time.ms
    assert rig.freeze("r1").attempt == 2
    assert rig.time.ms - began < 1000


def test_the_work_of_an_attempt_has_its_turn_though_a_freeze_that_looked_dead_opened_another(
    rig: Rig, first: Frozen
) -> None:
    second = rig.freeze("r1")
    assert rig.freeze("r1").attempt == 3  # the freeze that looked dead; its answer reached nobody
    batch_id = second.batch_id or ""
    assert begin(rig.consumer(), rig.owner("r1"), batch_id, second.attempt) is Turn.RUN  # V20
    rig.work(second)
    assert rig.commit("r1", second).newly
    assert begin(rig.consumer(), rig.owner("r1"), batch_id, second.attempt) is Turn.ALREADY_COMMITTED
    assert begin(rig.consumer(), rig.owner("r1"), batch_id, 3) is Turn.RUN  # compared with what was decided


def test_an_older_attempt_that_lives_on_does_not_pass_for_the_newer(rig: Rig, first: Frozen) -> None:
    rig.freeze("r1")
    with pytest.raises(LeaseLost):
        show_life(rig, first)
