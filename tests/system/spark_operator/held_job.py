# SPDX-License-Identifier: Apache-2.0
"""An application that is held inside its batch: ``held_job.py OUT GATE``.

Each start leaves ``GATE/started-<start id>`` with what a test wants to know of it, and goes on once there is
``GATE/go-<start id>`` or ``GATE/go``; with ``GATE/write-first`` it has written its output before.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from shardbatch.spark import open_batch

OUT, GATE = sys.argv[1], Path(sys.argv[2])
LONGEST_S = 1200.0

spark = SparkSession.builder.getOrCreate()
with open_batch(spark) as batch:
    seen = {
        "start_id": batch.start_id,
        "batch_id": batch.batch_id,
        "attempt": batch.attempt,
        "work": spark.conf.get("spark.shardbatch.work", ""),
        "name": spark.sparkContext.appName,
        "records": batch.records().count(),
        "pid": os.getpid(),
        "folder": os.getcwd(),
    }
    if (GATE / "write-first").exists():
        batch.records().select("data").coalesce(1).write.parquet(batch.output(OUT))
    started = GATE / f"started-{batch.start_id}"
    started.with_name(f".{started.name}").write_text(json.dumps(seen), "utf-8")
    started.with_name(f".{started.name}").rename(started)
    deadline = time.monotonic() + LONGEST_S
    while not (GATE / "go").exists() and not (GATE / f"go-{batch.start_id}").exists():
        if time.monotonic() > deadline:
            raise RuntimeError("nobody let this application go on")
        spark.sparkContext.statusTracker().getActiveStageIds()  # fails once its JVM has ended
        time.sleep(0.2)
    if not (GATE / "write-first").exists():
        batch.records().select("data").coalesce(1).write.parquet(batch.output(OUT))
    if (GATE / "check").exists():
        batch.check()
spark.stop()
(GATE / f"done-{seen['start_id']}").touch()
