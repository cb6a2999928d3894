# SPDX-License-Identifier: Apache-2.0
"""Who removes what reading needed: the last task of the application that reads, or the next claim."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from shardbatch.core.limits import ReadLimits
from shardbatch.core.ports import Verdict
from shardbatch.tasks.steps import Steps
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging", ScriptedStream(shards=4), options={"limits": ReadLimits(concurrency=1)})


def removals(rig: Rig) -> list[bool]:
    """From now on, whether each call of a step would remove something."""
    seen: list[bool] = []

    def end_reading(others: Callable[[], bool]) -> None:
        seen.append(not others())

    rig.stream.end_reading = end_reading  # type: ignore[method-assign]
    return seen


def steps(rig: Rig, run: str) -> Steps:
    return Steps(rig.consumer(), rig.owner(run))


def land(rig: Rig, run: str, group: str) -> None:
    steps(rig, run).land(group, rig.stream.now_ms + 1, threading.Event())


def test_the_last_read_task_of_a_run_removes_it(rig: Rig) -> None:
    rig.stream.put("a", "b", "c", "d")
    seen = removals(rig)
    groups = [group.group for group in steps(rig, "r1").claim().groups]
    assert seen == [True]  # nobody reads before the claim's own tasks do
    assert len(groups) > 1
    for group in groups:
        land(rig, "r1", group)
    assert seen == [True, *[False] * (len(groups) - 1), True]


def test_it_stays_while_another_run_reads(rig: Rig) -> None:
    rig.stream.put("a", "b", "c", "d")
    first = steps(rig, "r1").claim().groups
    seen = removals(rig)
    steps(rig, "r2").claim()
    assert seen == [False]
    for group in first:
        land(rig, "r1", group.group)
    assert seen[-1]


def test_what_a_dead_run_left_goes_with_the_next_claim(rig: Rig) -> None:
    rig.stream.put("a", "b", "c", "d")
    steps(rig, "r1").claim()
    rig.verdicts[str(rig.owner("r1"))] = Verdict.OVER
    seen = removals(rig)
    steps(rig, "r2").claim()
    assert seen == [True]
