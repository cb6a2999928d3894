# SPDX-License-Identifier: Apache-2.0
"""ReadOperator: the shards of one group into the staging area."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shardbatch.operators.step import Step

if TYPE_CHECKING:
    from airflow.sdk import Context

#: Shards that a task names in its output; its log names all.
NAMED_ERRORS = 10
LONGEST_ERROR = 200


class ReadOperator(Step):
    """Reads the shards of one of claim's groups, each to its end, the tip as of the run's start, or a limit.

    Its output is small: ``records``, ``bytes``, ``shards``, ``ended``, ``gaps``, ``foreign``, ``broken``, ``dropped``
    (records, see ``KinesisStream``), ``below`` (records that stand before the place that was asked for and were left
    out), ``waited_s``, ``refused`` and ``resubscribed`` (time waited for the service's limits, calls refused for their
    rate, subscriptions renewed), ``lost``, ``seconds``, and ``errors`` with the shards that could not be read.

    :param entry: one of claim's entries, ``{"group": …, "label": …}``; templated.
    """

    template_fields: Sequence[str] = (*Step.template_fields, "entry")

    def __init__(
        self, *, entry: Mapping[str, str], map_index_template: str = "{{ task.entry['label'] }}", **kwargs: Any
    ) -> None:
        super().__init__(map_index_template=map_index_template, **kwargs)
        self.entry = entry
        self._stop: threading.Event | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Read; what was landed."""
        self._stop = threading.Event()
        began = context["dag_run"].start_date
        tip_ms = None if began is None else round(began.timestamp() * 1000)
        with self.open(context) as steps:
            landed = steps.land(self.entry["group"], tip_ms, self._stop)
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

    def on_kill(self) -> None:
        """End the read at the next page; nothing that was not stored on a lease row counts."""
        if self._stop is not None:
            self.log.info("The read is told to stop.")
            self._stop.set()
