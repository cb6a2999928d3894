# SPDX-License-Identifier: Apache-2.0
"""FreezeOperator: combines the landed slices into one batch, and opens an attempt of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import DownstreamTasksSkipped

from shardbatch.core import handover
from shardbatch.errors import ReplayRefused
from shardbatch.hooks.renamed import renamed
from shardbatch.hooks.templates import renderer
from shardbatch.operators.come_back import ComesBack
from shardbatch.operators.links import lead_to_batch
from shardbatch.operators.rendering import as_text
from shardbatch.submit.leftovers import LeftOvers, working_in
from shardbatch.tasks.liveness import TASK_FINAL, instances, task_states

if TYPE_CHECKING:
    from airflow.sdk import Context

    from shardbatch.core.batch import Batch
    from shardbatch.core.looks import Looks
    from shardbatch.tasks.steps import Frozen

#: Shards that are named as waiting because of a gap; their number is given beside them.
NAMED_SHARDS = 20


@renamed(commit="commit_task")
class FreezeOperator(ComesBack):
    """Freezes what the read tasks landed, or opens the next attempt of the batch that this run already has.

    Its outputs are XComs: ``batch_id``, ``attempt``, ``manifest_uri``, ``manifest_digest``, ``record_count``,
    ``bytes``, ``shards``, ``gaps``, ``replay``, and ``waiting``. If the batch is empty, the tasks directly after it are
    skipped, so that no work starts without records.

    :param handed: the batch that claim found, templated; empty: none.
    :param claim_id: claim's output of this name, templated. With it, a batch that went to another run since is an
        error, not an empty batch.
    :param skips: ids of the tasks to skip when the batch has no records, default: those directly after this one.
    :param commit_task: id of the commit task. With it, a committed batch is opened for a replay only if that task runs
        again too, because otherwise readers would never see what the work writes.
    """

    step_name = "freeze"
    red = (
        "What was landed waits, and no work has started. The last line of its log says what to do; then clear it with "
        "its downstream tasks, or let the next run go on."
    )
    template_fields: Sequence[str] = (*ComesBack.template_fields, "handed", "claim_id")

    def __init__(
        self,
        *,
        handed: Any = None,
        claim_id: Any = None,
        skips: Sequence[str] | None = None,
        commit_task: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.handed = handed
        self.claim_id = claim_id
        self.skips = skips
        self.commit_task = commit_task

    @property
    def args(self) -> list[str]:
        """The argument list from which ``open_batch`` finds its batch. The task that uses the list renders its
        templates, so the application knows for which task and try it works."""
        return handover.to_arguments({name: f"{{{{ {value} }}}}" for name, value in self._handover().items()})

    @property
    def environment(self) -> dict[str, str]:
        """The same as environment variables, whose values are texts even where Airflow renders native objects."""
        return handover.to_environment({name: as_text(value) for name, value in self._handover().items()})

    def _handover(self) -> dict[str, str]:
        """What is passed to an application, as expressions of Jinja."""

        def output(key: str) -> str:
            return f"ti.xcom_pull(task_ids='{self.task_id}', key='{key}')"

        return handover.words(
            manifest=output("manifest_uri"),
            attempt=output("attempt"),
            digest=output("manifest_digest"),
            work="ti.task_id ~ ('' if ti.map_index in (none, -1) else '[%d]' % ti.map_index)",
            token="ti.id",
        )

    def step(self, context: Context, looks: Looks | None) -> dict[str, Any]:
        """Freeze, and return what was frozen."""
        with self.open(context) as steps:
            ti = context["ti"]
            frozen = steps.freeze(
                self.handed or None,
                str(self.claim_id or ""),
                self._left_overs(context),
                partial(self._require_commit, ti),
                first=ti.try_number == 1,
                looks=looks,
            )
        lead_to_batch(self, frozen.batch_id)
        outputs = outputs_of(frozen)
        for key, value in outputs.items():
            context["ti"].xcom_push(key=key, value=value)
        if frozen.record_count == 0:
            self.log.info("The batch has no records: the work is skipped.")
            ti, skips = context["ti"], sorted(self.downstream_task_ids if self.skips is None else self.skips)
            if skips:
                raise DownstreamTasksSkipped(tasks=instances(ti.dag_id, ti.run_id, skips))
        return {key: outputs[key] for key in ("batch_id", "attempt", "record_count")}

    def _require_commit(self, ti: Any, batch: Batch) -> None:
        """Check that commit runs again in this clearing.

        :raises ReplayRefused: if it has ended and was not cleared.
        """
        commit = self.commit_task
        state = task_states(ti.dag_id, ti.run_id, [commit]).get(commit) if commit else None
        if state in TASK_FINAL:
            raise ReplayRefused(
                f"Batch {batch.batch_id} is committed, and the task {commit} is {state} and was not cleared: "
                "what the work writes now would never be seen.",
                remedy="Clear the work with its downstream tasks ('Downstream' in the form, include_downstream in the "
                "REST API), or clear the group.",
            )

    def _left_overs(self, context: Context) -> LeftOvers:
        tasks, ti = self.dag.task_dict if self.has_dag() else {}, context["ti"]

        def render(text: str) -> str:
            return renderer(self, context)(text)

        return LeftOvers(tasks, working_in(ti.dag_id, ti.run_id), self.log.info, render)


def outputs_of(frozen: Frozen) -> dict[str, Any]:
    """The values of the XComs: references and counts, never records."""
    return {
        "batch_id": frozen.batch_id,
        "attempt": frozen.attempt,
        "manifest_uri": frozen.manifest_uri,
        "manifest_digest": frozen.manifest_digest,
        "record_count": frozen.record_count,
        "bytes": frozen.bytes,
        "shards": frozen.shards,
        "gaps": frozen.gaps,
        "replay": frozen.replay,
        "waiting": {"count": len(frozen.waiting), "shards": list(frozen.waiting[:NAMED_SHARDS])},
    }
