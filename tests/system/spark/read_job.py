# SPDX-License-Identifier: Apache-2.0
"""A reader as a consumer writes it, run where only pyspark can be imported: prints what it finds below ``OUT``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))


def show(spark: Any, out: str) -> None:
    """Print the rows that were committed and what a reader of changes sees."""
    from shardbatch.spark import read_changes, read_committed

    rows = read_committed(spark, out, columns=("batch_id", "attempt"))
    print("rows=", sorted(tuple(row) for row in rows.collect()), sep="")
    print("columns=", read_committed(spark, out).columns, sep="")
    new = read_changes(spark, out)
    assert new.frame is not None
    print(f"new={new.frame.count()} {','.join(new.batches)}, then {read_changes(spark, out, new.token).batches}")


if __name__ == "__main__":
    from copy_job import hide, session

    hide(os.environ["BARRED"].split(","))
    spark = session()
    show(spark, os.environ["OUT"])
    spark.stop()
