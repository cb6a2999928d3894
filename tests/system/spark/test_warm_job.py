# SPDX-License-Identifier: Apache-2.0
"""The job whose classes are archived runs on the Spark that is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shardbatch.submit import warm_job

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_it_reads_parses_and_writes_every_record(spark: SparkSession, tmp_path: Path) -> None:
    assert warm_job.work(spark, str(tmp_path)) == 1000
