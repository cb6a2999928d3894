# SPDX-License-Identifier: Apache-2.0
"""The functions for an application on a Spark cluster. They need only pyspark (3.5 or later)."""

from shardbatch.spark.batch import SparkBatch, open_batch
from shardbatch.spark.committed import CommittedChanges, read_changes, read_committed

__all__ = ["CommittedChanges", "SparkBatch", "open_batch", "read_changes", "read_committed"]
