# SPDX-License-Identifier: Apache-2.0
"""A read task that runs again, alone, when there is nothing left for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardbatch.errors import LeaseLost
from shardbatch.run import land
from tests.support.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    made = Rig(tmp_path / "staging")
    made.stream.put(*"abc")
    return made


def test_it_reads_nothing_once_its_slices_are_frozen_or_committed(rig: Rig) -> None:
    found = rig.claim("r1")
    rig.land("r1", found)
    frozen = rig.freeze("r1")
    rows = list(rig.consumer().leases())
    rig.stream.put(*"def")
    assert rig.land("r1", found)[0].records == 0
    assert list(rig.consumer().leases()) == rows
    rig.work(frozen)
    rig.commit("r1", frozen)
    assert rig.land("r1", found)[0].records == 0
    assert any(f"its slices are in batch {frozen.batch_id}" in line for line in rig.said)


def test_it_is_refused_once_another_run_has_the_batch(rig: Rig) -> None:
    found = rig.claim("r1")
    rig.land("r1", found)
    frozen = rig.freeze("r1")
    rig.over("r1")
    rig.claim("r2")
    with pytest.raises(LeaseLost, match="r2"):
        rig.land("r1", found)
    again = rig.freeze("r2", frozen.batch_id)
    rig.work(again)
    rig.commit("r2", again)
    with pytest.raises(LeaseLost, match="no lease"):
        rig.land("r1", found)


def test_it_is_refused_once_its_leases_were_taken(rig: Rig) -> None:
    found = rig.claim("r1")
    rig.over("r1")
    rig.claim("r2")
    with pytest.raises(LeaseLost, match="no lease"):
        land(rig.consumer(), rig.owner("r1"), found.groups[0].group, rig.stream.now_ms + 1)


def test_it_says_that_an_earlier_try_may_have_found_nothing_and_gave_all_back(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "staging")
    found = rig.claim("r1")
    rig.land("r1", found)  # and its worker dies before Airflow hears of it
    with pytest.raises(LeaseLost, match="found nothing new and gave them back"):
        rig.land("r1", found)
    rig.over("r1")
    sent = rig.stream.put("a")
    rig.run("r2")
    assert rig.committed() == sent
