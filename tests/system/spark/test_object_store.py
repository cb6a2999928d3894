# SPDX-License-Identifier: Apache-2.0
"""A batch on S3, read by Spark.

pyspark's wheel has no S3 file system and no package registry for Python has one, so ``batch.records()`` over ``s3a://``
cannot run here. What is landed on S3 is read by Spark all the same, through a Python data source over pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from shardbatch.errors import StagingError
from shardbatch.landing.area import StagingArea
from shardbatch.landing.batch import open_batch as open_landed
from shardbatch.spark import open_batch
from shardbatch.spark.schema import FILE_SCHEMA
from tests.contract.landing_backends import SMALL, make_bucket, s3_filesystem
from tests.support.batches import freeze

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from tests.support.aws import AwsServer

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def landed_source(server: AwsServer) -> type[DataSource]:
    """A data source that reads S3 objects of landed records; made in a function so that it travels to the workers."""

    class Reader(DataSourceReader):
        def __init__(self, keys: list[str], key: str, secret: str, endpoint: str) -> None:
            self.keys, self.key, self.secret, self.endpoint = keys, key, secret, endpoint

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(key) for key in self.keys]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            import pyarrow.fs as pafs
            import pyarrow.parquet as pq

            filesystem = pafs.S3FileSystem(
                access_key=self.key, secret_key=self.secret, scheme="http", endpoint_override=self.endpoint
            )
            with filesystem.open_input_file(partition.value) as stream:
                yield from pq.ParquetFile(stream).iter_batches()

    class Landed(DataSource):
        @classmethod
        def name(cls) -> str:
            return "landed"

        def reader(self, schema: StructType) -> Reader:
            options = self.options
            return Reader(options["keys"].split(","), options["key"], options["secret"], options["endpoint"])

    return Landed


def test_spark_reads_objects_of_a_manifest_on_s3(spark: SparkSession, moto_server: AwsServer) -> None:
    from tests.support.aws import ACCOUNT, SECRET

    filesystem = s3_filesystem(moto_server)
    bucket = make_bucket(moto_server, "landing-spark")
    frozen = freeze(StagingArea(f"s3://{bucket.name}/staging", filesystem, sizes=SMALL), {"s-0": 700, "s-1": 3})
    batch = open_landed(frozen.uri, filesystem, digest=frozen.digest)
    keys = [uri.partition("://")[2] for uri in batch.files]
    assert len(keys) > 2

    spark.dataSource.register(landed_source(moto_server))
    frame = (
        spark.read.format("landed")
        .schema(FILE_SCHEMA)
        .options(keys=",".join(keys), key=ACCOUNT, secret=SECRET, endpoint=moto_server.url.partition("://")[2])
        .load()
    )
    rows = frame.select("shard_id", "record_index", "sequence_number").collect()

    assert sorted((row.shard_id, row.record_index) for row in rows) == [
        *(("s-0", n) for n in range(700)),
        *(("s-1", n) for n in range(3)),
    ]


def test_a_cluster_without_the_file_system_is_told_so(spark: SparkSession) -> None:
    with pytest.raises(StagingError, match="s3a://lake/staging") as failure:
        open_batch(spark, "s3://lake/staging/a/s/batches/b/manifest.json", 1, schemes={"s3": "s3a"})

    assert "SHARDBATCH_SCHEMES" in str(failure.value)
