# SPDX-License-Identifier: Apache-2.0
"""Whoever opens a module finds its test by its name: ``core/lease.py`` has ``tests/unit/core/test_lease.py``."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES, TESTS = ROOT / "provider" / "shardbatch", ROOT / "tests" / "unit"
ROOMS = ("core", "run", "control", "operators")


def has_code(module: Path) -> bool:
    """Whether a module does anything: protocols, data and enums alone have nothing to test."""
    functions = [node for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.FunctionDef)]
    return any(not _is_empty(statement) for function in functions for statement in function.body)


def _is_empty(statement: ast.stmt) -> bool:
    """A docstring or an ellipsis."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def namesake(module: str) -> Path:
    room, _, name = module.rpartition("/")
    return TESTS / room / f"test_{name}"


MODULES = sorted(
    module.relative_to(SOURCES).as_posix()
    for room in ROOMS
    for module in (SOURCES / room).rglob("*.py")
    if module.name != "__init__.py" and has_code(module)
)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_the_test_of_its_name(module: str) -> None:
    assert namesake(module).exists(), f"write {namesake(module).relative_to(ROOT)}"


def test_every_room_is_looked_into_and_protocols_alone_need_no_test() -> None:
    assert {module.partition("/")[0] for module in MODULES} == set(ROOMS)
    assert "core/lease.py" in MODULES
    assert "core/ports.py" not in MODULES
