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
spark.conf.set("spark.sql.session.timeZone", "UTC")  # a day begins at the same moment on every cluster
with open_batch(spark) as batch:
    fitting, rejects = changes(batch, ORDER).apart()
    fitting.withColumn("day", F.to_date("created_at")).write.partitionBy("day").parquet(batch.output(f"{lake}/changes"))
    rejects.write.parquet(batch.output(f"{lake}/rejects"))

    latest, unfit = latest_images(batch, ORDER).apart()
    # An order whose last change does not fit has a row without an image, so that no older one takes its place.
    unknown = unfit.select("partition_key", "version", "reason")
    latest = latest.unionByName(unknown, allowMissingColumns=True)
    latest.coalesce(1).write.parquet(batch.output(f"{lake}/latest"))
spark.stop()
