# SPDX-License-Identifier: Apache-2.0
"""ReadOperator: reads the shards of one group into the staging area."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from shardbatch.core.limits import time_to_read
from shardbatch.core.shortlist import shortened
from shardbatch.operators.rendering import as_text
from shardbatch.operators.step import Step

if TYPE_CHECKING:
    from airflow.sdk import Context

    from shardbatch.tasks.steps import Landed

#: Shards that a task names in its output; its log names all.
NAMED_ERRORS = 10
LONGEST_ERROR = 200
#: How Airflow shows an instance.
LABEL = as_text("task.entry['label']")


class ReadOperator(Step):
    """Reads the shards of one of claim's groups, each to its end, the tip as of the run's start, or a limit.

    It stops before its ``execution_timeout`` and its DAG's ``dagrun_timeout`` and lands what it has. It keeps a tenth
    of that time for landing, and at least 30 seconds.

    Its output is small: ``records``, ``bytes``, ``shards``, ``ended``, ``gaps``, ``foreign``, ``broken``, ``dropped``
    (records, as the stream says), ``below`` (records that stand before the place that was asked for and were left
    out), ``waited_s``, ``refused`` and ``resubscribed`` (time waited for the service's limits, calls refused for their
    rate, lasting answers renewed), ``stops`` (of how many shards what ended the read: ``{"tip": 3, "duration": 1}``),
    ``lost``, ``seconds``, and ``errors`` with the shards that could not be read. What ends a read is ``shard_end``,
    ``tip`` (as of the run's start) or ``interval_end``; a limit (``records``, ``bytes``, ``duration``,
    ``run_duration``, ``airflow_timeout``); ``turn``, if the time was over while other shards had their turn;
    ``standstill``, if many answers without records came no nearer to the tip; ``lost``, ``error`` or ``others_failed``;
    ``source``, if the source had no further answer.

    :param entry: one of claim's entries, ``{"group": …, "label": …}``, with ``began`` if claim waited; templated.
    """

    step_name = "read"
    red = (
        "What it has landed is kept, and no record is lost. The last line of its log says what to do; then clear it "
        "with its downstream tasks, and it reads the rest. Or let the next run read on."
    )
    template_fields: Sequence[str] = (*Step.template_fields, "entry")

    def __init__(self, *, entry: Mapping[str, str], map_index_template: str = LABEL, **kwargs: Any) -> None:
        super().__init__(map_index_template=map_index_template, **kwargs)
        self.entry = entry
        self._stop: threading.Event | None = None
        self._landed: Landed | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Read, and return what was landed."""
        until = time.monotonic() + self._seconds(context)
        self._stop = threading.Event()
        with self.open(context) as steps:
            landed = steps.land(
                self.entry["group"], self._began_ms(context), self._stop, max(0.0, until - time.monotonic())
            )
        self._landed = landed
        return {
            "records": landed.records,
            "bytes": landed.bytes,
            "shards": landed.shards,
            "ended": landed.ended,
            "gaps": landed.gaps,
            **landed.oddities.to_json(),
            **landed.waiting.to_json(),
            "stops": {stop.value: count for stop, count in sorted(landed.stops.items())},
            "lost": landed.lost,
            "seconds": landed.seconds,
            "failed": len(landed.errors),
            "errors": {
                shard: shortened(text, LONGEST_ERROR) for shard, text in sorted(landed.errors.items())[:NAMED_ERRORS]
            },
        }

    def _began_ms(self, context: Context) -> int | None:
        """When the run began, up to when it reads; if its claim waited, when that was over."""
        if "began" in self.entry:
            return int(self.entry["began"])
        began = context["dag_run"].start_date
        return None if began is None else round(began.timestamp() * 1000)

    def get_openlineage_facets_on_complete(self, ti: Any) -> Any:
        """The stream and the landed ranges, for Airflow's OpenLineage provider; nothing of a read that failed."""
        from shardbatch.tasks.lineage import of_read

        return None if self._landed is None else of_read(self.spec(), self._landed.slices)

    def _seconds(self, context: Context) -> float:
        """The time in which it may read before Airflow ends it, or its run, by the clocks of scheduler and worker."""
        found = [math.inf]
        if self.execution_timeout is not None:
            found.append(time_to_read(self.execution_timeout).total_seconds())
        began, of_run = context["dag_run"].start_date, self.dag.dagrun_timeout if self.has_dag() else None
        if of_run is not None and began is not None:
            found.append(time_to_read(of_run).total_seconds() - (datetime.now(UTC) - began).total_seconds())
        return min(found)

    def on_kill(self) -> None:
        """End the read at the next page; only what is stored on a lease row counts."""
        if self._stop is not None:
            self.log.info("The read is told to stop.")
            self._stop.set()
