# SPDX-License-Identifier: Apache-2.0
"""Which task instances are skipped when there is nothing to work on."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from shardbatch.tasks.liveness import instances


def test_the_instances_of_mapped_tasks_are_skipped_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    # As Airflow answers: an instance of a mapped task under the task's id and its index.
    answer = {"g.work": None, "g.each_0": None, "g.each_1": None, "g.step_1": None, "g.step_1_0": None}
    asked: list[Any] = []

    def states(**question: Any) -> dict[str, Any]:
        asked.append(question)
        return {"run": answer}

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(states))
    tasks = ["g.each", "g.step", "g.step_1", "g.work"]
    found = instances("d", "run", tasks)
    # "g.step_1" may be either of two: to skip an instance that is not there does nothing.
    assert found == [*tasks, ("g.each", 0), ("g.each", 1), ("g.step", 1), ("g.step_1", 0)]
    assert asked == [{"dag_id": "d", "run_ids": ["run"], "task_ids": tasks}]
    assert instances("d", "run", []) == []
