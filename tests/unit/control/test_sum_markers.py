# SPDX-License-Identifier: Apache-2.0
"""The markers of an output root are summed on demand; readers see the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardbatch.control.sum_markers import sum_markers
from shardbatch.errors import ConfigurationError
from shardbatch.landing.area import StagingArea
from tests.support.rig import Rig
from tests.support.verbs import application, done, told
from tests.unit.control.roots import committed, root


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def test_without_staging_no_root_is_reached(rig: Rig) -> None:
    committed(rig)
    with pytest.raises(ConfigurationError, match="staging"):
        told(sum_markers, rig, root(rig))


def test_markers_are_summed_on_demand_and_tell_the_same(rig: Rig) -> None:
    found = sorted([committed(rig, "r1"), committed(rig, "r2")])
    area = StagingArea(str(rig.folder))
    before = area.outputs.told(root(rig))
    sums = Path(root(rig)) / "_shardbatch" / "sums"

    (preview,) = told(sum_markers, rig, root(rig), landing=area, dry_run=True)
    assert (preview.result, preview.effect) == ("would sum", "it tells of 2 batches")
    assert not sums.exists()

    (summed,) = told(sum_markers, rig, root(rig), landing=area)
    assert (summed.result, summed.effect.partition(" ")[0]) == ("summed", "2")
    assert len(list(sums.glob("*.json"))) == 1
    assert area.outputs.told(root(rig)) == before
    assert sorted(before) == found
    assert "ann summed" in (application(rig).last_action or "")
    assert done(sum_markers, rig, root(rig), landing=area) == [(root(rig), "already")]
