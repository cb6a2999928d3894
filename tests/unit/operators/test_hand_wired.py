# SPDX-License-Identifier: Apache-2.0
"""The example that wires the single operators by hand, as far as it can be seen without a run."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).parents[3] / "dags" / "flights_by_hand.py"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


def test_a_read_task_is_made_for_each_entry_of_claim(example: dict[str, Any]) -> None:
    read = example["read"]
    assert set(read.expand_input.value) == {"entry"}
    assert read.unmap({"entry": {"group": "g00", "label": "2 shards"}}).entry["group"] == "g00"


def test_what_commit_could_not_do_fails_the_run(example: dict[str, Any]) -> None:
    dag = example["commit"].dag
    (report,) = [task for task in dag.tasks if task.task_id == "report"]
    assert "commit" in report.upstream_task_ids
    assert report.problems.operator is example["commit"]


def test_nothing_to_do_skips_every_other_task(example: dict[str, Any]) -> None:
    claim = example["claim"]
    assert sorted(claim.skips) == sorted(claim.dag.task_dict.keys() - {"claim"})
