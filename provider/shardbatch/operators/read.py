# SPDX-License-Identifier: Apache-2.0
"""ReadOperator: the shards of one group into the staging area."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from shardbatch.core.limits import time_to_read
from shardbatch.operators.rendering import as_text
from shardbatch.operators.step import Step

if TYPE_CHECKING:
    from airflow.sdk import Context

#: Shards that a task names in its output; its log names all.
NAMED_ERRORS = 10
LONGEST_ERROR = 200
#: How Airflow shows an instance.
LABEL = as_text("task.entry['label']")


class ReadOperator(Step):
    """Reads the shards of one of claim's groups, each to its end, the tip as of the run's start, or a limit.

    It ends in time before its ``execution_timeout`` and its DAG's ``dagrun_timeout`` and lands what it has: a tenth of
    them, at least 30 seconds, is kept for that.

    Its output is small: ``records``, ``bytes``, ``shards``, ``ended``, ``gaps``, ``foreign``, ``broken``, ``dropped``
    (records, as the stream says), ``below`` (records that stand before the place that was asked for and were left
    out), ``waited_s``, ``refused`` and ``resubscribed`` (time waited for the service's limits, calls refused for their
    rate, subscriptions renewed), ``lost``, ``seconds``, and ``errors`` with the shards that could not be read.

    :param entry: one of claim's entries, ``{"group": …, "label": …}``; templated.
    """

    template_fields: Sequence[str] = (*Step.template_fields, "entry")

    def __init__(self, *, entry: Mapping[str, str], map_index_template: str = LABEL, **kwargs: Any) -> None:
        super().__init__(map_index_template=map_index_template, **kwargs)
        self.entry = entry
        self._stop: threading.Event | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Read; what was landed."""
        until = time.monotonic() + self._seconds(context)
        self._stop = threading.Event()
        began = context["dag_run"].start_date
        tip_ms = None if began is None else round(began.timestamp() * 1000)
        with self.open(context) as steps:
            landed = steps.land(self.entry["group"], tip_ms, self._stop, max(0.0, until - time.monotonic()))
        return {
            "records": landed.records,
            "bytes": landed.bytes,
            "shards": landed.shards,
            "ended": landed.ended,
            "gaps": landed.gaps,
            **landed.oddities.to_json(),
            **landed.waiting.to_json(),
            "lost": landed.lost,
            "seconds": landed.seconds,
            "failed": len(landed.errors),
            "errors": {shard: text[:LONGEST_ERROR] for shard, text in sorted(landed.errors.items())[:NAMED_ERRORS]},
        }

    def _seconds(self, context: Context) -> float:
        """How long it may read before Airflow ends it, or its run, by the clocks of scheduler and worker."""
        found = [math.inf]
        if self.execution_timeout is not None:
            found.append(time_to_read(self.execution_timeout).total_seconds())
        began, of_run = context["dag_run"].start_date, self.dag.dagrun_timeout if self.has_dag() else None
        if of_run is not None and began is not None:
            found.append(time_to_read(of_run).total_seconds() - (datetime.now(UTC) - began).total_seconds())
        return min(found)

    def on_kill(self) -> None:
        """End the read at the next page; nothing that was not stored on a lease row counts."""
        if self._stop is not None:
            self.log.info("The read is told to stop.")
            self._stop.set()
