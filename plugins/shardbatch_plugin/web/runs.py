# SPDX-License-Identifier: Apache-2.0
"""What Airflow's own database knows of runs: which work, in which state they are, how long each step took."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.task_state_store import TaskStateStoreModel
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, TaskInstanceState
from sqlalchemy import func, select

from shardbatch.core.owner import Owner
from shardbatch.tasks.reading import KEY

#: The tasks of a group by their steps; every other one, but its report, is the work on a batch.
STEPS = ("claim", "read", "freeze", "commit")
REPORT = "report"
WORK = "work"


@dataclass(frozen=True)
class Running:
    """A run that is at work."""

    dag_id: str
    run_id: str


@dataclass
class _Span:
    begin: datetime | None = None
    end: datetime | None = None
    whole: bool = True

    def add(self, begin: datetime | None, end: datetime | None, whole: bool) -> None:
        if begin is not None:
            self.begin = begin if self.begin is None else min(self.begin, begin)
        if end is not None:
            self.end = end if self.end is None else max(self.end, end)
        self.whole = self.whole and whole

    @property
    def seconds(self) -> float | None:
        if self.begin is None or self.end is None or not self.whole:
            return None
        return round((self.end - self.begin).total_seconds(), 3)


def running(dag_ids: Collection[str]) -> list[Running]:
    """The runs of these DAGs that work now, in the order of their ids."""
    if not dag_ids:
        return []
    asked = select(DagRun.dag_id, DagRun.run_id).where(
        DagRun.dag_id.in_(sorted(dag_ids)), DagRun.state == DagRunState.RUNNING
    )
    with create_session() as session:
        return sorted((Running(*found) for found in session.execute(asked)), key=lambda run: (run.dag_id, run.run_id))


def state_of(dag_id: str, run_id: str) -> str | None:
    """The state of a run; ``None`` if Airflow has no such run (any more)."""
    asked = select(DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
    with create_session() as session:
        found = session.execute(asked).first()
    return None if found is None else str(getattr(found[0], "value", found[0]))


def seconds_of(owners: Iterable[Owner]) -> dict[Owner, dict[str, float | None]]:
    """How long each step of these owners' runs took, from the first start of a task of it to the last end, by the last
    try of each; a step that has not ended is left out. One query for all."""
    wanted = {(owner.dag_id, owner.run_id): set[Owner]() for owner in owners}
    for owner in owners:
        wanted[owner.dag_id, owner.run_id].add(owner)
    if not wanted:
        return {}
    ended = func.count(TaskInstance.end_date)
    asked = (
        select(
            TaskInstance.dag_id,
            TaskInstance.run_id,
            TaskInstance.task_id,
            func.min(TaskInstance.start_date),
            func.max(TaskInstance.end_date),
            func.count(TaskInstance.start_date) - ended,
        )
        .where(
            TaskInstance.dag_id.in_(sorted({dag_id for dag_id, _ in wanted})),
            TaskInstance.run_id.in_(sorted({run_id for _, run_id in wanted})),
        )
        .group_by(TaskInstance.dag_id, TaskInstance.run_id, TaskInstance.task_id)
    )
    spans: dict[Owner, dict[str, _Span]] = {}
    with create_session() as session:
        for dag_id, run_id, task_id, begin, end, open_ones in session.execute(asked):
            for owner in wanted.get((dag_id, run_id), ()):
                step = step_of(task_id, owner.group_id)
                if step is not None:
                    spans.setdefault(owner, {}).setdefault(step, _Span()).add(begin, end, open_ones <= 0)
    return {owner: {step: span.seconds for step, span in found.items()} for owner, found in spans.items()}


@dataclass(frozen=True)
class ReadTask:
    """A read task at work, with what it showed last of its shards: of each, records, bytes, and how far it is from
    where its read ends, in milliseconds (``None``: its service does not say)."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    at_ms: int
    records: int
    bytes: int
    shards: int
    over: int
    reading: Mapping[str, tuple[int, int, int | None]]


def reading(runs: Iterable[Running]) -> list[ReadTask]:
    """The read tasks of these runs that are at work and have shown how far they have come."""
    wanted = {(run.dag_id, run.run_id) for run in runs}
    if not wanted:
        return []
    state, task = TaskStateStoreModel, TaskInstance
    asked = (
        select(state.dag_id, state.run_id, state.task_id, state.map_index, state.value)
        .join(
            task,
            (task.dag_id == state.dag_id)
            & (task.run_id == state.run_id)
            & (task.task_id == state.task_id)
            & (task.map_index == state.map_index),
        )
        .where(
            state.key == KEY,
            state.dag_id.in_(sorted({dag_id for dag_id, _ in wanted})),
            state.run_id.in_(sorted({run_id for _, run_id in wanted})),
            task.state == TaskInstanceState.RUNNING,
        )
    )
    found = []
    with create_session() as session:
        for dag_id, run_id, task_id, map_index, value in session.execute(asked):
            shown = _shown(value) if (dag_id, run_id) in wanted else None
            if shown is not None:
                found.append(ReadTask(dag_id, run_id, task_id, map_index, **shown))
    return sorted(found, key=lambda one: (one.dag_id, one.run_id, one.task_id, one.map_index))


def _shown(text: str) -> dict[str, Any] | None:
    """What a read task showed; ``None`` for what a backend of the deployment's own keeps elsewhere, or another version
    wrote."""
    try:
        value = json.loads(text)
        numbers = {name: int(value[name]) for name in ("at_ms", "records", "bytes", "shards", "over")}
        shards = {str(name): (int(n), int(size), ms) for name, (n, size, ms) in value["reading"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return {**numbers, "reading": shards}


def step_of(task_id: str, group_id: str) -> str | None:
    """The step that a task of a group is; ``None`` for a task that is no step of it, and where there is no group."""
    if not group_id or not task_id.startswith(f"{group_id}."):
        return None
    name = task_id[len(group_id) + 1 :]
    if name == REPORT:
        return None
    return name if name in STEPS else WORK
