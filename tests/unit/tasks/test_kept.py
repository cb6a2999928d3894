# SPDX-License-Identifier: Apache-2.0
"""What a task keeps until it is cleared: neither a retry nor the clearing of another task of its run takes it away."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from shardbatch.tasks.deadline import deadline_of
from shardbatch.tasks.kept import keep, kept


class Store(dict[str, Any]):
    """A task's state store."""

    def set(self, key: str, value: Any) -> None:
        self[key] = json.loads(json.dumps(value))


def context(store: Store, run: str = "r1", clears: int | None = 0, max_tries: int = 2, try_number: int = 1) -> Any:
    return {
        "dag_run": SimpleNamespace(run_id=run, clear_number=clears),
        "ti": SimpleNamespace(max_tries=max_tries, try_number=try_number),
        "task_state_store": store,
    }


@pytest.mark.parametrize(
    "later",
    [{}, {"clears": None}, {"try_number": 2}, {"clears": 1}],
    ids=["the same try", "a run that tells none", "a retry", "another task of the run was cleared"],
)
def test_it_stays(later: dict[str, Any]) -> None:
    store = Store()
    keep(context(store), "key", [7])
    assert kept(context(store, **later), "key") == [7]


@pytest.mark.parametrize(
    "later",
    [
        {"clears": 1, "max_tries": 3, "try_number": 2},
        {"max_tries": 3, "try_number": 2},
        {"clears": 1, "try_number": 2},
        {"run": "r2"},
    ],
    ids=["cleared", "cleared alone by the API", "cleared while a worker ran it", "another run"],
)
def test_it_goes(later: dict[str, Any]) -> None:
    store = Store()
    keep(context(store), "key", [7])
    assert kept(context(store, **later), "key") is None


def test_what_was_cleared_beside_it_long_ago_makes_no_clearing_of_its_own_retry() -> None:
    store = Store()
    keep(context(store), "key", 7)
    assert kept(context(store, clears=1), "key") == 7
    assert kept(context(store, clears=1, try_number=2), "key") == 7


@pytest.mark.parametrize("found", [None, "text", {"value": 7}, {"of": None, "value": 7}])
def test_nothing_is_kept_under_what_another_wrote(found: Any) -> None:
    assert kept(context(Store(key=found)), "key") is None


def test_a_deadline_does_not_begin_anew_when_another_task_of_the_run_is_cleared() -> None:
    store = Store()
    first = deadline_of(context(store), 60)
    assert deadline_of(context(store, clears=1), 9_999) == first
    assert deadline_of(context(store, clears=2, max_tries=3, try_number=2), 9_999) > first + 5_000
