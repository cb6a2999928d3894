# SPDX-License-Identifier: Apache-2.0
"""What every staging area keeps to, whatever file system it lies on."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardbatch.core.batch import Start
from shardbatch.core.position import TRIM_HORIZON, after, at_timestamp
from shardbatch.core.rows import Namespace
from shardbatch.core.slice import LandedFile
from shardbatch.core.start import Begun
from shardbatch.errors import ManifestChanged, StagingError
from shardbatch.landing import layout
from shardbatch.landing.area import StagingArea
from shardbatch.landing.batch import open_batch
from tests.contract import landing_backends as backends
from tests.contract.landing_backends import SMALL, Backend, Bucket
from tests.support.aws import AwsServer
from tests.support.batches import NAMESPACE, freeze, page

SHARD = "shardId-000000000000"
TENURE = 41


@pytest.fixture(scope="module")
def staging_bucket(moto_server: AwsServer) -> Bucket:
    return backends.make_bucket(moto_server, "landing-contract")


def contents(backend: Backend, area: StagingArea, files: tuple[LandedFile, ...]) -> list[pq.ParquetFile]:
    return [pq.ParquetFile(io.BytesIO(backend.read(area.uri_of(file.path)))) for file in files]


def done(backend: Backend, area: StagingArea, start: Start, batch_id: str = "b-1", name: str = "start.json") -> None:
    folder = area.uri_of(layout.starts_folder(NAMESPACE, batch_id))
    content = json.dumps(start.to_json()).encode()
    backend.put(f"{folder}/{layout.start_name(start.attempt, start.start_id)}/{name}", content)


# The place itself


def test_a_writable_place_passes_and_keeps_nothing_of_the_probe(backend: Backend, area: StagingArea) -> None:
    area.check(NAMESPACE)

    assert backend.names(area.uri) == []


def test_a_missing_place_is_named_with_a_remedy(backend: Backend) -> None:
    place = backend.missing.uri.rpartition("/")[2]

    with pytest.raises(StagingError, match=place) as failure:
        backend.missing.check(NAMESPACE)

    assert failure.value.remedy


# Slices


def test_records_land_in_order_with_their_index(backend: Backend, area: StagingArea) -> None:
    writer = area.slice(NAMESPACE, SHARD, TRIM_HORIZON, TENURE)
    for first, count in ((0, 3), (3, 0), (3, 40), (43, 1)):
        writer.write(page(first, count))
    files = writer.finish()

    table = pa.concat_tables([file.read() for file in contents(backend, area, files)])

    assert table.column("record_index").to_pylist() == list(range(44))
    assert table.column("sequence_number").to_pylist() == [str(10**20 + n) for n in range(44)]
    assert set(table.column("shard_id").to_pylist()) == {SHARD}
    assert sum(file.records for file in files) == 44


def test_a_slice_that_rests_is_complete_up_to_there_and_goes_on_in_another_file(
    backend: Backend, area: StagingArea
) -> None:
    writer = area.slice(NAMESPACE, SHARD, TRIM_HORIZON, TENURE)
    writer.rest()  # before its first record
    writer.write(page(0, 3))
    writer.rest()
    writer.rest()
    writer.write(page(3, 2))
    files = writer.finish()

    tables = [file.read() for file in contents(backend, area, files)]

    assert [table.column("record_index").to_pylist() for table in tables] == [[0, 1, 2], [3, 4]]
    assert [file.records for file in files] == [3, 2]


def test_a_slice_that_rested_and_is_abandoned_leaves_nothing(backend: Backend, area: StagingArea) -> None:
    writer = area.slice(NAMESPACE, SHARD, TRIM_HORIZON, TENURE)
    writer.write(page(0, 3))
    writer.rest()
    writer.write(page(3, 2))
    writer.abandon()

    assert backend.names(area.uri) == []


def test_a_file_is_plain_parquet_of_the_one_schema(backend: Backend, area: StagingArea) -> None:
    writer = area.slice(NAMESPACE, SHARD, TRIM_HORIZON, TENURE)
    writer.write(page(0, 5, attributes={"event": "INSERT"}))
    (parquet,) = contents(backend, area, writer.finish())

    assert parquet.schema_arrow == pa.schema(
        [
            ("shard_id", pa.string()),
            ("record_index", pa.int64()),
            ("sequence_number", pa.string()),
            ("sub_sequence_number", pa.int64()),
            ("partition_key", pa.string()),
            ("arrival_time", pa.timestamp("us", tz="UTC")),
            ("data", pa.binary()),
            ("attributes", pa.map_(pa.string(), pa.string())),
        ]
    )
    group = parquet.metadata.row_group(0)
    columns = {group.column(n).path_in_schema: group.column(n) for n in range(group.num_columns)}
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    assert {name for name, column in columns.items() if column.has_dictionary_page} == {"shard_id"}
    assert parquet.read().column("attributes").to_pylist() == [[("event", "INSERT")]] * 5


def test_files_roll_and_row_groups_are_bounded_by_bytes(backend: Backend, area: StagingArea) -> None:
    writer = area.slice(NAMESPACE, SHARD, TRIM_HORIZON, TENURE)
    for first in range(0, 1000, 50):
        writer.write(page(first, 50, size=100))
    writer.write(page(1000, 500, size=100))  # one page of several row groups
    files = writer.finish()

    assert len(files) > 3
    assert [file.path.rpartition("/")[2] for file in files] == [layout.part(n) for n in range(len(files))]
    for file, parquet in zip(files, contents(backend, area, files), strict=True):
        assert file.records == parquet.metadata.num_rows
        assert file.bytes == len(backend.read(area.uri_of(file.path)))
        for n in range(parquet.metadata.num_row_groups):
            assert parquet.read_row_group(n).nbytes < 3 * SMALL.row_group


def test_an_empty_slice_has_no_file(backend: Backend, area: StagingArea) -> None:
    writer = area.slice(NAMESPACE, SHARD, TRIM_HORIZON, TENURE)
    writer.write(page(0, 0))

    assert writer.finish() == ()
    assert backend.names(area.uri) == []


def test_an_abandoned_slice_leaves_nothing(backend: Backend, area: StagingArea) -> None:
    writer = area.slice(NAMESPACE, SHARD, TRIM_HORIZON, TENURE)
    for first in range(0, 1000, 50):
        writer.write(page(first, 50, size=100))
    writer.abandon()
    finished = area.slice(NAMESPACE, SHARD, TRIM_HORIZON, TENURE)
    finished.write(page(0, 5))
    finished.finish()
    finished.abandon()

    assert backend.names(area.uri) == []


def test_two_tries_of_one_read_do_not_meet(backend: Backend, area: StagingArea) -> None:
    writers = [area.slice(NAMESPACE, SHARD, after("7", 3), TENURE) for _ in range(2)]
    for count, writer in enumerate(writers, start=1):
        writer.write(page(0, count))
    files = [writer.finish()[0] for writer in writers]
    writers[0].abandon()

    assert files[0].path != files[1].path
    assert contents(backend, area, (files[1],))[0].metadata.num_rows == 2


@pytest.mark.parametrize("name", ["a b", "orders:eu", "50%", "x=y", "été", "[a]*{b}?", "_hidden", "..", "~"])
def test_odd_names_stay_inside_their_namespace(backend: Backend, area: StagingArea, name: str) -> None:
    writer = area.slice(Namespace(name, name), name, at_timestamp(5), TENURE)
    writer.write(page(0, 2))
    files = writer.finish()

    assert backend.names(area.uri) == [file.path for file in files]
    folder = layout.namespace_folder(Namespace(name, name))
    assert files[0].path.startswith(folder + "/slices/")
    assert not set(folder) & set(":*?[]{}\\ %=")
    assert contents(backend, area, files)[0].read().column("shard_id").to_pylist() == [name] * 2


def test_columns_of_a_wider_type_are_brought_into_the_schema(backend: Backend, area: StagingArea) -> None:
    narrow = page(0, 2)
    at = narrow.schema.get_field_index("partition_key")
    wide = narrow.set_column(at, "partition_key", narrow.column(at).cast(pa.large_string()))
    writer = area.slice(NAMESPACE, SHARD, TRIM_HORIZON, TENURE)
    writer.write(wide)

    assert contents(backend, area, writer.finish())[0].read().num_rows == 2


def test_a_page_without_a_column_is_refused_before_anything_is_written(backend: Backend, area: StagingArea) -> None:
    writer = area.slice(NAMESPACE, SHARD, TRIM_HORIZON, TENURE)

    with pytest.raises(StagingError, match="partition_key"):
        writer.write(page(0, 2).drop_columns(["partition_key"]))

    assert backend.names(area.uri) == []


def test_an_error_about_a_page_shows_no_record(area: StagingArea) -> None:
    broken = page(0, 2)
    at = broken.schema.get_field_index("sub_sequence_number")
    broken = broken.set_column(at, "sub_sequence_number", pa.array(["secret", "secret"]))

    with pytest.raises(StagingError, match="sub_sequence_number") as failure:
        area.slice(NAMESPACE, SHARD, TRIM_HORIZON, TENURE).write(broken)

    assert "secret" not in str(failure.value)


# Manifests and attempts


def test_a_manifest_reads_back_as_the_same_bytes(backend: Backend, area: StagingArea) -> None:
    uri = area.write_manifest(NAMESPACE, "b-1", b'{"a":1}\n')

    assert area.read_manifest(NAMESPACE, "b-1") == b'{"a":1}\n'
    assert backend.read(uri) == b'{"a":1}\n'
    assert backend.names(area.uri) == ["etl/orders/batches/b-1/manifest.json"]


def test_a_missing_manifest_is_named(area: StagingArea) -> None:
    with pytest.raises(StagingError, match=r"b-9/manifest\.json"):
        area.read_manifest(NAMESPACE, "b-9")


def test_attempts_are_noted_once_each(backend: Backend, area: StagingArea) -> None:
    for attempt in (1, 2, 2):
        area.note_attempt(NAMESPACE, "b-1", attempt)

    assert backend.names(area.uri_of("etl/orders/batches/b-1/attempts")) == ["1", "2"]


def test_a_batch_is_opened_without_spark(backend: Backend, area: StagingArea) -> None:
    frozen = freeze(area, {"shard-1": 12, "shard-0": 300, "shard-2": 0}, generations={"shard-1": 1})

    batch = open_batch(frozen.uri, backend.filesystem, digest=frozen.digest)
    table = batch.to_arrow()

    assert batch.manifest == frozen.manifest
    assert len(batch.files) == len(frozen.manifest.files) > 2
    assert batch.batch_id == "batch-1"
    assert table.select(["shard_id", "shard_generation", "record_index"]).to_pylist() == [
        *({"shard_id": "shard-0", "shard_generation": 0, "record_index": n} for n in range(300)),
        *({"shard_id": "shard-1", "shard_generation": 1, "record_index": n} for n in range(12)),
    ]


def test_an_empty_batch_opens_as_an_empty_table(backend: Backend, area: StagingArea) -> None:
    batch = open_batch(freeze(area, {"shard-0": 0}).uri, backend.filesystem)

    assert batch.files == ()
    assert batch.to_arrow().num_rows == 0


def test_a_changed_manifest_is_refused(backend: Backend, area: StagingArea) -> None:
    frozen = freeze(area, {"shard-0": 3})
    backend.put(frozen.uri, frozen.manifest.dumps().replace(b"shard-0", b"shard-1"))

    with pytest.raises(ManifestChanged):
        open_batch(frozen.uri, backend.filesystem, digest=frozen.digest)


# Starts


def test_only_finished_starts_are_found(backend: Backend, area: StagingArea) -> None:
    one, two = Start("s1", 2, "load", ("s3://lake/a",)), Start("s2", 10, "")
    done(backend, area, one)
    done(backend, area, two, name="part-00000-6f1.txt")  # as written by Spark where no JVM can be reached
    done(backend, area, Start("s3", 11, ""), name=".start.json.tmp")
    done(backend, area, Start("s4", 12, ""), name="_temporary/0/part-0.txt")
    done(backend, area, Start("s5", 13, ""), batch_id="b-2")

    assert area.finished_starts(NAMESPACE, "b-1") == [one, two]
    assert area.finished_starts(NAMESPACE, "b-3") == []


def test_all_begun_starts_are_found_whether_they_ended_or_not(backend: Backend, area: StagingArea) -> None:
    starts = [Begun("s1", 1, "load", spark_application="app-1"), Begun("s2", 2, "load"), Begun("s3", 2, "other")]
    works = area.uri_of(layout.works_folder(NAMESPACE, "b-1"))
    for one in starts:
        folder = f"{works}/{layout.work_folder(one.work)}/{layout.BEGUN}/{layout.start_name(one.attempt, one.start_id)}"
        backend.put(f"{folder}/begun.json", json.dumps(one.to_json()).encode())
    assert area.begun_starts(NAMESPACE, "b-1") == starts
    assert area.begun_starts(NAMESPACE, "b-3") == []


def test_a_damaged_done_marker_is_an_error(backend: Backend, area: StagingArea) -> None:
    folder = area.uri_of(layout.starts_folder(NAMESPACE, "b-1"))
    backend.put(f"{folder}/1-s1/start.json", b"{")

    with pytest.raises(StagingError, match=r"1-s1/start\.json"):
        area.finished_starts(NAMESPACE, "b-1")
