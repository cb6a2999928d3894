# SPDX-License-Identifier: Apache-2.0
"""A shell completes our commands as it completes Airflow's: by the program's own parser."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import pytest
from airflow.cli.cli_config import ActionCommand
from airflow.cli.cli_parser import get_parser
from argcomplete.finders import CompletionFinder

from tests.unit.cli.caller import commands

Offered = Callable[[str], set[str]]
WHERE = "-a orders-etl -s orders"


class Ended(Exception):
    """The program ends once it has said what fits."""


class Finder(CompletionFinder):
    """Takes no descriptor of this process: the one that a shell gives for debugging may be one of pytest's."""

    def _init_debug_stream(self) -> None:
        """What is not set goes to standard error."""


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Iterator[Offered]:
    """What a shell offers behind these words."""

    def complete(line: str) -> set[str]:
        get_parser.cache_clear()  # a completion leaves its marks on the parser
        monkeypatch.setenv("_ARGCOMPLETE", "1")
        monkeypatch.setenv("_ARGCOMPLETE_IFS", "\n")
        monkeypatch.setenv("COMP_LINE", line)
        monkeypatch.setenv("COMP_POINT", str(len(line)))

        def end(code: int) -> None:
            raise Ended

        said = io.StringIO()
        said.close = lambda: None  # type: ignore[method-assign]
        with pytest.raises(Ended):
            Finder()(get_parser(), exit_method=end, output_stream=said)
        return {word.strip() for word in said.getvalue().split("\n")}

    yield complete
    get_parser.cache_clear()


def test_the_commands_are_offered(offered: Offered) -> None:
    found = {name.split()[0] for name, _ in commands()}
    assert found <= offered("airflow shardbatch ")
    assert {"positions"} == offered("airflow shardbatch pos")
    assert {"import", "export"} <= offered("airflow shardbatch positions ")


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=lambda item: item if isinstance(item, str) else "")
def test_the_arguments_of_each_are_offered(offered: Offered, name: str, command: ActionCommand) -> None:
    flags = {flag for argument in command.args for flag in argument.flags if flag.startswith("--")}
    assert flags <= offered(f"airflow shardbatch {name} --")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"shards {WHERE} --state ", {"free", "held", "landed", "frozen", "completed"}),
        (f"shards {WHERE} --sort b", {"behind"}),
        (f"status {WHERE} --output ", {"table", "json", "yaml", "plain"}),
        (f"positions export {WHERE} --format ", {"json", "bloop"}),
        (f"positions import {WHERE} --start T", {"TRIM_HORIZON"}),
        (f"reset {WHERE} --all --to T", {"TRIM_HORIZON"}),
    ],
)
def test_words_that_fit_are_offered(offered: Offered, line: str, words: set[str]) -> None:
    assert words <= offered(f"airflow shardbatch {line}")
