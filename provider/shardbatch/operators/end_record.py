# SPDX-License-Identifier: Apache-2.0
"""The end record of a task of the block: its last act, from which a commit learns what its application wrote.

It is a file beside the manifest, not an XCom: a task of an older attempt that is still running would overwrite the XCom
of a newer one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from inspect import isgeneratorfunction
from typing import Any, Protocol, runtime_checkable

from airflow.sdk import XComArg
from airflow.sdk.exceptions import DownstreamTasksSkipped

from shardbatch.core.metrics import STEP_DURATION
from shardbatch.hooks.leases import Leases
from shardbatch.hooks.renamed import renamed
from shardbatch.hooks.staging import Staging
from shardbatch.hooks.streams import Stream
from shardbatch.hooks.templates import renderer
from shardbatch.operators.failure import final_errors
from shardbatch.operators.links import add_link, lead_to
from shardbatch.operators.reconnection import bind_reconnection
from shardbatch.tasks.application import ApplicationSpec

log = logging.getLogger("shardbatch")

#: Where a task notes in its state store which attempt a try of it works for.
BOUND = "shardbatch_bound"
#: The output of freeze that opens the batch.
_MANIFEST = "manifest_uri"


@dataclass(frozen=True)
class Bound:
    """The batch and attempt that a try works for, and the token that it passes to its application.

    ``did_nothing``: the try found nothing to do. ``sure``: its application certainly got the token. ``records``: the
    number of records of the batch, if it is known.
    """

    batch_id: str
    attempt: int
    token: str
    did_nothing: bool = False
    sure: bool = False
    records: int | None = None


@runtime_checkable
class Binds(Protocol):
    """An operator that knows by itself which batch it works on, and may pass another token than its task's id."""

    def bound(self) -> Bound | None:
        """The batch and attempt of the current try; ``None`` without a batch."""
        ...


@runtime_checkable
class Learns(Protocol):
    """An operator that wants to know what its application wrote."""

    def wrote_below(self, roots: Sequence[str]) -> None:
        """Learn at the good end of the current try which output roots its application wrote below."""
        ...


def work_of(task_id: str, map_index: int | None) -> str:
    """The name of a task instance of the block."""
    return task_id if map_index is None or map_index < 0 else f"{task_id}[{map_index}]"


def works_of(states: Mapping[str, str | None], task_ids: set[str]) -> dict[str, tuple[str, str | None]]:
    """The task instances of these tasks by their names, each with its task and state, from what Airflow answers: the
    key of an instance of a mapped task is its task's id, an underscore and its index."""
    found: dict[str, tuple[str, str | None]] = {}
    for key, state in states.items():
        task_id, _, index = key.rpartition("_")
        if key in task_ids:
            found[key] = (key, state)
        elif task_id in task_ids and index.isdigit():
            found[work_of(task_id, int(index))] = (task_id, state)
    return found


def is_given(task: Any, freeze_task: str) -> bool:
    """Whether a task can be seen to get the batch: one of its fields has the URI of the manifest, without which the
    batch cannot be opened. A branch on the number of records does not have it."""
    if not task.is_mapped:
        return _has_manifest([getattr(task, name, None) for name in task.template_fields], freeze_task)
    return _has_manifest([task.partial_kwargs, task._get_specified_expand_input().value], freeze_task)


def _has_manifest(value: Any, freeze_task: str) -> bool:
    if isinstance(value, str):
        return _MANIFEST in value and (f"'{freeze_task}'" in value or f'"{freeze_task}"' in value)
    if isinstance(value, XComArg):
        return any(task.task_id == freeze_task and key == _MANIFEST for task, key in value.iter_references())
    if isinstance(value, Mapping):
        return any(_has_manifest(item, freeze_task) for item in value.values())
    # What describes a pod: operators make such objects of the environment that they are given.
    fields = getattr(value, "openapi_types", None)
    if isinstance(fields, Mapping):
        return any(_has_manifest(getattr(value, name, None), freeze_task) for name in fields)
    return isinstance(value, (list, tuple, set)) and any(_has_manifest(item, freeze_task) for item in value)


@renamed(freeze="freeze_task")
def record_end(
    task: Any,
    *,
    freeze_task: str,
    app_name: str,
    stream: Stream,
    leases: Leases | None = None,
    staging: Staging | None = None,
    group_id: str = "",
    only: bool = True,
) -> None:
    """Make a task leave its end record. ``StreamBatch`` does this for its whole block; tasks wired by hand need it.

    The author's own ``pre_execute`` and ``post_execute`` still run. If the record cannot be written, the task fails: it
    may be tried again, and nothing is lost. A stock operator that takes up a job of an earlier try does so only within
    one attempt of the batch.

    :param task: the operator, mapped or not; for a ``@task`` call its ``.operator``.
    :param freeze_task: id of the freeze task whose batch it works on; the other arguments are those of the steps.
    :param only: whether this is the only task that works on the batch; then its application need not say for which
        task it works. Default: yes.
    """
    record_ends(task, ApplicationSpec.of(app_name, stream, leases, staging, group_id=group_id), freeze_task, only=only)


def record_ends(task: Any, spec: ApplicationSpec, freeze_task: str, *, only: bool) -> None:
    """As :func:`record_end`, for a group's application."""
    if getattr(task, "leaves_end_record", False):
        return  # an operator that is wired by hand and stands in a group all the same
    ending = _Ending(spec, freeze_task, only)
    if task.is_mapped:
        given = task.partial_kwargs
        given["pre_execute"] = _after(given.get("pre_execute"), ending.begin)
        given["post_execute"] = _after(given.get("post_execute"), ending.end)
    else:
        task._pre_execute_hook = _after(task._pre_execute_hook, ending.begin)
        task._post_execute_hook = _after(task._post_execute_hook, ending.end)
        task.leaves_end_record = True
        if hasattr(task, "skip_all_except"):
            task.execute = ending.execute


class _Ending:
    """What one task needs for its record. The batch is looked up when a try begins, because at its end the XComs may
    already be those of a later attempt."""

    def __init__(self, spec: ApplicationSpec, freeze_task: str, only: bool) -> None:
        self._spec = spec
        self._freeze_task = freeze_task
        self._only = only
        self._bound: dict[str, Bound | None] = {}

    def begin(self, context: Any, *_: Any) -> None:
        add_link(context["ti"].task)  # an instance of a mapped task is made anew, with the links of its class
        if not self._freeze_task:
            return  # the operator knows its batch itself
        ti, memory = context["ti"], context.get("task_state_store")
        # A try that was deferred begins again in another process; freeze may have opened the next attempt meanwhile.
        note = memory.get(BOUND) if memory is not None else None
        if not isinstance(note, dict) or note.get("id") != str(ti.id):
            batch_id, attempt = (ti.xcom_pull(task_ids=self._freeze_task, key=key) for key in ("batch_id", "attempt"))
            moved = _moved(note, batch_id, attempt)
            note = {"id": str(ti.id), "batch_id": batch_id, "attempt": attempt, "moved": moved}
            if memory is not None and batch_id:
                memory.set(BOUND, note)
        lead_to(ti.task, self._spec.rendered(renderer(ti.task, context)), note["batch_id"])
        self._bound[str(ti.id)] = None
        if note["batch_id"]:
            bound = Bound(str(note["batch_id"]), int(note["attempt"]), str(ti.id))
            self._bound[str(ti.id)] = bound
            bind_reconnection(ti.task, bound.batch_id, bound.attempt, moved=bool(note.get("moved")))

    def execute(self, context: Any, **more: Any) -> Any:
        """Execute a branch or a short circuit. When it skips tasks, it raises, and ``post_execute`` does not run."""
        task = context["ti"].task
        try:
            return type(task).execute(task, context, **more)
        except DownstreamTasksSkipped:
            self.end(context)
            raise

    def end(self, context: Any, *_: Any) -> None:
        from shardbatch.tasks.end_record import leave_end_record

        ti, task = context["ti"], context["ti"].task
        bound = task.bound() if isinstance(task, Binds) else self._bound.get(str(ti.id))
        if bound is None or bound.did_nothing:
            return
        spec = self._spec.rendered(renderer(task, context))
        work = work_of(ti.task_id, getattr(ti, "map_index", -1))
        with final_errors():
            left = leave_end_record(
                spec,
                batch_id=bound.batch_id,
                attempt=bound.attempt,
                work=work,
                try_number=ti.try_number,
                token=bound.token,
                unique=str(ti.id),
                only=self._only and "[" not in work,
                sure=bound.sure,
            )
        measure_work(spec, context)
        records = "" if bound.records is None else f", {bound.records:,} records"
        told = left.told
        log.info("Attempt %s of batch %s%s: this task ended well; %s.", bound.attempt, bound.batch_id, records, told)
        if isinstance(task, Learns):
            task.wrote_below(left.roots)


def measure_work(spec: ApplicationSpec, context: Mapping[str, Any]) -> None:
    """Measure how long this try of a task of the block took, since its start in Airflow."""
    began = getattr(context["ti"], "start_date", None)
    if began is not None:
        milliseconds = (datetime.now(UTC) - began).total_seconds() * 1000
        spec.meter(context)(STEP_DURATION, max(0.0, milliseconds), step="work")


def _moved(note: Any, batch_id: Any, attempt: Any) -> bool:
    """Whether an earlier try of a task worked for another attempt than this one; ``note`` is what it left."""
    if not isinstance(note, dict):
        return False
    return bool(note.get("moved")) or (note.get("batch_id"), note.get("attempt")) != (batch_id, attempt)


def _after(hook: Callable[..., Any] | None, ours: Callable[..., None]) -> Callable[..., Any]:
    """A hook that runs the author's hook, then ours."""
    if hook is not None and isgeneratorfunction(hook):

        def run_and_yield(context: Any, *result: Any) -> Iterator[Any]:
            yield from hook(context, *result)
            ours(context)

        return run_and_yield

    def run(context: Any, *result: Any) -> None:
        if hook is not None:
            hook(context, *result)
        ours(context)

    return run
