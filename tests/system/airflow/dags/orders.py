# SPDX-License-Identifier: Apache-2.0
"""The example `dags/orders.py` as it is, in an Airflow where it is not UTC; its driver dies where a file says so."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

from scripts.environment import QUICK_JAVA

FOLDER = Path(os.environ.get("SHARDBATCH_TEST_FOLDER", "/nonexistent"))
ROOT = Path(__file__).resolve().parents[4]

os.environ["ORDERS_FOLDER"] = str(FOLDER / "orders")
os.environ["ORDERS_EVERY_SECONDS"] = str(10 * 86_400)
os.environ["SPARK_SUBMIT_OPTS"] = (
    f"{QUICK_JAVA} -Duser.timezone=Pacific/Kiritimati -Dspark.ui.enabled=false -Dspark.sql.shuffle.partitions=1"
)

#: Airflow looks for a DAG only in files that have that word.
dag = runpy.run_path(str(ROOT / "dags" / "orders.py"))["batch"].dag
dag.get_task("orders.to_lake").application = str(Path(__file__).parent.parent / "orders_job.py")
