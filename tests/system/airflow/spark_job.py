# SPDX-License-Identifier: Apache-2.0
"""Copies its batch to its first argument; the first start that finds a file `hold-…` never leaves the block."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from shardbatch.spark import open_batch

out, hold = sys.argv[1], Path(sys.argv[2])

spark = SparkSession.builder.getOrCreate()
with open_batch(spark) as batch:
    batch.records().select("data").coalesce(1).write.parquet(batch.output(out))
    if hold.exists():
        hold.rename(hold.with_name(hold.name.replace("hold-", "inside-")))
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline:
            time.sleep(0.2)
        raise RuntimeError("nobody ended this application")
spark.stop()
