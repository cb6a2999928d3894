# SPDX-License-Identifier: Apache-2.0
"""One try of a task over Spark Connect in a process of its own, for tests that kill it: ``one_try STAGING GIVEN``.

``GIVEN`` is JSON: the arguments of the operator.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from shardbatch.hooks.kinesis import KinesisStream
from shardbatch.hooks.leases import SQLLeases
from shardbatch.hooks.staging import Staging
from shardbatch.operators.spark_connect import SparkConnectBatchOperator


def main() -> None:
    staging, given = sys.argv[1], json.loads(sys.argv[2])
    task = SparkConnectBatchOperator(
        task_id="transform",
        stream=KinesisStream("orders", aws_conn_id=None),
        leases=SQLLeases("leases_db"),
        staging=Staging(staging),
        heartbeat=timedelta(seconds=1),
        **given,
    )
    run = SimpleNamespace(dag_id=given["app_name"], run_id="run1", run_type="manual", conf={})
    instance = SimpleNamespace(id=str(time.time_ns()), task=task, task_id=task.task_id, map_index=-1, try_number=1)
    context: Any = {"ti": instance, "dag_run": run, "params": {}}
    task.execute(context)
    print("the task has succeeded", flush=True)


if __name__ == "__main__":
    main()
