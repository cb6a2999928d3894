# SPDX-License-Identifier: Apache-2.0
"""A job of its own, in a session of its own, that reads what was committed as any consumer of the output would."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from shardbatch.spark import read_committed


def main(out: str, answer: str) -> None:
    """Sums per carrier and day over all committed batches, as a JSON list in the file ``answer``."""
    spark = SparkSession.builder.getOrCreate()  # at the server that SPARK_REMOTE names
    sums = (
        read_committed(spark, out)
        .groupBy("carrier", F.col("date").cast("string").alias("date"))
        .agg(F.sum("flights"), F.sum("departures"), F.coalesce(F.sum("delay_minutes"), F.lit(0)))
    )
    rows = [list(row) for row in sums.collect()]
    spark.stop()
    with open(answer, "w", encoding="utf-8") as handle:
        json.dump(rows, handle)


if __name__ == "__main__":
    main(*sys.argv[1:])
