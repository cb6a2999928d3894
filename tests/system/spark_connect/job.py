# SPDX-License-Identifier: Apache-2.0
"""A script as an author writes it: copies its batch to its first argument, or does what the second says."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from shardbatch.spark import open_batch

OUT, WHAT = sys.argv[1], sys.argv[2]

spark = SparkSession.builder.getOrCreate()
with open_batch(spark) as batch:
    if WHAT == "fail":
        raise RuntimeError("the transform is broken")
    if WHAT == "context":
        spark.sparkContext.setLogLevel("INFO")
    if WHAT == "wait":
        Path(OUT).with_name("waits").touch()
        spark.range(0, 10**15, 1, 2).selectExpr("sum(hash(id))").collect()  # holds both cores of the server
    batch.records().coalesce(1).write.parquet(batch.output(OUT))
print(f"session: {spark.session_id} {spark.conf.get('spark.sql.shuffle.partitions')} {os.environ['SHARDBATCH_WORK']}")
spark.stop()
