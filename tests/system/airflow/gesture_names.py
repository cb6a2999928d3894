# SPDX-License-Identifier: Apache-2.0
"""The DAGs of test_gestures.py, for the test and for the DAG file."""

from __future__ import annotations

#: Its work is retried once.
RETRIED = "gesture_retry"
IN_PYTHON = (
    RETRIED,
    "gesture_clear_work",
    "gesture_clear_run",
    "gesture_clear_alone",
    "gesture_mark_work",
    "gesture_mark_failed",
    "gesture_mark_commit",
    "gesture_delete",
    "gesture_committed",
    "gesture_taken",
    "gesture_taken_and_committed",
)
IN_SPARK = ("gesture_spark_unfinished", "gesture_spark_finished")
