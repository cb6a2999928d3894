# SPDX-License-Identifier: Apache-2.0
"""What ``held_job.py`` does, in a spark-submit that makes no session: a third of the time, the same processes."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from tests.support.starts import enter, records, write

OUT, GATE = sys.argv[1], Path(sys.argv[2])
LONGEST_S = 400.0

with enter() as batch:
    work = os.environ["SHARDBATCH_WORK"]
    seen = {"start_id": batch.start_id, "attempt": batch.attempt, "work": work, "pid": os.getpid()}
    (GATE / f".started-{batch.start_id}").write_text(json.dumps(seen), "utf-8")
    (GATE / f".started-{batch.start_id}").rename(GATE / f"started-{batch.start_id}")
    deadline = time.monotonic() + LONGEST_S
    while not (GATE / f"go-{batch.start_id}").exists():
        if time.monotonic() > deadline:
            raise RuntimeError("nobody let this application go on")
        time.sleep(0.2)
    write(batch.output(OUT), records(batch))
