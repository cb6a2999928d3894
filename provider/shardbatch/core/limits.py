# SPDX-License-Identifier: Apache-2.0
"""The limits of what one run reads."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta

from shardbatch.core.stop import Stop
from shardbatch.errors import ConfigurationError

#: The longest time, a year in seconds, and the largest number that a run may ask for; more is a slip of the pen.
LONGEST_S, LARGEST = 366 * 86_400, 2**53
#: The types of limits for which a wrong one is likely.
KINDS = {"duration": timedelta, "run_duration": timedelta, "concurrency": int}


#: Of the time after which Airflow ends a task or its run, a read keeps this part to land what it has, and at least so
#: many seconds: the last answer has to come, and files have to be completed and stored.
LANDING_PART = 0.1
LEAST_LANDING = timedelta(seconds=30)


def time_to_read(limit: timedelta) -> timedelta:
    """The part of Airflow's time limit for a task or its run that may be spent on reading; zero or less: none."""
    return limit - max(limit * LANDING_PART, LEAST_LANDING)


@dataclass(frozen=True)
class ReadLimits:
    """Limits at which a read stops before the tip of the stream. The first limit that is reached counts. Pages are
    never cut, but a page may end between records that were sent as one.

    Airflow's own limits count too if they are shorter: a read stops before the task's ``execution_timeout`` and the
    DAG's ``dagrun_timeout``, and lands what it has.

    :param duration: time that one read task may read, default 10 minutes. A longer time delays Spark and the commit.
        The shards of the task share it: each has an equal part, and time that some do not need goes to the others.
    :param records: records of one shard in one batch, default no limit.
    :param bytes: bytes of data of one shard in one batch, default no limit.
    :param concurrency: shards that one read task reads at once, default 8 (1 to 64); each costs a thread and,
        while an answer is in flight, up to six times its size in memory.
    :param run_duration: time from the run's start after which its read tasks stop, however late they began and however
        often they were tried; default no limit. To keep a late run from delaying the next one, set it to the
        schedule's period less the time that Spark and the commit need. A task that begins later reads one answer of
        each shard, so that runs that are always late still make progress. It uses the clocks of Airflow's scheduler
        and worker.
    :raises ConfigurationError: for a limit of zero or less, or of another type.
    """

    duration: timedelta = timedelta(minutes=10)
    records: int | None = None
    bytes: int | None = None
    concurrency: int = 8
    run_duration: timedelta | None = None

    def __post_init__(self) -> None:
        for name, kind in KINDS.items():
            value = getattr(self, name)
            if not isinstance(value, kind) and not (value is None and name == "run_duration"):
                raise ConfigurationError(
                    f"ReadLimits({name}={value!r}) is not a {kind.__name__}.",
                    remedy=f"Give a {kind.__name__}, or leave it out.",
                )
        for item in fields(self):
            value = getattr(self, item.name)
            if value is not None and value <= (timedelta(0) if isinstance(value, timedelta) else 0):
                raise ConfigurationError(
                    f"ReadLimits({item.name}={value}) reads nothing.",
                    remedy="Give a limit above zero, or leave it out.",
                )
        if self.concurrency > 64:
            raise ConfigurationError("ReadLimits(concurrency) is 1 to 64.", remedy="Use more read_tasks instead.")

    def seconds_left(self, began_ms: int, now_ms: int) -> float:
        """The time that a task may read if it begins now, in a run that began at ``began_ms``; zero or more."""
        left = self.duration
        if self.run_duration is not None:
            left = min(left, self.run_duration - timedelta(milliseconds=now_ms - began_ms))
        return max(0.0, left.total_seconds())


@dataclass
class Budget:
    """The part of its limits that the read of one shard has used; ``timed_by`` is the limit that sets ``deadline``."""

    limits: ReadLimits
    tip_ms: int
    deadline: float
    records: int = 0
    bytes: int = 0
    timed_by: Stop = Stop.DURATION

    @property
    def full(self) -> Stop | None:
        """The limit that is used up, of records or of bytes."""
        if self.limits.records is not None and self.records >= self.limits.records:
            return Stop.RECORDS
        if self.limits.bytes is not None and self.bytes >= self.limits.bytes:
            return Stop.BYTES
        return None

    def reached(self, last_arrival_ms: int | None, *, at_tip: bool) -> bool:
        """Whether a page shows that all is read that the stream held when the run began: it is at the tip, or its last
        record arrived after the run began."""
        return at_tip or (last_arrival_ms is not None and last_arrival_ms > self.tip_ms)
