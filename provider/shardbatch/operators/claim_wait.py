# SPDX-License-Identifier: Apache-2.0
"""The wait of a claim until there is something to claim: what it asks, and how it comes back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from shardbatch.hooks.shardbatch import ShardbatchHook
from shardbatch.hooks.stream_literals import stream_to_json

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger

    from shardbatch.control.questions import Answer
    from shardbatch.tasks.application import ApplicationSpec
    from shardbatch.tasks.steps import Steps

#: Seconds between two looks, and the longest pause of a run that was called several times in vain.
EVERY_S, LONGEST_PAUSE_S = 10.0, 60.0


@dataclass
class ClaimWait:
    """How far the wait of one claim has come.

    ``vain`` counts the calls in a row behind which others were faster, or nothing could be taken after all. ``alone``:
    the triggerer cannot look at the stream, so the task looks itself, and is deferred in between.
    """

    vain: int = 0
    alone: bool = False

    def called(self, event: Any) -> ClaimWait:
        """After a deferral, by what its trigger said."""
        outcome = event["outcome"] if isinstance(event, dict) else ""
        return ClaimWait(self.vain + 1 if outcome == "reached" else 0, self.alone or outcome == "failed")

    def look(self, spec: ApplicationSpec, steps: Steps) -> Answer:
        """Whether there is something to claim, seen from the worker.

        :raises StoreError: if the lease store cannot be asked.
        :raises SourceError: if the stream cannot be asked.
        """
        hook = ShardbatchHook(app_name=spec.app_name, stream=spec.stream, leases=spec.leases)
        return hook.ask(steps.claimable())

    @property
    def pause(self) -> float:
        """Seconds until the next look of a run that comes back to look again, or was called in vain."""
        return min(LONGEST_PAUSE_S, EVERY_S * 2.0 ** max(0, self.vain - 1))

    def trigger(self, spec: ApplicationSpec, steps: Steps, deadline: float) -> BaseTrigger:
        """What calls the task again."""
        from shardbatch.triggers import AskingToClaim, TimePassed  # costs each DAG file a moment

        now = time.time()
        source = None if self.alone else stream_to_json(spec.stream)
        if source is None:
            return TimePassed(max(0.0, min(self.pause, deadline - now)))
        return AskingToClaim(
            question=steps.claimable().to_json(),
            app_name=spec.app_name,
            stream=spec.stream.stream_name,
            leases=spec.leases.to_json(),
            every=EVERY_S,
            deadline=deadline,
            source=source,
            begin=now + self.pause if self.vain else 0.0,
        )


def at(instant: float) -> str:
    """An instant of the epoch, for logs."""
    return datetime.fromtimestamp(instant, UTC).isoformat(timespec="seconds")
