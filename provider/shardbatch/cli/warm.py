# SPDX-License-Identifier: Apache-2.0
"""``airflow shardbatch warm-spark``: makes the archive of Spark's classes on this worker."""

from __future__ import annotations

import sys
from argparse import Namespace as Arguments

from shardbatch.cli.opened import foreseen
from shardbatch.submit.quick import archives
from shardbatch.submit.warm import warm


def warm_spark(args: Arguments) -> None:
    """``airflow shardbatch warm-spark``"""
    with foreseen():
        done = warm(
            args.spark_binary, dict(args.conf), archives(), say=lambda line: print(line, file=sys.stderr, flush=True)
        )
    size = done.path.stat().st_size // 1_000_000
    print(f"{'Made' if done.made else 'There already'}: {done.path} ({size} MB).")
    if done.removed:
        print(f"Removed {done.removed} older ones that no run can use any more.")
