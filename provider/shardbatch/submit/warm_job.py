# SPDX-License-Identifier: Apache-2.0
"""A Spark application that does once, on a few rows, what the job of a batch does: read Parquet, parse, group, write.

``airflow shardbatch warm-spark`` submits it; the classes that it loads go into the archive.
"""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 1000


def work(spark: SparkSession, folder: str) -> int:
    """Read, parse, group and write; the number of rows that came out."""
    from pyspark.sql import functions as F

    text = F.format_string('{"day": "2026-01-%02d", "value": %d}', F.col("id") % 28 + 1, F.col("id"))
    records = spark.range(ROWS).select(text.cast("binary").alias("data"), F.current_timestamp().alias("arrival"))
    records.coalesce(1).write.parquet(f"{folder}/in")
    landed = spark.read.schema("data BINARY, arrival TIMESTAMP").parquet(f"{folder}/in")
    parsed = landed.select(F.from_json(F.col("data").cast("string"), "day DATE, value INT").alias("it"), "arrival")
    grouped = parsed.select("it.*").groupBy("day").agg(F.count("value").alias("rows"), F.avg("value").alias("mean"))
    grouped.coalesce(1).write.parquet(f"{folder}/out")
    parsed.select("it.*").orderBy("day").write.partitionBy("day").json(f"{folder}/lines")
    return int(spark.read.parquet(f"{folder}/out").agg(F.sum("rows")).collect()[0][0])


def main() -> None:
    """Run it in a session of its own."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("shardbatch warm-spark").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        work(spark, folder)
    spark.stop()


if __name__ == "__main__":
    main()
