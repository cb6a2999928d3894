# SPDX-License-Identifier: Apache-2.0
"""The records of all shards of a batch in one order, on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardbatch.core.total_order import Floor, floors_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from shardbatch.core.manifest import Manifest

_MS, _NUMBER = "__shardbatch_floor_ms", "__shardbatch_floor_number"
_SO_FAR = "OVER (PARTITION BY shard_id ORDER BY record_index ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"


def in_order(spark: SparkSession, records: DataFrame, manifest: Manifest) -> DataFrame:
    """Records in the order of :mod:`shardbatch.core.total_order`, with their ``position``."""
    from pyspark.sql import functions as F

    floors = {shard_id: floor for shard_id, floor in floors_of(manifest).items() if floor != Floor()}
    rows = [(shard_id, floor.ms, str(floor.number)) for shard_id, floor in floors.items()]
    told = spark.createDataFrame(rows, f"shard_id string, {_MS} bigint, {_NUMBER} string")
    ms = f"greatest(0, {_MS}, max(unix_micros(arrival_time) DIV 1000) {_SO_FAR})"
    number = f"greatest({_comparable(_NUMBER)}, max({_comparable('sequence_number')}) {_SO_FAR})"
    lineage = F.expr(f"struct({ms} AS ms, {number} AS number)").alias("lineage")
    joined = records.join(F.broadcast(told), "shard_id", "left").select(*records.columns, lineage)
    fields = ("lineage.ms", "lineage.number", "shard_generation", "shard_id", "record_index")
    return joined.select(*records.columns, F.struct(*fields).alias("position")).orderBy("position")


def _comparable(number: str) -> str:
    """A sequence number that compares as an integer of any length: by how many digits it has, then as text."""
    digits = f"trim(LEADING '0' FROM coalesce({number}, '0'))"
    return f"struct(length({digits}) AS digits, {digits} AS text)"
