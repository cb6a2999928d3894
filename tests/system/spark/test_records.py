# SPDX-License-Identifier: Apache-2.0
"""Spark reads back what was landed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from shardbatch.core.rows import Namespace
from shardbatch.errors import ConfigurationError, ManifestChanged, StagingError
from shardbatch.spark import open_batch
from shardbatch.spark.files import FrameFiles, GatewayFiles, files_of
from tests.support.batches import ARRIVAL_MS, freeze, page

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from shardbatch.landing.area import StagingArea

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def test_spark_reads_every_landed_record_with_its_place(spark: SparkSession, area: StagingArea) -> None:
    frozen = freeze(area, {"shard-0": 250, "shard-1": 30}, generations={"shard-1": 1})
    batch = open_batch(spark, frozen.uri, 1, digest=frozen.digest)

    frame = batch.records()
    rows = frame.orderBy("shard_id", "record_index").collect()

    assert frame.columns == [
        "shard_id",
        "shard_generation",
        "record_index",
        "sequence_number",
        "sub_sequence_number",
        "partition_key",
        "arrival_time",
        "data",
        "attributes",
    ]
    assert [t for _, t in frame.dtypes] == [
        *("string", "int", "bigint", "string", "bigint", "string", "timestamp", "binary", "map<string,string>")
    ]
    assert batch.record_count == len(rows) == 280
    assert [(r.shard_id, r.shard_generation, r.record_index) for r in rows] == [
        *(("shard-0", 0, n) for n in range(250)),
        *(("shard-1", 1, n) for n in range(30)),
    ]
    row = rows[17]
    assert (row.sequence_number, row.sub_sequence_number, row.partition_key) == (str(10**20 + 17), 0, "key-3")
    assert bytes(row.data) == b"17:".ljust(10, b"\0")
    arrived = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ARRIVAL_MS + 17)
    assert row.arrival_time.astimezone(UTC) == arrived
    assert row.attributes is None


def test_many_files_are_listed_by_few_tasks_and_the_session_keeps_its_settings(
    spark: SparkSession, area: StagingArea
) -> None:
    name = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
    frozen = freeze(area, {f"s-{n}": 2 for n in range(200)}, generations={f"s-{n}": n % 2 for n in range(200)})
    before, tracker = spark.conf.get(name), spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("listing", "listing")
    try:
        frame = open_batch(spark, frozen.uri, 1).records()
        stages = [s for job in tracker.getJobIdsForGroup("listing") for s in tracker.getJobInfo(job).stageIds]
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)

    assert [tracker.getStageInfo(stage).numTasks for stage in stages] == [64, 64]
    assert spark.conf.get(name) == before
    assert frame.count() == 400


def test_attributes_of_a_source_reach_spark(spark: SparkSession, area: StagingArea) -> None:
    frozen = freeze(area, {"shard-0": 1})
    writer = area.slice(frozen.manifest.namespace, "shard-x", frozen.manifest.slices[0].slice.after, 1)
    writer.write(page(0, 2, attributes={"event_name": "INSERT"}))
    file = writer.finish()[0]

    frame = spark.read.parquet(area.uri_of(file.path))  # a job that does not know shardbatch

    assert [row.attributes for row in frame.collect()] == [{"event_name": "INSERT"}] * 2
    assert frame.columns == [c for c in open_batch(spark, frozen.uri, 1).records().columns if c != "shard_generation"]


def test_an_empty_batch_has_no_rows(spark: SparkSession, area: StagingArea) -> None:
    frozen = freeze(area, {"shard-0": 0})

    batch = open_batch(spark, frozen.uri, 1)

    assert batch.record_count == 0
    assert batch.records().count() == 0
    assert "shard_generation" in batch.records().columns


def test_files_beside_those_of_the_manifest_are_not_read(spark: SparkSession, area: StagingArea) -> None:
    frozen = freeze(area, {"shard-0": 10})
    path = area.root + "/" + frozen.manifest.files[0].path
    folder = path.rpartition("/")[0]
    with open(path, "rb") as landed, open(folder + "/part-99999.parquet", "wb") as stray:
        stray.write(landed.read())

    assert open_batch(spark, frozen.uri, 1).records().count() == 10


@pytest.mark.parametrize("name", ["a b", "orders:eu", "50%", "x=y", "été", "[a]*", "_hidden", "..", "~7e"])
def test_odd_names_are_read_back(spark: SparkSession, area: StagingArea, name: str) -> None:
    frozen = freeze(area, {name: 3}, namespace=Namespace(name, name))

    frame = open_batch(spark, frozen.uri, 1).records()

    assert [row.shard_id for row in frame.collect()] == [name] * 3
    assert len(frame.columns) == 9


def test_a_missing_file_is_an_error_that_says_why(spark: SparkSession, area: StagingArea, tmp_path: Path) -> None:
    frozen = freeze(area, {"shard-0": 10, "shard-1": 10})
    (next(iter(tmp_path.rglob("part-00000.parquet")))).unlink()

    with pytest.raises(StagingError, match=r"missing in .*Restore it"):
        open_batch(spark, frozen.uri, 1).records()


def test_a_damaged_file_is_an_error_where_the_session_would_pass_it_over(
    spark: SparkSession, area: StagingArea, tmp_path: Path
) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    frozen = freeze(area, {"shard-0": 10})
    file = next(iter(tmp_path.rglob("part-00000.parquet")))
    file.write_bytes(file.read_bytes()[:-20])

    with pytest.raises((PySparkException, Py4JError)):
        open_batch(spark, frozen.uri, 1).records().collect()


def test_a_changed_manifest_is_refused(spark: SparkSession, area: StagingArea) -> None:
    frozen = freeze(area, {"shard-0": 10})

    with pytest.raises(ManifestChanged, match="never edit"):
        open_batch(spark, frozen.uri, 1, digest="0" * 64)


def test_a_missing_manifest_is_named(spark: SparkSession, area: StagingArea) -> None:
    with pytest.raises(StagingError, match=r"nowhere/manifest\.json"):
        open_batch(spark, area.uri_of("nowhere/manifest.json"), 1)


def test_without_a_manifest_the_error_names_every_way_to_give_one(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHARDBATCH_MANIFEST", raising=False)
    with pytest.raises(ConfigurationError, match="SHARDBATCH_MANIFEST"):
        open_batch(spark)


def test_environment_and_configuration_name_the_batch(
    spark: SparkSession, area: StagingArea, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = freeze(area, {"shard-0": 10})
    spark.conf.set("spark.shardbatch.manifest", frozen.uri.replace("file://", "s3:"))
    spark.conf.set("spark.shardbatch.attempt", "3")
    spark.conf.set("spark.shardbatch.schemes", "s3=file")
    try:
        assert open_batch(spark).attempt == 3
        monkeypatch.setenv("SHARDBATCH_MANIFEST", frozen.uri)
        monkeypatch.setenv("SHARDBATCH_ATTEMPT", "4")
        monkeypatch.setenv("SHARDBATCH_DIGEST", frozen.digest)
        assert open_batch(spark).attempt == 4
        assert open_batch(spark, attempt=5).records().count() == 10
    finally:
        for name in ("manifest", "attempt", "schemes"):
            spark.conf.unset("spark.shardbatch." + name)


def test_both_ways_to_small_files_tell_the_same(spark: SparkSession, area: StagingArea, tmp_path: Path) -> None:
    frozen = freeze(area, {"shard-0": 10})
    gateway, frames = files_of(spark), FrameFiles(spark)
    assert isinstance(gateway, GatewayFiles)
    folder = str(tmp_path / "_small files")
    deeper = folder + "/deeper"

    for files in (gateway, frames):
        assert files.read(frozen.uri) == frozen.manifest.dumps()
        assert files.names(folder) == []
        assert files.contents(folder, ["one.json"]) == {}
        assert not files.there(folder)

    gateway.put(folder, "one.json", "é{}")
    frames.put(deeper, "two.json", "é{}")

    for files in (gateway, frames):
        assert files.names(folder) == ["one.json"]
        assert files.contents(folder, ["one.json"]) == {"one.json": "é{}".encode()}
        found = files.contents(deeper, files.names(deeper)).values()  # with Spark's empty mark of success
        assert [content for content in found if content] == ["é{}\n".encode()]
        assert files.there(folder)
