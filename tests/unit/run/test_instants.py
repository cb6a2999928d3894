# SPDX-License-Identifier: Apache-2.0
"""How far the stream's own clock has come, and when it has to be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardbatch.core.interval import CLOCKS_APART_MS
from shardbatch.core.position import TRIM_HORIZON, after, at_timestamp
from shardbatch.run.instants import clock_there, reached
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream


class Asked(ScriptedStream):
    """A stream that counts the questions for its clock."""

    questions = 0

    def clock_ms(self) -> int | None:
        self.questions += 1
        return super().clock_ms()


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(tmp_path / "staging", Asked())
    made.stream.now_ms = made.time.ms - 30_000  # the worker's clock is ahead
    return made


def test_the_streams_time_is_its_own(rig: Rig) -> None:
    assert clock_there(rig.consumer()) == rig.stream.now_ms


def test_it_is_asked_only_where_a_place_may_lie_ahead_of_it(rig: Rig) -> None:
    assert isinstance(rig.stream, Asked)
    consumer = rig.consumer()
    past = at_timestamp(rig.time.ms - CLOCKS_APART_MS - 1_000)
    assert reached(consumer, [TRIM_HORIZON, after("5"), past]) == rig.time.ms
    assert rig.stream.questions == 0
    assert reached(consumer, [past, at_timestamp(rig.time.ms)]) == rig.stream.now_ms
    assert rig.stream.questions == 1
