# SPDX-License-Identifier: Apache-2.0
"""ClaimOperator: finds what this run works on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from airflow.sdk.exceptions import DownstreamTasksSkipped

from shardbatch.hooks.renamed import renamed
from shardbatch.operators.come_back import ComesBack
from shardbatch.operators.step import SUMMARY
from shardbatch.tasks.liveness import TASK_FINAL, instances, task_states

if TYPE_CHECKING:
    from airflow.sdk import Context

    from shardbatch.core.looks import Looks

#: Outcomes of a claim that leave nothing to do.
IDLE = ("nothing", "held")


@renamed(freeze="freeze_task")
class ClaimOperator(ComesBack):
    """Claims shards, or finds the batch that this run has to finish first.

    If it has to watch whether the leases of an unknown run change, or its interval is not over yet, it is deferred
    meanwhile and holds no worker.

    Its output is a list of small entries ``{"group", "label"}``, one for each read task. The lease rows say which
    shards a group has. It also pushes ``batch_id`` (a batch to finish instead of reading), ``outcome``, and
    ``claim_id``, which distinguishes this claim from one that the run made before it was cleared. If there is nothing
    to do, it skips the tasks of ``skips``, and says why in the XCom ``summary``.

    :param skips: ids of the tasks to skip when there is nothing to do.
    :param freeze_task: id of the freeze task. With it, a claim that a person clears alone takes nothing if the batch
        that its run froze went to another run, because no task would follow the claim.
    """

    red = (
        "Nothing was read, and no record is lost. The last line of its log says what to do; then clear it with its "
        "downstream tasks, or let the next run claim."
    )

    def __init__(self, *, skips: Sequence[str] = (), freeze_task: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.skips = list(skips)
        self.freeze_task = freeze_task

    def step(self, context: Context, looks: Looks | None) -> list[dict[str, str]]:
        """Claim, and return the read tasks to start."""
        ti = context["ti"]
        with self.open(context) as steps:
            frozen = self._frozen_before(ti)
            if frozen is not None:
                steps.require_own(frozen)
            found = steps.claim(looks)
        ti.xcom_push(key="batch_id", value=found.batch_id or "")  # an XCom that is None counts as missing
        ti.xcom_push(key="outcome", value=found.outcome.value)
        ti.xcom_push(key="claim_id", value=uuid4().hex)
        if found.outcome.value not in IDLE:
            return [{"group": group.group, "label": group.label} for group in found.groups]
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
