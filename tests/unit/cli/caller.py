# SPDX-License-Identifier: Apache-2.0
"""The commands behind ``airflow shardbatch``, called in this process with the parser of their own arguments."""

from __future__ import annotations

import argparse
import contextlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from airflow.cli.cli_config import ActionCommand, GroupCommand

from shardbatch.cli.arguments import GROUP


@dataclass(frozen=True)
class Answer:
    """How a command ended: its exit code, what it answered, what it said beside that."""

    code: int
    out: str
    err: str


def command(name: str) -> ActionCommand:
    """A subcommand by its name, which has two words in a group."""
    return dict(commands())[name]


def commands(group: GroupCommand = GROUP, above: str = "") -> Iterator[tuple[str, ActionCommand]]:
    """All subcommands, by their names."""
    for each in group.subcommands:
        if isinstance(each, ActionCommand):
            yield above + each.name, each
        else:
            yield from commands(each, f"{above}{each.name} ")


def call(name: str, *words: str) -> Answer:
    """Call a subcommand with these words."""
    parser = argparse.ArgumentParser()
    for argument in command(name).args:
        argument.add_to_parser(parser)
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            command(name).func(parser.parse_args(words))
        except SystemExit as left:
            # As the interpreter does it: a text is an error's last word.
            told: Any = left.code
            code = told if isinstance(told, int) else 1
            err.write("" if isinstance(told, int) else f"{told}\n")
    return Answer(code, out.getvalue(), err.getvalue())
