# SPDX-License-Identifier: Apache-2.0
"""What an application on a Spark cluster uses. Needs pyspark (3.5 or later) and nothing else."""

from shardbatch.spark.batch import SparkBatch, open_batch
from shardbatch.spark.committed import CommittedChanges, read_changes, read_committed

__all__ = ["CommittedChanges", "SparkBatch", "open_batch", "read_changes", "read_committed"]
