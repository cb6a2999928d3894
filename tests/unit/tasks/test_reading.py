# SPDX-License-Identifier: Apache-2.0
"""Where a read task shows its progress; it goes on reading if nobody can see that."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from shardbatch.tasks.reading import KEY, shown_in


class State:
    """A task's state store, which may refuse."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.calls: list[tuple[str, Any, timedelta]] = []

    def set(self, key: str, value: Any, *, retention: timedelta) -> None:
        self.calls.append((key, value, retention))
        if self.error is not None:
            raise self.error


def test_it_stands_under_one_key_and_not_for_ever() -> None:
    state, warned = State(), list[str]()
    show = shown_in(state, warned.append)
    show({"records": 1})
    show({"records": 2})
    assert [(key, value) for key, value, _ in state.calls] == [(KEY, {"records": 1}), (KEY, {"records": 2})]
    assert all(retention == timedelta(days=1) for _, _, retention in state.calls)
    assert warned == []


def test_a_store_that_refuses_is_told_of_once_and_asked_no_more() -> None:
    state, warned = State(RuntimeError("password=secret")), list[str]()
    show = shown_in(state, warned.append)
    show({"records": 1})
    show({"records": 2})
    assert len(state.calls) == 1
    assert len(warned) == 1
    assert "RuntimeError" in warned[0]
    assert "secret" not in warned[0]


def test_where_airflow_has_no_such_store_nothing_is_shown() -> None:
    warned: list[str] = []
    shown_in(None, warned.append)({"records": 1})
    assert warned == []
