# SPDX-License-Identifier: Apache-2.0
"""ClaimOperator: finds what this run works on."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from airflow.sdk.exceptions import DownstreamTasksSkipped

from shardbatch.core.looks import LookAgain, Looks
from shardbatch.errors import ConfigurationError
from shardbatch.hooks.declared import declared
from shardbatch.hooks.renamed import renamed
from shardbatch.operators.claim_wait import ClaimWait, at
from shardbatch.operators.come_back import SLACK, ComesBack
from shardbatch.operators.links import lead_to_batch
from shardbatch.operators.rendering import place
from shardbatch.operators.step import SUMMARY
from shardbatch.tasks.deadline import deadline_of
from shardbatch.tasks.liveness import TASK_FINAL, instances, task_states

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.triggers.base import BaseTrigger

    from shardbatch.tasks.steps import Claim, Steps

#: Outcomes of a claim that leave nothing to do.
IDLE = ("nothing", "held")


@renamed(freeze="freeze_task")
class ClaimOperator(ComesBack):
    """Claims shards, or finds the batch that this run has to finish first.

    If it has to watch whether the leases of an unknown run change, or its interval is not over yet, it is deferred
    meanwhile and holds no worker. With ``wait`` it is deferred until there is something to claim.

    Its output is a list of small entries ``{"group", "label"}``, one for each read task; with ``wait`` they have
    ``began``, too: when the wait was over, in milliseconds since the epoch. The lease rows say which shards a group
    has. It also pushes ``batch_id`` (a batch to finish instead of reading), ``outcome``, and ``claim_id``, which
    distinguishes this claim from one that the run made before it was cleared. If there is nothing to do, it skips the
    tasks of ``skips``, and says why in the XCom ``summary``.

    :param skips: ids of the tasks to skip when there is nothing to do.
    :param freeze_task: id of the freeze task. With it, a claim that a person clears alone takes nothing if the batch
        that its run froze went to another run, because no task would follow the claim.
    :param wait: how long to wait for something to claim; above zero. Default: not at all. It is one deadline from the
        first try on, which only clearing the task begins anew. At the deadline the run claims as it would without
        ``wait``. An interval run and a replay do not wait.
    :raises ConfigurationError: also for a ``wait`` that is not a timedelta above zero.
    """

    step_name = "claim"
    red = (
        "Nothing was read, and no record is lost. The last line of its log says what to do; then clear it with its "
        "downstream tasks, or let the next run claim."
    )

    def __init__(
        self,
        *,
        skips: Sequence[str] = (),
        freeze_task: str | None = None,
        wait: timedelta | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.skips = list(skips)
        self.freeze_task = freeze_task
        if wait is not None and (not isinstance(wait, timedelta) or wait <= timedelta(0)):
            raise ConfigurationError(
                f"{place(self)}: wait={wait!r} is not a time above zero.", remedy="Give a timedelta, or leave it out."
            )
        self.wait = wait
        self._waited = ClaimWait()
        # Of a DAG, Airflow's API server has no more than what is serialized. A text, since Airflow wraps a mapping.
        self.shardbatch_application = json.dumps(declared(self.spec()).to_json())

    @classmethod
    def get_serialized_fields(cls) -> frozenset[str]:
        """What Airflow keeps of the task in the serialized DAG: also what the Streams page reads."""
        fields: frozenset[str] = super().get_serialized_fields()  # type: ignore[no-untyped-call]
        return fields | {"shardbatch_application"}

    def step(self, context: Context, looks: Looks | None) -> list[dict[str, str]]:
        """Claim, and return the read tasks to start."""
        while True:
            try:
                with self.open(context) as steps:
                    frozen = self._frozen_before(context["ti"])
                    if frozen is not None:
                        steps.require_own(frozen)
                    deadline = self._deadline(context, steps)
                    found, why = self._found(steps, looks, deadline)
                    now_ms = steps.consumer.now_ms()
                    if found is None:
                        if looks is not None:
                            self._defer_until(deadline, self._waited.trigger(self.spec(), steps, deadline), why)
                        raise LookAgain(Looks(), max(0.0, min(self._waited.pause, deadline - time.time())))
            except LookAgain as again:
                if looks is not None:
                    raise
                time.sleep(again.seconds)
                continue
            return self._told(context, found, now_ms)

    def wait_on(self, context: Context, vain: int, alone: bool, event: Any = None) -> Any:
        """Claim, if there is something to claim or the deadline has come, and return the read tasks to start."""
        self._waited = ClaimWait(vain, alone).called(event)
        if self._waited.alone and not alone:
            self.log.warning("The triggerer cannot look, so this task does from time to time. %s", event["why"])
        return self._go(context, Looks())

    def _deadline(self, context: Context, steps: Steps) -> float:
        """When the wait ends, in seconds of the epoch; 0 for a run that does not wait."""
        consumer = steps.consumer
        if self.wait is None or consumer.interval is not None or consumer.replay is not None:
            return 0.0
        return deadline_of(context, self.wait.total_seconds())

    def _found(self, steps: Steps, looks: Looks | None, deadline: float) -> tuple[Claim | None, str]:
        """What the claim found; or nothing, and why, if the run is to wait on."""
        if self._waited.over or time.time() >= deadline:
            if deadline:
                self.log.info("The wait is over at %s: the run claims, whatever there is.", at(deadline))
            return steps.claim(looks), ""
        there, what = self._waited.look(self.spec(), steps)
        if not there:
            return None, what
        self.log.info("%s", what)
        found = steps.claim(looks)
        return (None, found.nothing) if found.outcome.value in IDLE else (found, "")

    def _defer_until(self, deadline: float, trigger: BaseTrigger, why: str) -> None:
        self.log.info("%s The task waits until %s at the latest, and holds no worker.", why, at(deadline))
        self.defer(
            trigger=trigger,
            method_name="wait_on",
            kwargs={"vain": self._waited.vain, "alone": self._waited.alone},
            timeout=timedelta(seconds=max(0.0, deadline - time.time())) + SLACK,
        )

    def _told(self, context: Context, found: Claim, now_ms: int) -> list[dict[str, str]]:
        """Push what the other tasks need, and return the read tasks to start."""
        ti = context["ti"]
        lead_to_batch(self, found.batch_id)
        ti.xcom_push(key="batch_id", value=found.batch_id or "")  # an XCom that is None counts as missing
        ti.xcom_push(key="outcome", value=found.outcome.value)
        ti.xcom_push(key="claim_id", value=uuid4().hex)
        if found.outcome.value not in IDLE:
            # A run that waited reads what arrived until now, not until it was started.
            began = {} if self.wait is None else {"began": str(now_ms)}
            return [{"group": group.group, "label": group.label, **began} for group in found.groups]
        ti.xcom_push(key=SUMMARY, value=found.nothing)
        ti.xcom_push(key="return_value", value=[])
        if self.skips:
            raise DownstreamTasksSkipped(tasks=instances(ti.dag_id, ti.run_id, self.skips))
        return []

    def _frozen_before(self, ti: Any) -> str | None:
        """The batch that this run has frozen, if freeze will not run after this claim."""
        freeze = self.freeze_task
        if not freeze:
            return None
        batch_id = ti.xcom_pull(task_ids=freeze, key="batch_id")
        if not batch_id or task_states(ti.dag_id, ti.run_id, [freeze]).get(freeze) not in TASK_FINAL:
            return None
        return str(batch_id)
