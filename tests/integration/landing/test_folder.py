# SPDX-License-Identifier: Apache-2.0
"""What a local or mounted folder has of its own: names that appear at the end, and errors of a disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from shardbatch.core.position import TRIM_HORIZON
from shardbatch.errors import ConfigurationError, StagingError
from shardbatch.landing.area import StagingArea
from shardbatch.landing.files import Files
from shardbatch.landing.writer import Sizes
from tests.support.batches import NAMESPACE, page

SMALL = Sizes(row_group=4_096, file=6_000)
NOBODY = 65534


@pytest.fixture
def area(tmp_path: Path) -> StagingArea:
    return StagingArea(str(tmp_path), sizes=SMALL)


@pytest.fixture
def closed_folder() -> Iterator[Path]:
    """A folder that this process may look at and not write to, also where it runs as root."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield folder
    finally:
        if root:
            os.seteuid(0)
        folder.rmdir()


def shown(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]


def test_no_file_is_seen_under_its_name_before_the_slice_is_finished(tmp_path: Path, area: StagingArea) -> None:
    writer = area.slice(NAMESPACE, "shard-0", TRIM_HORIZON, 1)
    for first in range(0, 1000, 50):
        writer.write(page(first, 50, size=100))
    assert shown(tmp_path) == []
    assert list(tmp_path.rglob(".part-*"))

    files = writer.finish()

    assert len(shown(tmp_path)) == len(files) > 1
    assert not list(tmp_path.rglob(".*"))


def test_a_killed_read_leaves_only_hidden_files(tmp_path: Path, area: StagingArea) -> None:
    writer = area.slice(NAMESPACE, "shard-0", TRIM_HORIZON, 1)
    writer.write(page(0, 500, size=100))
    del writer

    assert shown(tmp_path) == []


def test_a_mount_that_went_away_is_not_replaced_by_a_folder(tmp_path: Path) -> None:
    place = tmp_path / "mnt"
    place.mkdir()
    area = StagingArea(place.as_uri())
    area.check(NAMESPACE)
    shutil.rmtree(place)

    for act in (
        lambda: area.slice(NAMESPACE, "shard-0", TRIM_HORIZON, 1),
        lambda: area.write_manifest(NAMESPACE, "b-1", b"{}"),
        lambda: area.note_attempt(NAMESPACE, "b-1", 1),
        lambda: area.check(NAMESPACE),
    ):
        with pytest.raises(StagingError, match="mount"):
            act()
    assert not place.exists()


def test_a_folder_without_permission_is_named_with_the_remedy(closed_folder: Path) -> None:
    area = StagingArea(str(closed_folder))

    for act in (lambda: area.check(NAMESPACE), lambda: area.write_manifest(NAMESPACE, "b-1", b"{}")):
        with pytest.raises(StagingError, match=str(closed_folder)) as failure:
            act()
        assert "permission" in str(failure.value)

    writer = area.slice(NAMESPACE, "shard-0", TRIM_HORIZON, 1)
    writer.write(page(0, 10))
    with pytest.raises(StagingError, match="permission"):
        writer.finish()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_named_with_the_remedy() -> None:
    files = Files(pafs.LocalFileSystem())
    files.whole = True  # straight to the path that is given

    with pytest.raises(StagingError, match=r"/dev/full.*No space left.*Free space"):
        files.write("/dev/full", b"x" * 10)


def test_of_many_who_create_a_file_one_does(tmp_path: Path) -> None:
    files = Files(pafs.LocalFileSystem())
    path = str(tmp_path / "markers" / "b.1.json")

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda n: files.create(path, b"%d" % n), range(32)))

    assert won.count(True) == 1
    assert files.read(path) == b"%d" % won.index(True)
    assert os.listdir(tmp_path / "markers") == ["b.1.json"]


@pytest.mark.parametrize("uri", ["", "relative/folder", "s3://lake/staging", "/data/{a,b}", "file:///data/*"])
def test_a_place_that_cannot_be_one_is_refused_at_once(uri: str) -> None:
    with pytest.raises(ConfigurationError):
        StagingArea(uri)


def test_an_unknown_compression_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="zstd"):
        StagingArea("/data", compression="zip")


@pytest.mark.parametrize("compression", ["zstd", "lz4", "none"])
def test_compression_can_be_chosen(tmp_path: Path, compression: str) -> None:
    import pyarrow.parquet as pq

    writer = StagingArea(str(tmp_path), compression=compression).slice(NAMESPACE, "shard-0", TRIM_HORIZON, 1)
    writer.write(page(0, 10))
    file = writer.finish()[0]

    column = pq.ParquetFile(tmp_path / file.path).metadata.row_group(0).column(0)
    assert column.compression.lower().replace("uncompressed", "none") == compression
