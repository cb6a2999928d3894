# SPDX-License-Identifier: Apache-2.0
"""The staging folder is made once, for an application without rows; later one that is missing is a mount that is."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from shardbatch.core.interval import Interval
from shardbatch.errors import StagingMissing
from shardbatch.landing.area import StagingArea
from shardbatch.operators.step import final_errors
from shardbatch.run import Outcome, claim
from tests.support.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "elsewhere")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "mnt" / "staging"


def test_the_first_claim_makes_the_folder_closed_to_others(rig: Rig, place: Path) -> None:
    place.parent.mkdir()
    rig.stream.put("a")
    assert rig.claim("r1", landing=StagingArea(str(place))).outcome is Outcome.LEASES
    assert place.stat().st_mode & 0o007 == 0
    assert any(f"Made the staging folder file://{place}" in line for line in rig.said)


def test_it_is_made_in_a_folder_that_is_there_only(rig: Rig, place: Path) -> None:
    with pytest.raises(StagingMissing, match=rf"{place} does not exist, nor does the folder .*[Mm]ount it"):
        rig.claim("r1", landing=StagingArea(str(place)))
    assert not place.parent.exists()
    assert rig.consumer().application() is None


def test_with_rows_a_missing_folder_fails_at_once_and_is_not_made(rig: Rig, place: Path) -> None:
    place.mkdir(parents=True)
    area = StagingArea(str(place))
    rig.stream.put("a")
    found = rig.claim("r1", landing=area)
    shutil.rmtree(place)
    for step in (lambda: rig.land("r1", found, landing=area), lambda: rig.claim("r2", landing=area)):
        with pytest.raises(AirflowFailException, match=f"{place} does not exist.*Mount it"), final_errors():
            step()
    assert not place.exists()


def test_rows_of_an_interval_are_rows(rig: Rig, place: Path) -> None:
    place.mkdir(parents=True)
    rig.stream.put("a")
    owner = replace(rig.owner("backfill"), mode="interval")
    span = Interval(rig.stream.now_ms, rig.stream.now_ms + 1)
    beside = rig.consumer(scope=owner.scope, interval=span, landing=StagingArea(str(place)))
    claim(beside, owner)
    assert beside.application() is None
    shutil.rmtree(place)
    with pytest.raises(StagingMissing):
        claim(beside, owner)
    assert not place.exists()
