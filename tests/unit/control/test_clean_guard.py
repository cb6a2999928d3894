# SPDX-License-Identifier: Apache-2.0
"""Clean-up refuses rows that are not those of the runs that filled the folder (PROTOCOL A10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shardbatch.control.drop import drop
from shardbatch.core.archive import HISTORY_FOR
from shardbatch.core.rows import SHARD_LEASE
from shardbatch.errors import ConfigurationError
from shardbatch.landing.area import StagingArea
from tests.support.clean_rig import (
    clean,
    committed,
    days,
    frozen,
    landed,
    left,
    slices,
    went,
)
from tests.support.passing import only
from tests.support.rig import Rig
from tests.support.verbs import everything, told


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


def standing(rig: Rig) -> list[Path]:
    return sorted(path for path in rig.folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("state", ["committed", "frozen"])
def test_nothing_goes_by_a_store_that_does_not_know_a_batch_in_staging(rig: Rig, state: str, dry_run: bool) -> None:
    """It has the application, and maybe rows of its own: a test's store, or a copy from before that batch."""
    other = Rig(rig.folder, stream=rig.stream)
    known = committed(other)
    batch_id = committed(rig) if state == "committed" else frozen(rig).batch_id or ""
    days(other, 400)
    before, rows = standing(rig), everything(other)
    with pytest.raises(ConfigurationError, match=batch_id) as raised:
        clean(other, dry_run=dry_run)
    assert "--leases" in str(raised.value)
    assert known not in str(raised.value)
    assert standing(rig) == before
    assert everything(other) == rows


def test_nothing_goes_by_a_store_that_has_the_application_alone(rig: Rig) -> None:
    landed(rig)
    other = Rig(rig.folder.parent / "other", stream=rig.stream)
    committed(other)
    assert all(other.store.delete(row) for row in [only(other), *other.batches()])
    days(other, 400)
    with pytest.raises(ConfigurationError, match="--leases"):
        clean(other, landing=StagingArea(str(rig.folder)))
    assert len(slices(rig)) == 1


def test_a_folder_that_another_clean_up_removes_meanwhile_is_not_taken_for_another_stores(rig: Rig) -> None:
    """It removes the documents of a void batch, and then its row."""
    first = frozen(rig)
    rig.over("r1")
    told(drop, rig, first.batch_id, liveness=rig.verdict)
    assert rig.run("r2").records == 2
    days(rig, HISTORY_FOR.days + 1)

    class Slow(type(rig.store)):  # type: ignore[misc]
        def list(self, table: Any, *words: Any, **equal: Any) -> Any:
            if table is SHARD_LEASE and rig.consumer().batch(first.batch_id or "") is not None:
                assert went(clean(rig))["rows"] == 1
            return rig.store.list(table, *words, **equal)

    slow = Slow.__new__(Slow)
    slow.__dict__ = rig.store.__dict__
    assert left(clean(rig, store=slow)) == {}
