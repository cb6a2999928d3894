# SPDX-License-Identifier: Apache-2.0
"""An application as an author writes it: copies its batch to its first argument, or does what the second says."""

from __future__ import annotations

import sys
import time

from pyspark.sql import SparkSession

from shardbatch.spark import open_batch

OUT, WHAT = sys.argv[1], sys.argv[2]

spark = SparkSession.builder.getOrCreate()
with open_batch(spark) as batch:
    if WHAT == "fail":
        raise RuntimeError("the transform is broken")
    if WHAT == "wait":
        print("waiting to be ended", flush=True)
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline:
            time.sleep(0.1)
    batch.records().coalesce(1).write.parquet(batch.output(OUT))
print(f"application name: {spark.sparkContext.appName}")
print(f"conf: {spark.conf.get('spark.shardbatch.batch')} {spark.conf.get('spark.shardbatch.work')}")
spark.stop()
