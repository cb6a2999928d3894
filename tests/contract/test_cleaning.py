# SPDX-License-Identifier: Apache-2.0
"""What clean-up finds and removes, whatever file system staging and output roots lie on."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest

from shardbatch.core.decision import Decision
from shardbatch.core.position import after, at_timestamp
from shardbatch.core.rows import Namespace
from shardbatch.errors import StagingError
from shardbatch.landing import layout
from shardbatch.landing.area import StagingArea
from shardbatch.landing.location import locate
from shardbatch.landing.sums import sweep_markers
from tests.contract import landing_backends as backends
from tests.contract.landing_backends import Backend, Bucket
from tests.support.aws import AwsServer
from tests.support.batches import NAMESPACE, freeze, page

SHARD = "shardId-000000000000"


@pytest.fixture(scope="module")
def staging_bucket(moto_server: AwsServer) -> Bucket:
    return backends.make_bucket(moto_server, "cleaning-contract")


def land(area: StagingArea, namespace: Namespace = NAMESPACE, shard_id: str = SHARD, begins: Any = None) -> None:
    writer = area.slice(namespace, shard_id, begins or after("7", 3), 41)
    writer.write(page(0, 500))
    writer.finish()


def test_nothing_is_found_where_nothing_is(area: StagingArea) -> None:
    assert list(area.cleaner.slices(NAMESPACE)) == []
    assert list(area.cleaner.batches(NAMESPACE)) == []
    assert area.cleaner.manifests(NAMESPACE, []) == {}


def test_a_slice_folder_is_told_by_its_name_with_all_that_stands_in_it(backend: Backend, area: StagingArea) -> None:
    land(area)
    (found,) = area.cleaner.slices(NAMESPACE)
    names = backend.names(area.uri)
    assert {name.rpartition("/")[0] for name in names} == {found.path}
    assert (found.shard_id, found.after, found.tenure, found.files) == (SHARD, after("7", 3), 41, len(names))
    assert found.bytes == sum(len(backend.read(area.uri_of(name))) for name in names)
    if found.newest_ms is not None:  # fsspec's memory tells none
        assert abs(time.time() * 1000 - found.newest_ms) < 3_600_000
    assert found.uploads == ()


@pytest.mark.parametrize("name", ["a b", "orders:eu", "50%", "x=y", "été", "_hidden", "~"])
def test_odd_names_are_read_back_as_they_were_given(area: StagingArea, name: str) -> None:
    namespace = Namespace(name, name)
    land(area, namespace, name, at_timestamp(5))
    (found,) = area.cleaner.slices(namespace)
    assert (found.shard_id, found.after) == (name, at_timestamp(5))


def test_a_slice_folder_is_removed_and_no_other(backend: Backend, area: StagingArea) -> None:
    land(area)
    land(area)
    first, second = area.cleaner.slices(NAMESPACE)
    for _ in range(2):  # another clean-up may have been first
        area.cleaner.remove_slice(first)
    assert list(area.cleaner.slices(NAMESPACE)) == [second]
    assert backend.names(area.uri)


def test_other_names_are_not_taken_for_slices_or_starts(backend: Backend, area: StagingArea) -> None:
    for name in ("notes/readme.txt", f"{SHARD}/readme.txt", f"{SHARD}/notes/a.txt", f"{SHARD}/5-t1-xyz/a.txt"):
        backend.put(area.uri_of(f"{layout.slices_folder(NAMESPACE)}/{name}"), b"mine")
    backend.put(f"{backend.out}/batch_id=b-1/notes/a.txt", b"mine")
    assert list(area.cleaner.slices(NAMESPACE)) == []
    assert list(area.cleaner.starts(backend.out, "b-1")) == []


def test_a_batch_folder_is_found_and_removed_whole_with_its_manifest_last(
    backend: Backend, area: StagingArea, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = freeze(area, {SHARD: 10})
    for attempt in (10, 9, 1):
        area.note_attempt(NAMESPACE, frozen.manifest.batch_id, attempt)
    folder = layout.batch_folder(NAMESPACE, frozen.manifest.batch_id)
    backend.put(area.uri_of(f"{folder}/works/w/begun/1-s/begun.json"), b"{}")
    (found,) = area.cleaner.batches(NAMESPACE)
    assert (found.batch_id, found.manifest) == (frozen.manifest.batch_id, True)
    assert found.files == len([name for name in backend.names(area.uri) if name.startswith(folder)])
    contents = area.cleaner.manifests(NAMESPACE, [frozen.manifest.batch_id, "b-0"])
    assert contents["b-0"] is None
    assert contents[frozen.manifest.batch_id] == area.read_manifest(NAMESPACE, frozen.manifest.batch_id)

    gone: list[str] = []
    remove = area.cleaner._files.remove

    def noting(paths: Any) -> None:
        assert f"{folder}/attempts/retired" in backend.names(area.uri)
        gone.extend(path.rpartition("/")[2] for path in paths)
        remove(paths)

    monkeypatch.setattr(area.cleaner._files, "remove", noting)
    for _ in range(2):
        area.cleaner.remove_batch(NAMESPACE, frozen.manifest.batch_id)
    assert [name for name in gone if name.isdigit()] == ["1", "9", "10"]
    assert gone.index("10") < gone.index("manifest.json")
    assert not [name for name in backend.names(area.uri) if name.startswith(folder)]
    assert list(area.cleaner.batches(NAMESPACE)) == []
    assert len(area.cleaner.slices(NAMESPACE)) == 1


def test_the_starts_of_a_batch_are_found_and_removed_one_by_one(backend: Backend, area: StagingArea) -> None:
    for start_id in ("s1", "s 2"):
        backend.put(f"{backend.out}/{layout.output_folder('b-1', start_id)}/day=1/part.parquet", b"12345")
    backend.put(f"{backend.out}/{layout.output_folder('b-2', 's1')}/part.parquet", b"1")
    found = area.cleaner.starts(backend.out, "b-1")
    assert sorted((start.start_id, start.files, start.bytes) for start in found) == [("s 2", 1, 5), ("s1", 1, 5)]
    for start in found:
        area.cleaner.remove_start(backend.out, start)
        area.cleaner.remove_start(backend.out, start)
    assert list(area.cleaner.starts(backend.out, "b-1")) == []
    assert len(area.cleaner.starts(backend.out, "b-2")) == 1


def test_a_root_that_is_not_seen_is_no_empty_root(backend: Backend, area: StagingArea) -> None:
    if backend.area._files.whole:
        pytest.skip("an object store has no folders")
    for ask in (lambda: area.cleaner.starts(backend.out, "b-1"), lambda: area.cleaner.decisions(backend.out)):
        with pytest.raises(StagingError, match="not seen"):
            ask()


def test_what_a_root_tells_is_the_highest_decision_and_markers_go_once_a_sum_has_stood(
    backend: Backend, area: StagingArea
) -> None:
    backend.put(f"{backend.out}/{layout.output_folder('b-1', 's1')}/part.parquet", b"1")
    for decided in (1, 2):
        area.outputs.mark(backend.out, Decision("b-1", decided, ((f"s{decided}", decided),), app="etl/orders"))
    assert area.cleaner.decisions(backend.out)["b-1"].starts == (("s2", 2),)
    assert area.outputs.sum_now(backend.out) == 2
    assert area.cleaner.sweep(backend.out, dry_run=False) == 0  # the sum is young
    root, files = locate(backend.out).path, area._files
    if None in files.listed(f"{root}/{layout.MARKERS}").values():
        return  # a store that tells no times keeps its markers
    told = area.cleaner.decisions(backend.out)
    assert sweep_markers(files, root, dry_run=True, grace=-timedelta(hours=1)) == 2
    assert len([name for name in backend.names(backend.out) if layout.marker(name.rpartition("/")[2])]) >= 2
    assert sweep_markers(files, root, dry_run=False, grace=-timedelta(hours=1)) == 2
    assert area.cleaner.decisions(backend.out) == told
    assert not [name for name in backend.names(backend.out) if name.rpartition("/")[2].startswith((".probe", "b-1"))]
