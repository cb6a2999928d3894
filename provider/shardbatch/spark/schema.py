# SPDX-License-Identifier: Apache-2.0
"""The schema of records, in Spark's types."""

from __future__ import annotations

from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

#: What ``batch.records()`` has. Order inside a batch: ``(shard_generation, record_index)`` within a shard's lineage.
RECORD_SCHEMA = StructType(
    [
        StructField("shard_id", StringType()),
        StructField("shard_generation", IntegerType()),
        StructField("record_index", LongType()),
        StructField("sequence_number", StringType()),
        StructField("sub_sequence_number", LongType()),
        StructField("partition_key", StringType()),
        StructField("arrival_time", TimestampType()),
        StructField("data", BinaryType()),
        StructField("attributes", MapType(StringType(), StringType())),
    ]
)

#: What the landed files hold: all but ``shard_generation``, which the manifest knows.
FILE_SCHEMA = StructType([field for field in RECORD_SCHEMA.fields if field.name != "shard_generation"])
