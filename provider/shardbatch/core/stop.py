# SPDX-License-Identifier: Apache-2.0
"""What ended the read of a shard: the stream's own end of it, a limit, or something that went wrong."""

from __future__ import annotations

from enum import Enum


class Stop(str, Enum):
    """Why a read went no further. The value stands in the answer of a read task, :meth:`__str__` in its log."""

    SHARD_END = "shard_end"
    TIP = "tip"
    INTERVAL_END = "interval_end"
    RECORDS = "records"
    BYTES = "bytes"
    DURATION = "duration"
    RUN_DURATION = "run_duration"
    AIRFLOW = "airflow_timeout"
    TURN = "turn"
    STANDSTILL = "standstill"
    LOST = "lost"
    ERROR = "error"
    OTHERS = "others_failed"
    SOURCE = "source"

    def __str__(self) -> str:
        return _SAID[self]


_SAID = {
    Stop.SHARD_END: "to the end of the shard",
    Stop.TIP: "to the tip as of the run's start",
    Stop.INTERVAL_END: "to the end of the interval",
    Stop.RECORDS: "until ReadLimits(records) was reached",
    Stop.BYTES: "until ReadLimits(bytes) was reached",
    Stop.DURATION: "until ReadLimits(duration) was over",
    Stop.RUN_DURATION: "until ReadLimits(run_duration) was over",
    Stop.AIRFLOW: "until the time was over that Airflow's own limits leave",
    Stop.TURN: "until the task's time was over, while other shards had their turn",
    Stop.STANDSTILL: "until many answers without records had brought it no nearer to the tip",
    Stop.LOST: "until its lease was lost",
    Stop.ERROR: "until an error",
    Stop.OTHERS: "until another shard's error ended the task",
    Stop.SOURCE: "until there was no further answer",
}
