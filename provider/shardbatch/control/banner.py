# SPDX-License-Identifier: Apache-2.0
"""The one line about a run: what is wrong with it, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shardbatch.core.batch import Batch, BatchState

#: Tasks of a group that are not its work.
OURS = ("claim", "read", "freeze", "commit", "report")


@dataclass(frozen=True)
class TaskError:
    """An error of ours that a failed try of a task has left."""

    error: str
    message: str
    remedy: str


@dataclass(frozen=True)
class Failed:
    """A task instance whose last try failed.

    ``map_index`` is -1 for one that is not mapped, ``group_id`` empty for one that stands in no group of ours.
    ``again``: Airflow tries it once more by itself. ``error`` is ``None`` if it left none: an error of the work itself,
    or its process was killed.
    """

    task_id: str
    map_index: int = -1
    group_id: str = ""
    ended_ms: int | None = None
    again: bool = False
    error: TaskError | None = None

    @property
    def name(self) -> str:
        """As Airflow's pages call it."""
        return self.task_id if self.map_index < 0 else f"{self.task_id} [{self.map_index}]"


@dataclass(frozen=True)
class Banner:
    """``level`` is ``error`` for what failed the run, else ``warning``. ``task_id`` is the task that it is about."""

    level: str
    text: str
    remedy: str
    task_id: str | None = None


def banner(
    failed: Sequence[Failed],
    batches: Mapping[str, Batch],
    *,
    task_id: str = "",
    nothing_claimed: str = "",
) -> Banner | None:
    """The line about a run; ``None`` if nothing is wrong with it.

    What failed first comes first, since what failed after it most often did so for its sake. Without a failure, a
    batch that waits for a person; then why the run got nothing of what others hold.

    :param failed: the tasks of the run that failed, or will be tried again.
    :param batches: the run's batches, each by its group.
    :param task_id: the task that is looked at: if it failed itself, the line is about it.
    :param nothing_claimed: why its claim got nothing, if others hold all.
    """
    over = sorted((one for one in failed if not one.again), key=_when)
    if over:
        first = next((one for one in over if one.task_id == task_id), over[0])
        return _of(first, "error", len({one.task_id for one in over}) - 1, batches.get(first.group_id))
    for batch in batches.values():
        if batch.state is not BatchState.PARKED:
            continue
        return Banner(
            "warning",
            f"Batch {batch.batch_id} is parked{f': {batch.note}' if batch.note else ''}.",
            "Resume it (unpark) once its cause is mended, or set it aside (set-aside), so that its shards go on.",
        )
    if failed:
        first = min(failed, key=_when)
        return _of(first, "warning", 0, batches.get(first.group_id))
    if nothing_claimed:
        return Banner(
            "warning", nothing_claimed, "See who holds it, below Owners. If that will not come back: release."
        )
    return None


def _when(one: Failed) -> tuple[bool, int, str, int]:
    return one.ended_ms is None, one.ended_ms or 0, one.task_id, one.map_index


def _of(one: Failed, level: str, more: int, batch: Batch | None) -> Banner:
    tail = f" {more} more {'task' if more == 1 else 'tasks'} failed." if more else ""
    what = f"Task {one.name} {'is tried again' if one.again else 'failed'}"
    if one.error is not None:
        text = f"{what}: {one.error.error}: {one.error.message}"
        return Banner(level, text + tail, one.error.remedy or "Its log has more.", one.task_id)
    if not one.group_id:
        return Banner(level, f"{what}. It is not a task of a batch.{tail}", "Its log says why.", one.task_id)
    if one.task_id.rpartition(".")[2] in OURS:
        return Banner(
            level,
            f"{what} and left no error: its process was killed, or Airflow could not be reached.{tail}",
            "No record is lost. See its log, then clear it with its downstream tasks.",
            one.task_id,
        )
    waits = "" if batch is None else f" Batch {batch.batch_id} waits for it."
    return Banner(
        level,
        f"{what} with an error of the work itself.{waits}{tail}",
        "No record is lost. Mend what its log says, then clear it with its downstream tasks: it gets the same records.",
        one.task_id,
    )
