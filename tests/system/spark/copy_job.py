# SPDX-License-Identifier: Apache-2.0
"""An application as an author writes it, run where only pyspark can be imported.

It is told its batch by the environment; ``OUT`` is the output root, ``REMOTE`` the master of a Spark Connect session.
It prints how many records it copied, and what a reader finds below ``READ``.
"""

from __future__ import annotations

import os
import sys
from typing import Any


class Hiding:
    """A finder of modules that does not find some packages, as where they are not installed."""

    def __init__(self, finder: Any, barred: list[str]) -> None:
        self.finder = finder
        self.barred = barred

    def find_spec(self, name: str, *where: Any) -> Any:
        return None if name.partition(".")[0] in self.barred else self.finder.find_spec(name, *where)


def hide(barred: list[str]) -> None:
    """Let these packages not be found from now on."""
    sys.meta_path = [Hiding(finder, barred) for finder in sys.meta_path]  # type: ignore[misc]


def session() -> Any:
    """The session that the environment asks for."""
    from pyspark.sql import SparkSession

    if os.environ.get("REMOTE"):
        return SparkSession.builder.remote(os.environ["REMOTE"]).getOrCreate()
    return SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()


def main() -> None:
    """Copies the batch."""
    hide(os.environ["BARRED"].split(","))
    from shardbatch.spark import open_batch, read_committed
    from shardbatch.spark.files import files_of

    spark = session()
    with open_batch(spark) as batch:
        batch.check()
        batch.records().write.parquet(batch.output(os.environ["OUT"]))
    print(f"files={type(files_of(spark)).__name__}")
    print(f"copied={spark.read.parquet(os.environ['OUT']).count()} of={batch.record_count}")
    print(f"committed={read_committed(spark, os.environ['OUT'], schema='a int').count()}")
    if os.environ.get("READ"):
        from read_job import show

        show(spark, os.environ["READ"])
    spark.stop()


if __name__ == "__main__":
    main()
