# SPDX-License-Identifier: Apache-2.0
"""Transition tables as text, one line for each state, one column for each call of a transition; and the diagrams of the
protocol, which show the same."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType

from tests.support.pages import DOCS

#: From a state to a state by a rule; a row that is not there is in the state ``*``.
Edge = tuple[str, str, str]


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


def diagram(section: str) -> set[Edge]:
    """The transitions in the diagram of a section of the protocol: each rule that stands at an arrow is one."""
    text = (DOCS / "protocol.md").read_text("utf-8").partition(f"\n## {section}. ")[2].partition("\n## ")[0]
    picture = text.partition("```mermaid")[2].partition("```")[0]
    arrows = re.findall(r"^ +(\S+) --> (\S+): (.+)$", picture, re.MULTILINE)
    assert len(arrows) == picture.count("-->") > 0
    return {
        (_state(before), _state(after), rule)
        for before, after, label in arrows
        for rule in re.findall(rf"\b{section}\d+", label)
    }


def edges(allowed: Iterable[Cell], rules: Mapping[str, str], state: Callable[[str], str]) -> set[Edge]:
    """The transitions of a table's cells as a diagram has them.

    :param rules: the rule of each function.
    :param state: the diagram's name of a state of the table.
    """
    return {(state(cell.state), state(cell.then), rules[cell.function]) for cell in allowed}


def _state(name: str) -> str:
    return "*" if name == "[*]" else name
