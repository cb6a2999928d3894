# SPDX-License-Identifier: Apache-2.0
"""The public names: of Python, with the arguments, defaults and members of each, and of the command line.

``python -m tests.support.public_names`` writes them into ``tests/unit/public_names.txt``.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator

from shardbatch.control.status import OwnerStatus, ShardStatus, Status
from shardbatch.landing.batch import LandedBatch
from shardbatch.run.batch_status import BatchStatus, IntervalsStatus
from shardbatch.spark import SparkBatch
from tests.unit.cli.caller import commands

TABLE = Path(__file__).resolve().parents[1] / "unit" / "public_names.txt"
HEAD = """\
# What users may write: a name that goes, an argument or default that changes, breaks what they wrote. A change is meant
# if it stands in CHANGELOG.md, and the old name works with a warning (provider/shardbatch/hooks/renamed.py).
# Written by: python -m tests.support.public_names
"""
MODULES = ("shardbatch", "shardbatch.spark", "shardbatch.spark.dynamodb", "shardbatch.local", "shardbatch.errors")
#: Classes whose instances users get from a function of ours.
HANDED_OUT = (SparkBatch, LandedBatch)
#: Values that users get from the hook; they read the fields.
VALUES = (Status, ShardStatus, OwnerStatus, BatchStatus, IntervalsStatus)
#: What is said of an argument of the command line.
SAID = ("required", "action", "choices", "default")


def public(module: str) -> dict[str, Any]:
    """The public names of a module and what they stand for."""
    found = import_module(module)
    names = getattr(found, "__all__", None)
    if names is None:
        names = [name for name, value in vars(found).items() if getattr(value, "__module__", "") == module]
    return {name: getattr(found, name) for name in sorted(names) if not name.startswith("_")}


def ours(kind: type) -> list[type]:
    """Of a class and those above it, the ones of this project."""
    return [base for base in kind.__mro__ if base.__module__.startswith("shardbatch.")]


def arguments(made: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The arguments of a function or a class, also those that a class hands on to a class of ours above it."""
    if not isinstance(made, type):
        return dict(inspect.signature(made).parameters)
    found: dict[str, inspect.Parameter] = {}
    more: dict[str, inspect.Parameter] = {}
    for base in ours(made):
        if "__init__" in vars(base):
            given = inspect.signature(base.__init__).parameters
            more = {name: kind for name, kind in given.items() if kind.kind is kind.VAR_KEYWORD}
            found.update({name: kind for name, kind in given.items() if name not in {"self", *found, *more}})
            if not more:
                return found
    return {**found, **more}


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """What users may call or read of a class that it has not from elsewhere. Methods of operators are called by Airflow
    and by ourselves."""
    foreign = {name for base in kind.__mro__ if base not in ours(kind) for name in dir(base)}
    stored = {field.name for field in fields(kind)} if is_dataclass(kind) else set()
    found = {name: value for base in reversed(ours(kind)) for name, value in vars(base).items()}
    for name, value in sorted(found.items()):
        called = isinstance(value, (classmethod, staticmethod)) or inspect.isfunction(value)
        wanted = isinstance(value, property) or (called and not issubclass(kind, BaseOperator))
        if wanted and not name.startswith("_") and name not in foreign | stored:
            yield name, value


def table() -> str:
    """The whole table."""
    lines = [HEAD]
    for module in MODULES:
        lines.append(f"[{module}]")
        for name, value in public(module).items():
            lines += _described(name, value)
        lines.append("")
    for kind in HANDED_OUT:
        lines += [f"[{kind.__module__}.{kind.__name__}]", *_members(kind), ""]
    for kind in VALUES:
        lines += [f"[{kind.__module__}.{kind.__name__}]", *(f"    .{field.name}" for field in fields(kind)), ""]
    return "\n".join([*lines, "[airflow shardbatch]", *_commands(), ""])


def _described(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, type) and issubclass(value, Enum):
        yield f"{name}: {', '.join(f'{item.name}={item.value!r}' for item in value)}"
        return
    if isinstance(value, type) and issubclass(value, Exception):
        yield f"{name}: {', '.join(base.__name__ for base in value.__bases__)}"
        return
    yield name
    if callable(value) and value not in HANDED_OUT:
        yield from _arguments(value)
    if isinstance(value, type) and value not in HANDED_OUT:
        yield from _members(value)


def _arguments(made: Callable[..., Any]) -> Iterator[str]:
    by_name_only = False
    for kind in arguments(made).values():
        if kind.kind is kind.KEYWORD_ONLY and not by_name_only:
            by_name_only = True
            yield "    *"
        yield f"    {kind.replace(annotation=kind.empty)}"
    for old, new in getattr(made.__init__ if isinstance(made, type) else made, "old_names", {}).items():
        yield f"    {old} (old name of {new})"


def _members(kind: type) -> Iterator[str]:
    for name, found in members(kind):
        yield f"    .{name}{'' if isinstance(found, property) else _signature(found)}"


def _signature(found: Any) -> str:
    signature = inspect.signature(getattr(found, "__func__", found))
    given = [kind.replace(annotation=kind.empty) for name, kind in signature.parameters.items() if name != "self"]
    return str(signature.replace(parameters=given, return_annotation=signature.empty))


def _commands() -> Iterator[str]:
    from airflow.cli.cli_config import ARG_OUTPUT

    for name, command in commands():
        yield name
        for given in command.args:
            words = (
                {"action", "choices", "default", "required"} & given.kwargs.keys() if given is not ARG_OUTPUT else ()
            )
            said = "".join(f" {word}={given.kwargs[word]!r}" for word in sorted(words))
            yield f"    {'/'.join(given.flags)}{said}"


def main() -> int:
    """Write the table anew."""
    TABLE.write_text(table(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
