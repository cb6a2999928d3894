# SPDX-License-Identifier: Apache-2.0
"""An application as an author writes it, run where only pyspark can be imported.

It is told its batch by the environment; ``OUT`` is the output root, ``REMOTE`` the master of a Spark Connect session.
It prints how many records it copied.
"""

from __future__ import annotations

import os
import sys
from typing import Any

BARRED = os.environ["BARRED"].split(",")


class Hiding:
    """A finder of modules that does not find some packages, as where they are not installed."""

    def __init__(self, finder: Any) -> None:
        self.finder = finder

    def find_spec(self, name: str, *where: Any) -> Any:
        return None if name.partition(".")[0] in BARRED else self.finder.find_spec(name, *where)


sys.meta_path = [Hiding(finder) for finder in sys.meta_path]

from pyspark.sql import SparkSession  # noqa: E402

from shardbatch.spark import open_batch, read_committed  # noqa: E402
from shardbatch.spark.files import files_of  # noqa: E402

if os.environ.get("REMOTE"):
    spark = SparkSession.builder.remote(os.environ["REMOTE"]).getOrCreate()
else:
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
with open_batch(spark) as batch:
    batch.check()
    batch.records().write.parquet(batch.output(os.environ["OUT"]))
print(f"files={type(files_of(spark)).__name__}")
print(f"copied={spark.read.parquet(os.environ['OUT']).count()} of={batch.record_count}")
print(f"committed={read_committed(spark, os.environ['OUT'], schema='a int').count()}")
spark.stop()
