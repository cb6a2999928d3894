# SPDX-License-Identifier: Apache-2.0
"""What every file system that outputs lie on keeps to: sums of markers, their sweeping, and the list of files."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.fs as pafs
import pytest

import shardbatch
from shardbatch.core.decision import Decision
from shardbatch.core.sums import GUARD, Sum
from shardbatch.errors import StagingError
from shardbatch.landing import layout
from shardbatch.landing.files import Files
from shardbatch.landing.location import locate
from shardbatch.landing.markers import told
from shardbatch.landing.roots import OutputRoots
from shardbatch.landing.sums import sum_markers
from tests.contract import landing_backends as backends
from tests.contract.landing_backends import Backend, Bucket
from tests.support.aws import AwsServer
from tests.support.roots import decision

LATER = timedelta(days=30)


@pytest.fixture(scope="module")
def staging_bucket(moto_server: AwsServer) -> Bucket:
    return backends.make_bucket(moto_server, "readers-contract")


@pytest.fixture
def files(backend: Backend) -> Files:
    return Files(backend.filesystem)


@pytest.fixture
def root(backend: Backend) -> str:
    return locate(backend.out).path


def mark(backend: Backend, one: Decision) -> None:
    name = layout.marker_name(one.batch_id, one.decided)
    backend.put(f"{backend.out}/{layout.MARKERS}/{name}", json.dumps(one.to_json()).encode())


def held(files: Files, root: str) -> dict[str, int]:
    return {batch_id: entry.decision.decided for batch_id, entry in told(files, root).entries.items()}


def in_a_month() -> datetime:
    return datetime.now(UTC) + LATER


def test_a_sum_is_written_once_enough_markers_stand_and_readers_find_the_same(
    backend: Backend, files: Files, root: str
) -> None:
    assert sum_markers(files, root) is None
    for n in range(63):
        mark(backend, decision(f"b-{n}"))
    assert sum_markers(files, root) is None
    mark(backend, decision("b-0", 2))
    before = held(files, root)

    assert sum_markers(files, root) == 64
    assert sum_markers(files, root) is None

    (name,) = backend.names(f"{backend.out}/_shardbatch/sums")
    assert name.startswith("1-")
    assert held(files, root) == before
    assert files.exists(f"{root}/_shardbatch/b-0.1.json"), "nothing goes before the grace is over"
    assert backend.names(f"{backend.out}/_shardbatch") == sorted(
        [*(f"b-{n}.1.json" for n in range(63)), "b-0.2.json", f"sums/{name}"]
    )


def test_what_an_old_sum_covers_is_swept_behind_a_guard(backend: Backend, files: Files, root: str) -> None:
    mark(backend, decision("a"))
    mark(backend, decision("b", 2))
    assert sum_markers(files, root, least=1) == 2
    mark(backend, decision("a", 3))
    assert sum_markers(files, root, least=1) == 1
    mark(backend, decision("c"))
    first, second = backend.names(f"{backend.out}/_shardbatch/sums")

    if files.listed(f"{root}/_shardbatch/sums")[first] is None:
        pytest.skip("this file system tells no times, so nothing is ever swept")
    assert sum_markers(files, root, least=1, now=in_a_month) == 1

    names = backend.names(f"{backend.out}/_shardbatch")
    third = next(name for name in names if name.startswith("sums/3-"))
    # The newest sum is older than the grace by this clock too, so it is the one that counts.
    assert names == sorted([GUARD, third])
    assert held(files, root) == {"a": 3, "b": 2, "c": 1}
    one = Sum.loads(3, files.read(f"{root}/_shardbatch/{third}"))
    assert {entry.decision.batch_id: entry.taken for entry in one.entries} == {"a": 2, "b": 1, "c": 3}
    assert set(one.read) == {first, second}


def test_what_no_old_sum_covers_stays(backend: Backend, files: Files, root: str) -> None:
    mark(backend, decision("a"))
    sum_markers(files, root, least=1)
    mark(backend, decision("b"))
    sum_markers(files, root, least=1)

    assert len(backend.names(f"{backend.out}/_shardbatch")) == 4


def test_a_sum_that_cannot_be_made_is_no_failure(
    backend: Backend, files: Files, root: str, caplog: pytest.LogCaptureFixture
) -> None:
    backend.put(f"{backend.out}/_shardbatch/a.1.json", b"{")

    assert sum_markers(files, root, least=1) is None
    assert "not summed up" in caplog.text
    assert backend.names(f"{backend.out}/_shardbatch") == ["a.1.json"]


def test_the_files_of_what_is_committed_are_listed_with_their_partitions(backend: Backend) -> None:
    out = backend.out
    for start in ("s-old", "start-a-2"):
        backend.put(f"{out}/batch_id=a/start={start}/day=2026-01-01/k=a%2Fb/part-0.parquet", b"x")
    backend.put(f"{out}/batch_id=a/start=start-a-2/day=__HIVE_DEFAULT_PARTITION__/k=1/part-1.parquet", b"x")
    backend.put(f"{out}/batch_id=a/start=start-a-2/_SUCCESS", b"")
    backend.put(f"{out}/batch_id=a/start=start-a-2/_temporary/0/part-9.parquet", b"x")
    backend.put(f"{out}/batch_id=a/start=start-a-2/day=2026-01-01/.part-0.crc", b"x")
    backend.put(f"{out}/batch_id=b/start=start-b-1/part-2.parquet", b"x")
    mark(backend, decision("a", 2))
    mark(backend, decision("b"))
    mark(backend, decision("c", empty=True))

    found = shardbatch.read_committed_files(out, backend.filesystem)

    place = locate(out).path if locate(out).local else out
    assert [(f.path.removeprefix(place + "/"), f.partition, f.batch_id, f.attempt) for f in found] == [
        ("batch_id=a/start=start-a-2/day=2026-01-01/k=a%2Fb/part-0.parquet", {"day": "2026-01-01", "k": "a/b"}, "a", 2),
        (
            "batch_id=a/start=start-a-2/day=__HIVE_DEFAULT_PARTITION__/k=1/part-1.parquet",
            {"day": None, "k": "1"},
            "a",
            2,
        ),
        ("batch_id=b/start=start-b-1/part-2.parquet", {}, "b", 1),
    ]
    only = shardbatch.read_committed_files(out, backend.filesystem, batches=["b"])
    assert [f.batch_id for f in only] == ["b"]


def test_a_root_with_nothing_has_no_files_and_a_missing_folder_is_an_error(backend: Backend) -> None:
    assert shardbatch.read_committed_files(backend.out, backend.filesystem) == []

    mark(backend, decision("a"))
    with pytest.raises(StagingError, match="batch_id=a"):
        shardbatch.read_committed_files(backend.out, backend.filesystem)


def test_the_files_of_a_folder_have_whole_paths_however_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out" / layout.output_folder("b", "s1")
    folder.mkdir(parents=True)
    (folder / "part-0.parquet").write_bytes(b"")
    OutputRoots(Files(pafs.LocalFileSystem()), "file", {}, "").mark(
        str(tmp_path / "out"), Decision("b", 1, (("s1", 1),))
    )
    monkeypatch.chdir(tmp_path)
    for name in ("out", str(tmp_path / "out"), f"file://{tmp_path}/out/"):
        assert [file.path for file in shardbatch.read_committed_files(name)] == [str(folder / "part-0.parquet")]
