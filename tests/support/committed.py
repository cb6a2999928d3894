# SPDX-License-Identifier: Apache-2.0
"""What readers on Spark see of outputs, in one process for all: ``python -m tests.support.committed ROOT…``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from scripts.environment import QUICK_JAVA, process_environment, python_path


def committed(outs: Iterable[Path]) -> dict[str, list[str]]:
    """The column `data` of what ``read_committed`` shows below each root, as texts in order, by the root's name."""
    words = [sys.executable, "-m", "tests.support.committed", *map(str, outs)]
    done = subprocess.run(
        words, env={**process_environment(), "PYTHONPATH": python_path()}, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def main(outs: list[str]) -> None:
    from pyspark.sql import SparkSession

    from shardbatch.spark import read_committed

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": QUICK_JAVA,
        "spark.log.level": "ERROR",
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    found = {}
    for out in outs:
        rows = read_committed(spark, out, schema="data binary").collect()
        found[Path(out).name] = sorted(bytes(row.data).decode() for row in rows)
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
