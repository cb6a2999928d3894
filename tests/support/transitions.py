# SPDX-License-Identifier: Apache-2.0
"""Transition tables as text: one line for each state, one column for each call of a transition."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True)
class Cell:
    """What one call does to a row in one state: it leads to the state ``then``, or is refused: then that begins with
    ``-``. A call's name is that of its function, with ``+`` and a word behind it where there are several."""

    state: str
    call: str
    then: str

    @property
    def refused(self) -> bool:
        return self.then.startswith("-")

    @property
    def function(self) -> str:
        return self.call.partition("+")[0]

    def __str__(self) -> str:
        return f"{self.state}-{self.call}"


def cells(table: str) -> list[Cell]:
    """The cells of a table; every line must have one for each column."""
    head, *lines = [line.split() for line in table.strip().splitlines()]
    return [Cell(state, call, then) for state, *row in lines for call, then in zip(head, row, strict=True)]


def states_of(table: str) -> list[str]:
    """The states that have a line, from top to bottom."""
    return [line.split()[0] for line in table.strip().splitlines()[1:]]


def public_functions(module: ModuleType) -> set[str]:
    """The names of the functions that a module offers, and defines itself."""
    return {
        name
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
