# SPDX-License-Identifier: Apache-2.0
"""Which work has ended by itself: a task that a person marked as a success has left no note."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import isgeneratorfunction
from typing import Any

log = logging.getLogger("shardbatch")

#: The XCom that a task of the block leaves at its end; Airflow removes it when the task begins again.
ENDED = "shardbatch_ended"


def leave_note(task: Any) -> None:
    """Let a task, mapped or not, leave a note at its end, after what its author gave as ``post_execute``."""
    if task.is_mapped:
        task.partial_kwargs["post_execute"] = _noting(task.partial_kwargs.get("post_execute"))
    else:
        task._post_execute_hook = _noting(task._post_execute_hook)


def marked_by_hand(ti: Any, work: Sequence[str], states: Mapping[str, str | None]) -> bool:
    """Whether work succeeded and none of it has ended by itself.

    :param work: the tasks whose work it is, of those that leave a note.
    :param states: what Airflow says of these and of others; instances of a mapped task as its id, ``_`` and an index.
    """
    if not any(state == "success" and {key, key.rpartition("_")[0]} & {*work} for key, state in states.items()):
        return False
    notes = ti.xcom_pull(task_ids=list(work), key=ENDED) or []
    return not any(notes)


def _noting(hook: Callable[..., Any] | None) -> Callable[..., Any]:
    """A hook that does what the author's does, then leaves the note."""
    if hook is not None and isgeneratorfunction(hook):

        def run_and_yield(context: Any, result: Any) -> Iterator[Any]:
            yield from hook(context, result)
            _leave(context)

        return run_and_yield

    def run(context: Any, result: Any) -> None:
        if hook is not None:
            hook(context, result)
        _leave(context)

    return run


def _leave(context: Any) -> None:
    try:
        context["ti"].xcom_push(key=ENDED, value=True)
    except Exception as error:  # noqa: BLE001 - work that is done must not fail for a remark on the batch's row
        log.warning("It was not noted that this task ended by itself (%s).", type(error).__name__)
