# SPDX-License-Identifier: Apache-2.0
"""The DAGs of test_spark_alive.py, for the test and for the DAG file."""

from __future__ import annotations

#: Their applications run in client mode, as children of their task.
IN_CLIENT = (
    "alive_run_timed_out",
    "alive_run_marked",
    "alive_task_marked",
    "alive_worker_lost",
    "alive_unsaved_retried",
)
#: Their applications run on a standalone cluster, in cluster mode.
IN_CLUSTER = (
    "alive_cluster_run_marked",
    "alive_cluster_worker_lost",
    "alive_cluster_retried",
    "alive_cluster_unsaved",
    "alive_cluster_unsaved_retried",
)
#: An application of theirs cannot be found, so that it is given up after a short grace.
GIVEN_UP = ("alive_cluster_unsaved",)


def retried(name: str) -> bool:
    """Whether the Spark task of this DAG is tried a second time."""
    return name.endswith("retried")
