# SPDX-License-Identifier: Apache-2.0
"""A batch that was read over splits and merges, in Spark: each key in order, no record read from the stream twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from shardbatch.local import StreamServer
from shardbatch.spark import open_batch, read_committed
from tests.support.resharded import KEYS, Resharded, disorder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from shardbatch.run import Frozen

pytestmark = [pytest.mark.slow, pytest.mark.spark]

ROUNDS = 5


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resharded]:
    with StreamServer() as server:
        made = Resharded(server, tmp_path_factory.mktemp("resharded"))
        for number in range(ROUNDS):
            made.put()
            made.split(number)
            made.put()
            made.put()
            made.merge(number + 1) if number % 2 else made.split(number + 1)
        made.put()
        yield made


@pytest.fixture(scope="module")
def frozen(stream: Resharded) -> Frozen:
    return stream.freeze("r1")


def partitions(frame: DataFrame) -> list[list[bytes]]:
    """The records of each partition, in its order."""
    return [[bytes(row.data) for row in rows] for rows in frame.rdd.glom().collect()]


def test_every_key_is_in_order_across_reshards(spark: SparkSession, stream: Resharded, frozen: Frozen) -> None:
    batch = open_batch(spark, frozen.manifest_uri, 1)
    assert batch.records().selectExpr("max(shard_generation)").first()[0] >= ROUNDS

    parts = [part for part in partitions(batch.ordered()) if part]

    assert sum(map(len, parts)) == sum(stream.sent.values())
    assert disorder([row for part in parts for row in part]) == []
    keys = [{row.partition(b":")[0] for row in part} for part in parts]
    assert sum(map(len, keys)) == len(KEYS)  # no key in two partitions


def test_the_order_is_kept_where_spark_chooses_the_partitions(spark: SparkSession, frozen: Frozen) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "40")  # which it then joins to few
    try:
        frame = open_batch(spark, frozen.manifest_uri, 1).ordered()
        assert disorder([row for part in partitions(frame) for row in part]) == []
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


def test_the_order_outlives_a_function_over_partitions_and_a_write(
    spark: SparkSession, stream: Resharded, frozen: Frozen, tmp_path: Path
) -> None:
    out = str(tmp_path / "out")
    frame = open_batch(spark, frozen.manifest_uri, 1).ordered()
    frame.mapInArrow(lambda batches: batches, frame.schema).write.parquet(out)

    for file in sorted((tmp_path / "out").glob("part-*")):
        assert disorder(pq.read_table(file, columns=["data"]).column("data").to_pylist()) == []
    assert spark.read.parquet(out).count() == sum(stream.sent.values())


def test_however_often_a_job_asks_spark_each_record_is_read_from_the_stream_once(
    spark: SparkSession, stream: Resharded, frozen: Frozen, out: str
) -> None:  # R103
    asked = len(stream.server.calls.list("GetRecords"))
    with open_batch(spark, frozen.manifest_uri, 1) as batch:
        records = batch.records()
        assert records.count() == sum(stream.sent.values())
        records.write.parquet(batch.output(out))
        assert records.count() == batch.record_count
    stream.rig.end(frozen, only=True)
    stream.rig.commit("r1", frozen)

    assert read_committed(spark, out).count() == sum(stream.sent.values())
    assert len(stream.server.calls.list("GetRecords")) == asked
