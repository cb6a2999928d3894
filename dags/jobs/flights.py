# SPDX-License-Identifier: Apache-2.0
"""Flights, departures and delays per carrier and day of one batch. The sums of several batches can be added up."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from shardbatch.spark import open_batch

FLIGHT = "year INT, month INT, day INT, carrier STRING, dep_delay INT"

spark = SparkSession.builder.getOrCreate()
with open_batch(spark) as batch:
    flights = batch.records().select(F.from_json(F.col("data").cast("string"), FLIGHT).alias("it")).select("it.*")
    by_day = flights.groupBy("carrier", F.make_date("year", "month", "day").alias("date")).agg(
        F.count("*").alias("flights"),
        F.count("dep_delay").alias("departures"),  # a flight that was cancelled has no delay
        F.sum("dep_delay").alias("delay_minutes"),
        F.avg("dep_delay").alias("mean_delay"),
    )
    by_day.coalesce(1).write.parquet(batch.output(sys.argv[1]))
spark.stop()
