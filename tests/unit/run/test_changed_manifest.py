# SPDX-License-Identifier: Apache-2.0
"""A manifest that somebody changed, or removed, after its batch was frozen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shardbatch.core.batch import BatchState
from shardbatch.errors import ManifestChanged, ShardbatchError, StagingError
from tests.support.rig import Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "staging")


@pytest.mark.parametrize(
    ("spoil", "error", "named"),
    [
        (lambda path: path.write_bytes(path.read_bytes() + b" "), ManifestChanged, "never edit a manifest"),
        (lambda path: path.unlink(), StagingError, "manifest.json"),
    ],
    ids=["changed", "removed"],
)
def test_no_attempt_is_opened_on_it_and_nothing_is_lost(
    rig: Rig, spoil: Callable[[Path], object], error: type[ShardbatchError], named: str
) -> None:
    wanted = rig.stream.put("a", "b")
    rig.land("r1", rig.claim("r1"))
    frozen = rig.freeze("r1")
    (path,) = rig.folder.rglob("manifest.json")
    whole = path.read_bytes()
    spoil(path)
    with pytest.raises(error, match=named):
        rig.freeze("r1")
    (row,) = rig.batches()
    assert (row.state, row.attempt) == (BatchState.FROZEN, 1)
    path.write_bytes(whole)
    again = rig.freeze("r1")
    assert (again.batch_id, again.attempt) == (frozen.batch_id, 2)
    rig.work(again)
    assert rig.commit("r1", again).newly
    assert sorted(rig.committed(), key=int) == wanted
