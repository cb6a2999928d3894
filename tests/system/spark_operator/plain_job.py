# SPDX-License-Identifier: Apache-2.0
"""What ``held_job.py`` does, in a spark-submit that makes no session: a third of the time, the same processes."""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq

from shardbatch import open_batch
from shardbatch.core.batch import Start
from shardbatch.landing import layout

OUT, GATE = Path(sys.argv[1]), Path(sys.argv[2])
LONGEST_S = 400.0

batch = open_batch(os.environ["SHARDBATCH_MANIFEST"])
start = Start(
    start_id=f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}",
    attempt=int(os.environ["SHARDBATCH_ATTEMPT"]),
    work=os.environ["SHARDBATCH_WORK"],
    outputs=(f"file://{OUT}",),
)
seen = {"start_id": start.start_id, "attempt": start.attempt, "work": start.work, "pid": os.getpid()}
(GATE / f".started-{start.start_id}").write_text(json.dumps(seen), "utf-8")
(GATE / f".started-{start.start_id}").rename(GATE / f"started-{start.start_id}")
deadline = time.monotonic() + LONGEST_S
while not (GATE / f"go-{start.start_id}").exists():
    if time.monotonic() > deadline:
        raise RuntimeError("nobody let this application go on")
    time.sleep(0.2)
folder = OUT / layout.output_folder(batch.batch_id, start.start_id)
folder.mkdir(parents=True)
pq.write_table(batch.to_arrow().select(["data"]), folder / "part-0.parquet")
starts = Path(batch.manifest.staging.removeprefix("file://"))
marker = starts / layout.starts_folder(batch.manifest.namespace, batch.batch_id)
marker = marker / layout.start_name(start.attempt, start.start_id) / "start.json"
marker.parent.mkdir(parents=True)
marker.with_name(".start.json").write_text(json.dumps(start.to_json()), "utf-8")
marker.with_name(".start.json").rename(marker)
