# SPDX-License-Identifier: Apache-2.0
"""Applications that an older attempt of a batch has left behind, ended by the task that opens the next one (D2).

If a worker is lost, its attempt is never closed. The next attempt need not wait for its grace where what it started
can be reached: through the Spark task of this DAG that started it, or among the processes of this host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from shardbatch.core.batch import MOST_APPLICATIONS
from shardbatch.errors import OwnerUnknown, ShardbatchError
from shardbatch.submit import applications, processes
from shardbatch.submit.applications import FENCED, Ending
from shardbatch.tasks.liveness import task_states

if TYPE_CHECKING:
    from shardbatch.core.batch import Batch, Recorded
    from shardbatch.core.say import Say
    from shardbatch.submit.attempt import Attempt

#: States of a task whose application is wanted.
AT_WORK = frozenset({"running", "deferred"})


@dataclass(frozen=True)
class LeftOvers:
    """Ends the recorded applications of a batch's latest attempt, and those of this host that were never recorded.

    The task that opens an attempt owns the batch, so no other run may work on it; a task of the same run that
    Airflow says is at work is left alone.

    :param tasks: the tasks of this DAG by their id. Those that have ``end_recorded(application, batch_id, render)``
        are asked, of a mapped task its operator.
    :param working: whether a task of the block, with its index if mapped, is at work in this run.
    :param render: renders a templated argument of such a task, which has not rendered it here.
    """

    tasks: Mapping[str, Any]
    working: Callable[[str], bool]
    say: Say
    render: Callable[[str], str] = str

    def __call__(self, batch: Batch) -> bool:
        """End them; whether all that the latest attempt started is known to have ended."""

        def left(work: str) -> bool:
            return not (work and self.working(work))

        found = processes.end_left_over(batch.batch_id, batch.attempt, left)
        for what, work, gone in found:
            did = "Ended" if gone else "Could not end"
            self.say(f"{did} a {what} of batch {batch.batch_id} that {work or 'a task'} had left behind.")
        attempt, recorded = batch.spark_applications
        silent: set[str] = set()
        over = [left(item.work) and self._ended(batch, item, silent) for item in recorded]
        # Beside as many as a row names there may be one that it has forgotten.
        known = attempt == batch.attempt and 0 < len(recorded) < MOST_APPLICATIONS
        return known and all(over) and all(item.gone for item in found)

    def _ended(self, batch: Batch, item: Recorded, silent: set[str]) -> bool:
        """End one of the recorded applications.

        :param silent: servers that did not answer just now; they are not waited for once more.
        """
        place = item.name.rpartition(":")[0]
        if place in silent:
            self.say(f"The older application {item.name} is at a server that did not answer just now; {FENCED}")
            return False
        task = self.tasks.get(item.work.partition("[")[0])
        try:
            end = _end_of(task)
            if end is None:
                ending = applications.end_application(item.name, batch.batch_id, None)
            else:
                ending = end(item.name, batch.batch_id, self.render)
        except Exception as error:  # noqa: BLE001 - an author's template or argument; fencing is enough and is said
            ending = Ending(False, f"The older application {item.name} could not be ended ({_told(error)}); {FENCED}")
        self.say(ending.said)
        if ending.silent:
            silent.add(place)
        return ending.over


def _end_of(task: Any) -> Callable[..., Ending] | None:
    """How a task ends its applications; ``None`` if it has no way of its own."""
    of_class = getattr(task, "operator_class", None)
    if not hasattr(task, "end_recorded") and hasattr(of_class, "end_recorded"):
        # A mapped task is made into its operator. What is expanded does not matter here, but it asks for a script.
        task = task.unmap({} if "application" in task.partial_kwargs else {"application": ""})
    found: Callable[..., Ending] | None = getattr(task, "end_recorded", None)
    return found


def _told(error: Exception) -> str:
    # Our own errors hold no secrets; what others say may.
    return str(error) if isinstance(error, ShardbatchError) else type(error).__name__


def end_own_left_over(attempt: Attempt, say: Callable[..., None]) -> None:
    """End what an earlier try or attempt of a task has left on this host, for a try of the task that begins."""
    for what, _, gone in processes.end_left_over(attempt.batch_id, attempt.attempt, lambda work: work == attempt.work):
        did = "Ended" if gone else "Could not end"
        say("%s a %s that an earlier try or attempt of this task had left behind.", did, what)


def working_in(dag_id: str, run_id: str) -> Callable[[str], bool]:
    """The question whether a task of a run is at work, asked of Airflow once for each; no answer counts as yes."""

    @cache
    def ask(work: str) -> bool:
        # Airflow's answer names an instance of a mapped task by an underscore and its index.
        name, _, index = work.rstrip("]").partition("[")
        try:
            states = task_states(dag_id, run_id, [name])
        except OwnerUnknown:
            return True
        return states.get(f"{name}_{index}" if index else name) in AT_WORK

    return ask
