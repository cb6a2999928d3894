# SPDX-License-Identifier: Apache-2.0
"""What shardbatch logs stands beside what others log: it leaves their levels and handlers, and the root's, alone."""

from __future__ import annotations

import ast
from pathlib import Path

import shardbatch

PACKAGE = Path(shardbatch.__file__).parent
#: Calls that change what other code logs, or where to.
CHANGES = {"setLevel", "basicConfig", "addHandler", "removeHandler", "addFilter", "dictConfig", "fileConfig"}
#: The command line shows answers, not progress; it sets the level of our own logger.
ALLOWED = {("cli/opened.py", "logging.getLogger('shardbatch').setLevel(logging.WARNING)")}


def calls(path: Path) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]


def changes(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name in CHANGES or ast.unparse(call.func) == "logging.disable"


def test_no_part_changes_what_others_log() -> None:
    found = {
        (str(path.relative_to(PACKAGE)), ast.unparse(call))
        for path in PACKAGE.rglob("*.py")
        for call in calls(path)
        if changes(call)
    }
    assert found == ALLOWED


def test_every_logger_is_one_of_our_own() -> None:
    found = {
        ast.unparse(call)
        for path in PACKAGE.rglob("*.py")
        for call in calls(path)
        if ast.unparse(call.func).endswith("getLogger")
    }
    assert found == {"logging.getLogger('shardbatch')", "logging.getLogger(__name__)"}
