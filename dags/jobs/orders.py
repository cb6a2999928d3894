# SPDX-License-Identifier: Apache-2.0
"""The changes of one batch by day, the last image of each order, and apart from them what does not fit the schema."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from shardbatch.spark import open_batch
from shardbatch.spark.dynamodb import changes, latest_images

ORDER = "id STRING, customer STRING, amount DECIMAL(12, 2), tags ARRAY<STRING>"
lake = sys.argv[1]

spark = SparkSession.builder.getOrCreate()
with open_batch(spark) as batch:
    fitting, rejects = changes(batch, ORDER).apart()
    fitting.withColumn("day", F.to_date("created_at")).write.partitionBy("day").parquet(batch.output(f"{lake}/changes"))
    rejects.write.parquet(batch.output(f"{lake}/rejects"))
    latest = latest_images(batch, ORDER).apart().frame  # what does not fit is among the rejects already
    latest.coalesce(1).write.parquet(batch.output(f"{lake}/latest"))
spark.stop()
