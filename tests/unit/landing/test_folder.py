# SPDX-License-Identifier: Apache-2.0
"""What a local staging folder shows while things happen in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from shardbatch.core.manifest import digest
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.errors import StagingError
from shardbatch.landing.area import StagingArea
from shardbatch.landing.batch import open_batch
from shardbatch.landing.files import Files
from shardbatch.landing.writer import Sizes
from tests.support.batches import NAMESPACE, freeze, page

SMALL = Sizes(row_group=1000, file=2000)


@pytest.fixture
def area(tmp_path: Path) -> StagingArea:
    return StagingArea(str(tmp_path), sizes=SMALL)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*.parquet"))


def test_no_file_of_a_slice_has_its_name_before_the_slice_is_whole(area: StagingArea, tmp_path: Path) -> None:
    writer = area.slice(NAMESPACE, "shard-0", TRIM_HORIZON, 1)
    for first in range(0, 400, 20):
        writer.write(page(first, 20, size=100))
    assert any(path.is_file() for path in tmp_path.rglob("*"))  # it is being written
    assert names(tmp_path) == []
    files = writer.finish()
    assert len(files) > 1
    assert names(tmp_path) == [file.path.rpartition("/")[2] for file in files]


def test_of_two_that_create_a_file_the_second_changes_nothing_and_is_told(tmp_path: Path) -> None:
    files = Files(pafs.LocalFileSystem())
    place = str(tmp_path / "markers" / "b-1.1.json")
    assert files.create(place, b"first")
    assert not files.create(place, b"second")
    assert files.read(place) == b"first"
    assert [path.name for path in (tmp_path / "markers").iterdir()] == ["b-1.1.json"]


@pytest.mark.parametrize("more", [-1, 1])
def test_a_file_that_holds_other_than_its_manifest_says_is_an_error(area: StagingArea, more: int) -> None:
    frozen = freeze(area, {"shard-0": 5})
    (entry,) = frozen.manifest.slices
    (file,) = entry.slice.files
    told = replace(entry.slice, files=(replace(file, records=file.records + more),))
    content = replace(frozen.manifest, slices=(replace(entry, slice=told),)).dumps()
    area.write_manifest(NAMESPACE, frozen.manifest.batch_id, content)
    with pytest.raises(StagingError, match="holds 5 records"):
        open_batch(frozen.uri, digest=digest(content)).to_arrow()
