# SPDX-License-Identifier: Apache-2.0
"""Who may read what is landed: others may not, whatever the umask is; the group as the umask says."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shardbatch import Staging
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.hooks import settings
from shardbatch.landing.area import StagingArea
from tests.support.batches import NAMESPACE, freeze, page


@pytest.fixture(params=[0o022, 0o002, 0o000, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def fill(area: StagingArea) -> None:
    """A slice that is whole, one that is being written, a manifest, an attempt, a probe."""
    frozen = freeze(area, {"shard-0": 5})
    area.note_attempt(NAMESPACE, frozen.manifest.batch_id, 1)
    area.check(NAMESPACE)
    writer = area.slice(NAMESPACE, "shard-1", TRIM_HORIZON, 1)
    writer.write(page(0, 20, size=100))
    writer.rest()


def modes(folder: Path) -> set[tuple[str, int]]:
    return {("folder" if path.is_dir() else "file", path.stat().st_mode & 0o777) for path in folder.rglob("*")}


def test_others_are_kept_out_of_all_that_is_made_below_the_staging_folder(tmp_path: Path, umask: int) -> None:
    fill(StagingArea(str(tmp_path)))
    assert modes(tmp_path) == {("folder", 0o770 & ~umask), ("file", 0o660 & ~umask)}


def test_the_umask_alone_counts_where_an_author_says_so(tmp_path: Path, umask: int) -> None:
    area = Staging(str(tmp_path), private=False).open()
    assert isinstance(area, StagingArea)
    fill(area)
    assert modes(tmp_path) == {("folder", 0o777 & ~umask), ("file", 0o666 & ~umask)}


def test_a_group_that_the_folder_hands_down_stays(tmp_path: Path) -> None:
    tmp_path.chmod(0o2770)
    fill(StagingArea(str(tmp_path)))
    assert all(path.stat().st_mode & 0o2000 for path in tmp_path.rglob("*") if path.is_dir())


def test_a_mount_that_knows_no_permissions_is_used_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chmod", refused)
    fill(StagingArea(str(tmp_path)))
    assert {kind for kind, _ in modes(tmp_path)} == {"folder", "file"}


def test_markers_in_an_output_root_are_for_its_readers(
    tmp_path: Path, marked: Callable[[StagingArea, Path], None]
) -> None:
    before = os.umask(0o022)
    try:
        (tmp_path / "staging").mkdir()
        (tmp_path / "out").mkdir()
        marked(StagingArea(str(tmp_path / "staging")), tmp_path / "out")
    finally:
        os.umask(before)
    assert modes(tmp_path / "out") == {("folder", 0o755), ("file", 0o644)}


@pytest.fixture
def marked() -> Callable[[StagingArea, Path], None]:
    """Commits nothing, but claims a root, which leaves a file in it."""

    def claim(area: StagingArea, out: Path) -> None:
        area.outputs.look(str(out), (), "etl/orders", shared=False)

    return claim


def test_the_setting_of_a_deployment_may_say_so_too() -> None:
    assert settings.staging_of("/mnt/staging", "x") == Staging("/mnt/staging")
    assert settings.staging_of("/mnt/staging?private=false", "x") == Staging("/mnt/staging", private=False)
    with pytest.raises(Exception, match="cannot be read"):
        settings.staging_of("/mnt/staging?private=maybe", "x")
