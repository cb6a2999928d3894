# SPDX-License-Identifier: Apache-2.0
"""An interval of which the stream may have dropped records says so before anything is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from shardbatch.core.interval import Interval
from shardbatch.core.policies import GapPolicy, Policies
from shardbatch.errors import GapFound
from shardbatch.run import Outcome, claim
from tests.support.rig import Rig

HOUR = 3_600_000


def span(rig: Rig, hours_before: float) -> Interval:
    begin = rig.stream.now_ms - int(hours_before * HOUR)
    return Interval(begin, begin + HOUR)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(tmp_path / "staging")
    made.stream.put("a")
    return made


def test_an_interval_that_begins_before_the_retention_fails(rig: Rig) -> None:
    owner = replace(rig.owner("backfill"), mode="interval")
    consumer = rig.consumer(scope=owner.scope, interval=span(rig, 25))
    with pytest.raises(GapFound, match="begins 3600 s before the stream's retention"):
        claim(consumer, owner)
    assert not consumer.leases()


def test_under_gap_record_it_is_said_and_the_rest_is_read(rig: Rig) -> None:
    owner = replace(rig.owner("backfill"), mode="interval")
    consumer = rig.consumer(scope=owner.scope, interval=span(rig, 25), policies=Policies(gap=GapPolicy.RECORD))
    assert claim(consumer, owner).outcome is Outcome.LEASES
    assert any("before the stream's retention" in line for line in rig.said)


def test_an_interval_within_the_retention_is_read(rig: Rig) -> None:
    owner = replace(rig.owner("backfill"), mode="interval")
    consumer = rig.consumer(scope=owner.scope, interval=span(rig, 23))
    assert claim(consumer, owner).outcome is Outcome.LEASES
    assert not any("retention" in line for line in rig.said)
