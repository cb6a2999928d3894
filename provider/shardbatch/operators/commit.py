# SPDX-License-Identifier: Apache-2.0
"""CommitOperator: the decision, after which checkpoints move; and ReportOperator, which can fail a run after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

from shardbatch.core.owner import Mode
from shardbatch.core.shortlist import shortened, shortlist
from shardbatch.core.start import Work
from shardbatch.errors import GapFound, ShardbatchError, ShardsFailed, WorkFailed
from shardbatch.hooks.renamed import renamed
from shardbatch.hooks.templates import renderer
from shardbatch.operators.end_record import works_of
from shardbatch.operators.explained import Explained
from shardbatch.operators.failure import final_errors
from shardbatch.operators.links import BatchLink, lead_to, lead_to_batch
from shardbatch.operators.step import SUMMARY, Step
from shardbatch.tasks.asset_event import clearing_of, is_out
from shardbatch.tasks.liveness import TASK_FINAL, task_states
from shardbatch.tasks.mirror import copy, told

if TYPE_CHECKING:
    from airflow.sdk import Context

    from shardbatch.core.watermark import Watermark
    from shardbatch.tasks.application import ApplicationSpec
    from shardbatch.tasks.steps import Committed, Steps

FAILED = frozenset({"failed", "upstream_failed"})
#: Shards whose checkpoint stands in an event.
NAMED_POSITIONS = 20
#: Most characters of one problem in the output.
LONGEST_PROBLEM = 1500
#: What each kind of problem is raised as.
PROBLEMS: dict[str, type[ShardbatchError]] = {"shards": ShardsFailed, "gap": GapFound}


@renamed(freeze="freeze_task")
class CommitOperator(Step):
    """Commits the batch that freeze opened, if the work of the block is done.

    It must be downstream of all work tasks, with the trigger rule ``none_failed``. It also asks Airflow for their
    states, and refuses to commit if one failed, or if there were records and no task succeeded.

    Its output is a list of problems that do not undo the commit but must fail the run (for :class:`ReportOperator`).
    The outcome is the XCom ``committed``, and in one line for people the XCom ``summary``.

    :param freeze_task: id of the freeze task whose batch is committed.
    :param work: ids of the work tasks. Only what successful tasks among them wrote is committed. Default: none, which
        fits a sink of the author's own.
    :param claim_task: id of the claim task; with it and ``read_task``, shards that could not be read are reported;
        default: none.
    :param read_task: id of the read task; default: none.
    :param given: those of ``work`` that may be given the batch, and therefore leave an end record; default: all.
    :param idle: those of ``work`` that Airflow never runs; default: none.
    """

    step_name = "commit"
    red = (
        "The last line of its log says why. If a work task is red or skipped, mend that and clear it with its "
        "downstream tasks: it gets the same records again. Else clear this task; a second try does nothing twice. Do "
        "not mark it success: no checkpoint would move."
    )
    ui_color = "#d9f2dd"

    def __init__(
        self,
        *,
        freeze_task: str,
        work: Sequence[str] = (),
        claim_task: str | None = None,
        read_task: str | None = None,
        given: Sequence[str] | None = None,
        idle: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.freeze_task = freeze_task
        self.work = list(work)
        self.claim_task = claim_task
        self.read_task = read_task
        self.given = None if given is None else list(given)
        self.idle = list(idle)
        self._decided: tuple[str, str] | None = None

    def execute(self, context: Context) -> list[dict[str, str]]:
        """Commit, and return the problems that are left."""
        ti = context["ti"]
        batch_id, attempt, records = (
            ti.xcom_pull(task_ids=self.freeze_task, key=key) for key in ("batch_id", "attempt", "record_count")
        )
        with self.open(context) as steps:
            lead_to_batch(self, batch_id)
            if records is None:
                raise WorkFailed(
                    f"Task {self.freeze_task} left no outputs, so it is not known what there is to commit.",
                    remedy="Clear that task (it may have been marked success by hand); what was landed waits for it.",
                )
            works = self._require_work(ti, batch_id, records)
            done = steps.commit(batch_id, attempt or 0, works)
            mode = steps.owner.mode
            mark = self._watermark(steps)
            self._decided = None if done.batch_id is None else (steps.owner.scope, done.batch_id)
            sends = self._sends_event(steps, done, clearing_of(context["dag_run"], ti))
        ti.xcom_push(key="committed", value=asdict(done))
        ti.xcom_push(key=SUMMARY, value=done.summary)
        self._mirror(context, mark)
        self._publish(context, {**extra_of(done), **told(mark), "mode": mode}, sends=sends)
        return self._problems(ti)

    def get_openlineage_facets_on_complete(self, ti: Any) -> Any:
        """The batch, and the roots in which readers see it, for Airflow's OpenLineage provider; nothing of a commit
        that decided nothing."""
        from shardbatch.tasks.lineage import of_commit

        return None if self._decided is None else of_commit(self.spec(), *self._decided)

    def _require_work(self, ti: Any, batch_id: str | None, records: int) -> list[Work]:
        """The task instances that succeeded, if none failed and none is still running.

        :raises WorkFailed: naming the tasks that have not.
        """
        if batch_id is None or not self.work:
            return []
        found = works_of(task_states(ti.dag_id, ti.run_id, self.work), set(self.work))
        states = {name: state for name, (_, state) in found.items()}
        failed = sorted(task for task, state in states.items() if state in FAILED)
        if failed:
            raise WorkFailed(f"Of the work of batch {batch_id}, {shortlist(failed)} failed: nothing is committed.")
        running = sorted(task for task, state in states.items() if state not in TASK_FINAL)
        if running:
            raise WorkFailed(
                f"Of the work of batch {batch_id}, {shortlist(running)} has not ended: nothing is committed.",
                remedy="Let it end; commit follows by itself, or clear it then.",
            )
        done = sorted(task for task, state in states.items() if state == "success")
        if records and not done:
            raise WorkFailed(
                f"Batch {batch_id} has {records} records, but no work succeeded: skipped {shortlist(sorted(states))}."
            )
        given = set(self.work if self.given is None else self.given)
        return [Work(name, found[name][0] in given, found[name][0] not in self.idle) for name in done]

    def _sends_event(self, steps: Steps, done: Committed, clearing: str) -> bool:
        """Whether the batch's event goes out with the success of this try (PROTOCOL B12)."""
        batch_id, assets = done.batch_id, self._assets
        if batch_id is None or not done.records or not self.outlets:
            return False
        return steps.send_event(batch_id, clearing, lambda sent_ms: not assets or is_out(assets[0], batch_id, sent_ms))

    def _watermark(self, steps: Steps) -> Watermark | None:
        """Up to when all is committed now; nothing is known of it in an interval run, or if rows cannot be read."""
        if steps.owner.mode != Mode.INCREMENTAL or not self._assets:
            return None
        try:
            return steps.watermark()
        except ShardbatchError as error:
            self.log.warning("What was committed stands. The watermark could not be read for its asset: %s", error)
            return None

    def _mirror(self, context: Context, mark: Watermark | None) -> None:
        """Copy the watermark to the state store of the assets, whether or not there is an event."""
        if mark is None:
            return
        for asset in self._assets:
            with self._unharmed():
                copy(context["asset_state_store"][asset], mark)

    def _publish(self, context: Context, extra: dict[str, Any], *, sends: bool) -> None:
        """Send the asset event at the end of this task, or do not send one."""
        if not sends:
            self.outlets = []  # Airflow makes an event of every outlet that stands here at the end
            return
        for asset in self._assets:
            context["outlet_events"][asset].extra = extra
            if extra["mode"] == Mode.INCREMENTAL:
                with self._unharmed():
                    context["asset_state_store"][asset].set("watermark", extra)

    @property
    def _assets(self) -> list[Asset]:
        return [outlet for outlet in self.outlets if isinstance(outlet, Asset)]

    @contextmanager
    def _unharmed(self) -> Iterator[None]:
        """A state store has copies for people to look at; the checkpoints stand in the lease store."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the batch is committed, whatever becomes of the copy
            self.log.warning("The watermark was not copied to the asset's state store: %s", error)

    def _problems(self, ti: Any) -> list[dict[str, str]]:
        problems = []
        errors, failed = self._shard_errors(ti)
        if failed:
            each = [f"{shard}: {text}" for shard, text in sorted(errors.items())]
            named = shortlist(each, most=len(each), between="; ", total=failed)
            problems.append(
                {"kind": "shards", "text": shortened(f"{failed} shards could not be read: {named}.", LONGEST_PROBLEM)}
            )
        waiting = ti.xcom_pull(task_ids=self.freeze_task, key="waiting") or {"count": 0, "shards": []}
        if waiting["count"]:
            named = shortlist(waiting["shards"], most=len(waiting["shards"]), total=waiting["count"])
            text = f"Records of {waiting['count']} shards expired unread; "
            text += f"the rest of these shards waits for accept-gap: {named}."
            problems.append({"kind": "gap", "text": shortened(text, LONGEST_PROBLEM)})
        for problem in problems:
            self.log.warning("%s", problem["text"])
        return problems

    def _shard_errors(self, ti: Any) -> tuple[dict[str, str], int]:
        """Errors of this run's read tasks; none if the run did not read, even if it had read before it was cleared."""
        if self.claim_task is None or self.read_task is None:
            return {}, 0
        groups = ti.xcom_pull(task_ids=self.claim_task) or []
        indexes = list(range(len(groups)))
        landed = (
            [item for item in ti.xcom_pull(task_ids=self.read_task, map_indexes=indexes) or [] if item]
            if indexes
            else []
        )
        errors = {shard: text for item in landed for shard, text in item["errors"].items()}
        return errors, sum(item["failed"] for item in landed)


class ReportOperator(Explained):
    """Fails the run for problems that a person must see although the batch was committed. Without problems it succeeds.

    It is the last task, after commit.

    :param problems: commit's output.
    """

    red = (
        "The batch is committed, and there is nothing to clear. Its log names the shards: the next run reads those "
        "that could not be read; those that wait after a gap go on after `airflow shardbatch accept-gap`. If commit "
        "was marked success by hand, clear that with its downstream tasks."
    )
    template_fields: Sequence[str] = ("problems",)
    operator_extra_links = (BatchLink(),)
    ui_color = "#f9e3d3"

    def __init__(self, *, problems: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.problems = problems
        #: The application of the group that it stands behind, unless it is wired by hand.
        self.spec: ApplicationSpec | None = None

    def execute(self, context: Context) -> None:
        """Fail with all problems in one error, or do nothing."""
        if self.spec is not None:
            lead_to(self, self.spec.rendered(renderer(self, context)))
        with final_errors():
            if self.problems is None:
                raise WorkFailed(
                    "Commit has left no outcome: it was marked success by hand, and has decided nothing.",
                    remedy="Clear it with its downstream tasks; else the next run takes the batch over.",
                )
            errors = [PROBLEMS[problem["kind"]](problem["text"]) for problem in self.problems]
            if errors:
                raise type(errors[0])(" ".join(str(error) for error in errors), remedy="")
        self.log.info("Every shard was read, and none waits behind a gap.")


def extra_of(done: Committed) -> dict[str, Any]:
    """The content of an asset event: counts and places, never records."""
    return {
        "batch_id": done.batch_id,
        "manifest_uri": done.manifest_uri,
        "records": done.records,
        "bytes": done.bytes,
        "gaps": done.gaps,
        "dropped": done.dropped,
        "note": done.note,
        "shards": done.shards,
        "completed": done.completed,
        "lag_ms": done.lag_ms,
        "positions": dict(sorted(done.positions.items())[:NAMED_POSITIONS]),
    }
