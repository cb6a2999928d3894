# SPDX-License-Identifier: Apache-2.0
"""What an application on a Spark cluster uses. Needs pyspark (3.5 or later) and nothing else."""

from shardbatch.spark.batch import SparkBatch, open_batch
from shardbatch.spark.committed import read_committed

__all__ = ["SparkBatch", "open_batch", "read_committed"]
