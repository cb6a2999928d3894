# SPDX-License-Identifier: Apache-2.0
"""The asset events that the breaker's Airflow makes, each with the success of a commit (PROTOCOL B12)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardbatch.run import Committed, Consumer, send_event

if TYPE_CHECKING:
    from shardbatch.core.batch import Batch
    from tests.breaker.process import Process
    from tests.breaker.run import Run


@dataclass
class Events:
    """``made`` counts the events of each batch, ``sent`` is the batch whose event goes out if that commit ends well."""

    made: dict[str, int] = field(default_factory=dict)
    sent: dict[str, str] = field(default_factory=dict)

    def come_to_send(self, process: Process, consumer: Consumer, run: Run, done: Committed) -> Committed:
        """What the commit task does once the batch is decided; its answer."""
        batch_id = done.batch_id

        def is_out(sent_ms: int) -> bool:
            process.pause("events")
            return batch_id in self.made

        if batch_id is None or not done.records:
            return done
        if send_event(consumer, run.owner, batch_id, f"{run.name}/{run.clears}", is_out):
            self.sent[process.name] = batch_id
        return done

    def ended_well(self, process: Process, batch: Batch | None) -> None:
        """Airflow takes the success of a commit, which still is the current try of its task, and makes its event."""
        if batch_id := self.sent.get(process.name):
            self.made[batch_id] = self.made.get(batch_id, 0) + 1
            assert self.made[batch_id] == 1, f"{process}: another event of {batch_id}"
        if batch is not None and batch.event is not None and batch.owner == process.owner:
            assert batch.batch_id in self.made, f"{process}: the event of {batch.batch_id} was never made"
