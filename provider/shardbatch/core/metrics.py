# SPDX-License-Identifier: Apache-2.0
"""What is measured: one table of all metrics. The code that measures does not know where values go; by default
they go nowhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

#: What every metric says of itself: the application, the stream, and whether the run was ``incremental`` or reads an
#: ``interval``. No tag grows with the number of runs, batches or shards.
TAGS = ("app", "stream", "mode")


class Kind(str, Enum):
    """What becomes of several values: a ``counter`` adds them up, a ``gauge`` keeps the last, a ``timer`` keeps all."""

    COUNTER = "counter"
    GAUGE = "gauge"
    TIMER = "timer"


@dataclass(frozen=True)
class Metric:
    """One metric: its name, and what it means, from when it is sent to what it counts.

    ``tags`` are those that it has beside :data:`TAGS`.
    """

    name: str
    kind: Kind
    unit: str
    meaning: str
    tags: tuple[str, ...] = ()


#: Takes a value of a metric; it never raises.
Measure = Callable[[Metric, float], None]


def unmeasured(metric: Metric, value: float) -> None:
    """Drop a value, where metrics are not wanted."""


READ_RECORDS = Metric(
    "shardbatch.read.records",
    Kind.COUNTER,
    "records",
    "records that a read landed, told as each shard's slice is stored; a task that fails later has told them",
)
READ_BYTES = Metric("shardbatch.read.bytes", Kind.COUNTER, "bytes", "bytes of the data of these records")
REFUSED_CALLS = Metric(
    "shardbatch.read.refused_calls",
    Kind.COUNTER,
    "calls",
    "calls that the service refused for their rate, told as the read of each shard ends, also of one that fails",
)
WAITED = Metric(
    "shardbatch.read.waited",
    Kind.TIMER,
    "ms",
    "time that the read of one shard waited for the service's limits: pauses within them, and after refused calls",
)
COMMITTED_BATCHES = Metric(
    "shardbatch.committed.batches",
    Kind.COUNTER,
    "batches",
    "batches that runs have committed, each once, as it is decided; no replays, and none that a person set aside",
)
COMMITTED_RECORDS = Metric("shardbatch.committed.records", Kind.COUNTER, "records", "records of these batches")
COMMITTED_BYTES = Metric("shardbatch.committed.bytes", Kind.COUNTER, "bytes", "bytes of the data of these records")
GAPS = Metric(
    "shardbatch.committed.gaps",
    Kind.COUNTER,
    "gaps",
    "gaps of these batches: ranges of a shard that were never read. Alarm on any",
)
DROPPED = Metric(
    "shardbatch.committed.dropped",
    Kind.COUNTER,
    "records",
    "records that these batches left out because the stream's options say so",
)
BATCH_AGE = Metric(
    "shardbatch.committed.age", Kind.TIMER, "ms", "time from the freeze of a batch to its commit, with all attempts"
)
LAG = Metric(
    "shardbatch.committed.lag",
    Kind.GAUGE,
    "ms",
    "how far behind the tip the batch's worst shard was when its read ended, by the service; not sent if unknown",
)
BEHIND = Metric(
    "shardbatch.behind",
    Kind.GAUGE,
    "ms",
    "how long ago the oldest uncommitted record can have arrived, at most, as of this claim or commit. Not sent while "
    "nothing is known",
)
UNTIL_LOSS = Metric(
    "shardbatch.until_data_loss",
    Kind.GAUGE,
    "ms",
    "time until unread records may expire, of the shard that has the least, among those of which it is known; 0: they "
    "may have. Not sent if it is known of none",
)
OLDEST_BATCH = Metric(
    "shardbatch.oldest_batch",
    Kind.GAUGE,
    "ms",
    "age of the oldest batch that is frozen or parked; 0: there is none. Sent by a claim, and by a commit after which "
    "there is none",
)
WAITING_SHARDS = Metric(
    "shardbatch.waiting_for_gap", Kind.GAUGE, "shards", "shards that wait until a person accepts a gap"
)
LOST_RACES = Metric(
    "shardbatch.lost_races",
    Kind.COUNTER,
    "rows",
    "leases and batches that a step held or was about to write, and that another was first to take or change",
)
STEP_DURATION = Metric(
    "shardbatch.step.duration",
    Kind.TIMER,
    "ms",
    "time of a step that ended well. `step` is `claim`, `read` (one task), `freeze`, `work` (one task, from its start "
    "in Airflow) or `commit`. The time for which a step was deferred does not count, except in `work`",
    ("step",),
)
STEP_FAILURES = Metric(
    "shardbatch.step.failures",
    Kind.COUNTER,
    "tries",
    "tries of a step, other than `work`, that failed, also by Airflow's time limit. `error` is the class of the error, "
    "as `LeaseLost`. A task that was killed says nothing",
    ("step", "error"),
)

METRICS = (
    *(READ_RECORDS, READ_BYTES, REFUSED_CALLS, WAITED),
    *(COMMITTED_BATCHES, COMMITTED_RECORDS, COMMITTED_BYTES, GAPS, DROPPED, BATCH_AGE, LAG),
    *(BEHIND, UNTIL_LOSS, OLDEST_BATCH, WAITING_SHARDS),
    *(LOST_RACES, STEP_DURATION, STEP_FAILURES),
)
