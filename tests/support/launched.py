# SPDX-License-Identifier: Apache-2.0
"""A work task of a block as Airflow runs it, on a real batch; the cluster that runs its job is played by a test."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

from shardbatch.core.start import Work
from shardbatch.operators.end_record import work_of
from shardbatch.operators.freeze import outputs_of
from shardbatch.run import Committed, Frozen
from tests.support import starts
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream


class Memory(dict[str, Any]):
    """A task's state store, which outlives tries and clearings."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value


@dataclass
class Try:
    """One try of a task instance: an operator that Airflow has made anew and rendered, and its context."""

    task: Any
    context: Any

    @property
    def work(self) -> str:
        ti = self.context["ti"]
        return work_of(ti.task_id, ti.map_index)

    @property
    def token(self) -> str:
        return str(self.context["ti"].id)

    def execute(self) -> Any:
        """What a worker does until the operator has returned."""
        self.task._pre_execute_hook(self.context)
        return self.task.execute(self.context)

    def end(self) -> None:
        """What a worker does after that, at the good end of a try."""
        self.task._post_execute_hook(self.context, None)


@dataclass
class Scene:
    """A run of a page's DAG that has frozen a batch of three records. ``words`` is what the DAG's variables say."""

    dag: Any
    folder: Path
    words: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        group = self.dag.task_group.children["batch"]
        self.rig = Rig(self.folder / "staging", ScriptedStream(group.stream.stream_name), app=group.app_name)
        self.sent = sorted(self.rig.stream.put("a", "b", "c"))
        self.rig.land("r", self.rig.claim("r"))
        self.frozen: Frozen = self.rig.freeze("r")
        self.out = str(self.folder / "out")
        self._memories: dict[str, Memory] = {}
        self._tries: dict[str, int] = {}

    def clear(self) -> None:
        """Freeze runs again and opens the next attempt of the same batch."""
        self.frozen = self.rig.freeze("r", self.frozen.batch_id)

    def begin(self, task_id: str, map_index: int = -1, **expanded: Any) -> Try:
        """The next try of a task, with its templates rendered.

        :param expanded: the arguments of an instance of a mapped task.
        """
        found = self.dag.get_task(task_id)
        task = found.unmap(expanded) if found.is_mapped else found.prepare_for_execution()
        work = work_of(task_id, map_index)
        number = self._tries[work] = self._tries.get(work, 0) + 1
        ti = SimpleNamespace(
            id=f"0198-{number:04d}-{work}",
            task=task,
            task_id=task_id,
            map_index=map_index,
            dag_id=self.dag.dag_id,
            run_id="r",
            try_number=number,
            stats_tags={},
            xcom_push=lambda key, value: None,
            xcom_pull=self._pull,
        )
        context = {
            "ti": ti,
            "task_instance": ti,
            "task": task,
            "dag": self.dag,
            "run_id": "r",
            "params": {},
            "var": {"value": SimpleNamespace(**self.words)},
            "task_state_store": self._memories.setdefault(work, Memory()),
        }
        task.render_template_fields(cast("Any", context))
        return Try(task, context)

    def resume(self, one: Try) -> Try:
        """The same try, come back from the triggerer to another worker."""
        task = self.dag.get_task(one.task.task_id).prepare_for_execution()
        ti = SimpleNamespace(**{**vars(one.context["ti"]), "task": task})
        context = {**one.context, "ti": ti, "task_instance": ti, "task": task}
        task.render_template_fields(cast("Any", context))
        return Try(task, context)

    def told(self, one: Try) -> dict[str, str]:
        """The words that a job has to get from a try, as they are at the time of the call."""
        return {
            "manifest": str(self.frozen.manifest_uri),
            "attempt": str(self.frozen.attempt),
            "digest": str(self.frozen.manifest_digest),
            "work": one.work,
            "token": one.token,
        }

    def play(self, argv: Sequence[str] = (), environ: Mapping[str, str] | None = None, out: str = "") -> None:
        """What a cluster does with a job: it runs to its end and copies the batch to an output root."""
        argv = ["orders.py", *argv]
        with mock.patch.object(sys, "argv", argv), mock.patch.dict(os.environ, environ or {}):
            starts.main([out or self.out])

    def commit(self, *works: str) -> Committed:
        return self.rig.commit("r", self.frozen, works=[Work(name) for name in works])

    def seen(self, out: str = "") -> list[str]:
        """What readers of an output root see."""
        return starts.shown(Path(out or self.out))

    def _pull(self, task_ids: Any = None, key: str = "return_value", **_: Any) -> Any:
        one = task_ids if isinstance(task_ids, str) or task_ids is None else next(iter(task_ids))
        return outputs_of(self.frozen).get(key) if one == "batch.freeze" else None
