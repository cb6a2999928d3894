# SPDX-License-Identifier: Apache-2.0
"""An application as an author writes it: copies its batch to its first argument, fails as the second says."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from shardbatch.spark import open_batch

OUT, TOLD = sys.argv[1], Path(sys.argv[2])

word = TOLD.read_text("utf-8") if TOLD.exists() else ""
spark = SparkSession.builder.getOrCreate()
with open_batch(spark) as batch:
    if word == "fail inside":
        raise RuntimeError("the transform is broken")
    batch.records().select("data").coalesce(1).write.parquet(batch.output(OUT))
spark.stop()
if word == "fail afterwards":
    sys.exit("what follows the block is broken")
