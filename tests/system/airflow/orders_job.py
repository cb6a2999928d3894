# SPDX-License-Identifier: Apache-2.0
"""The job of the example `dags/orders.py` as it is, in a driver that dies where a file says so: `written`, when all
output stands in the folders of its start, and `done`, when it has left its block."""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

from shardbatch.core.start import Start
from shardbatch.spark.batch import SparkBatch
from tests.support.deadly import Orders

ORDERS = Orders(Path(os.environ["SHARDBATCH_TEST_FOLDER"]), "orders")
finish: Any = SparkBatch._finish


def finish_or_die(batch: SparkBatch, start: Start, outputs: dict[str, str]) -> None:
    ORDERS.at("written")
    finish(batch, start, outputs)
    ORDERS.at("done")


SparkBatch._finish = finish_or_die  # type: ignore[method-assign]
runpy.run_path(str(Path(__file__).resolve().parents[3] / "dags" / "jobs" / "orders.py"), run_name="__main__")
