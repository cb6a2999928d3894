# SPDX-License-Identifier: Apache-2.0
"""Each verb is said once: the command line, the operators and the docs have it as the table says."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import shardbatch
from scripts import reference
from shardbatch.cli.arguments import OWN_COMMANDS
from shardbatch.control.verb import FORCE, Argument, Verb
from shardbatch.control.verbs import RESET, VERBS, names
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.errors import ConfigurationError
from shardbatch.kcl.verbs import IMPORT_KCL
from shardbatch.operators.actions import ActionOperator
from tests.unit.cli.caller import command

ALL = (*VERBS.values(), IMPORT_KCL)
EACH = pytest.mark.parametrize("verb", ALL, ids=lambda verb: verb.name)
#: What every verb takes on the command line.
COMMON = {"--app-name", "--stream-name", "--leases", "--reason", "--yes", "--output"}
SHORT = re.compile(r"-\w")
#: What an action is given, and not the use-case.
OF_ACTION = {"scope", "force"}
#: Arguments that the page tells of once for all verbs that have them.
TOLD_ONCE = {"--scope", "--root"}
#: Arguments that only one way in has, since Airflow's own operator has them.
OF_AIRFLOW = {"wait_for_completion", "poke_interval"}


@EACH
def test_every_verb_is_a_command_with_its_arguments(verb: Verb) -> None:
    flags = {flag for argument in command(verb.name).args for flag in argument.flags if not SHORT.fullmatch(flag)}
    more = ({"--staging"} if verb.staging else set()) | (
        {"--conn-id", "--region"} if verb.positions or verb.removes else set()
    )
    assert flags == COMMON | more | {argument.flag for argument in verb.arguments}
    assert command(verb.name).help == verb.help


def test_a_verb_without_an_operator_is_meant() -> None:
    assert [verb.name for verb in ALL if not verb.operator] == ["migrate", "import-kcl"]


def operator_of(verb: Verb) -> Any:
    assert verb.operator in shardbatch.__all__
    return getattr(shardbatch, verb.operator)


def taken(operator: Any) -> dict[str, inspect.Parameter]:
    """The arguments of an operator that are its own, those of its bases of ours among them."""
    found: dict[str, inspect.Parameter] = {}
    for kind in operator.__mro__:
        if kind is not ActionOperator and kind.__module__.startswith("shardbatch.") and "__init__" in vars(kind):
            found |= inspect.signature(kind.__init__).parameters
    common = {"self", "kwargs", *inspect.signature(ActionOperator.__init__).parameters}
    return {name: parameter for name, parameter in found.items() if name not in common | OF_AIRFLOW}


@pytest.mark.parametrize("verb", [verb for verb in ALL if verb.operator], ids=lambda verb: verb.name)
def test_its_operator_takes_the_same_arguments_each_typed_and_templated(verb: Verb) -> None:
    operator = operator_of(verb)
    if issubclass(operator, ActionOperator):
        assert operator.verb == verb.name
    parameters = taken(operator)
    assert set(parameters) == {argument.parameter for argument in verb.arguments}
    for argument in verb.arguments:
        parameter = parameters[argument.parameter]
        assert parameter.annotation is not parameter.empty
        assert (parameter.default is parameter.empty) == argument.required
        assert argument.parameter in operator.template_fields


@EACH
def test_its_use_case_takes_what_is_chosen(verb: Verb) -> None:
    if verb.name in OWN_COMMANDS:
        return
    assert verb.use_case is not None
    parameters = inspect.signature(verb.use_case()).parameters
    wanted = {"action"} | {argument.name for argument in verb.arguments} - OF_ACTION
    more = ({"place"} if verb.places else set()) | ({"registered"} if verb.removes else set())
    assert set(parameters) == wanted | more


@EACH
def test_the_docs_tell_of_it_and_of_its_arguments(verb: Verb) -> None:
    page = (reference.DOCS / "cli.md").read_text("utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith(f"| [`{verb.name}`](#")]
    assert verb.help in row
    assert ("unless forced" in row) == verb.asks
    (section,) = [part for part in page.split("\n## ")[1:] if verb.name in part.partition("\n")[0].split(", ")]
    for argument in verb.arguments:
        assert re.search(rf"{argument.flag}\b", page if argument.flag in TOLD_ONCE else section), argument.flag
    if verb.operator:
        assert f"| `{verb.operator}` | [`{verb.name}`](cli.md#" in (reference.DOCS / "operations.md").read_text("utf-8")


def test_the_table_is_read_without_any_use_case() -> None:
    """Every ``airflow`` command reads it."""
    program = (
        "import sys, shardbatch.control.verbs\n"
        "print(sorted(name for name in sys.modules if name.startswith('shardbatch.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = ["", ".position_verbs", ".remove_verb", ".verb", ".verbs"]
    assert done.stdout.strip() == str([f"shardbatch.control{name}" for name in loaded])


def test_only_verbs_that_ask_take_force() -> None:
    assert [verb.name for verb in ALL if verb.asks] == ["set-aside", "drop", "reset"]
    assert not [verb.name for verb in ALL if "force" in {each.name for each in verb.arguments} and not verb.asks]
    assert FORCE.switch


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["a", "b"], ["a", "b"]),
        (("a",), ["a"]),
        ("a, b,", ["a", "b"]),
        ("['a', 'b']", ["a", "b"]),
        ('["a","b"]', ["a", "b"]),
        ("", []),
        ("[]", []),
    ],
)
def test_shards_are_a_list_or_what_a_template_makes_of_one(given: Any, read: list[str]) -> None:
    assert names(given) == read


def chosen(verb: Verb, **given: Any) -> dict[str, Any]:
    return verb.chosen(lambda argument: given.get(argument.name, argument.default))


def test_what_was_chosen_is_read_as_the_use_case_takes_it() -> None:
    found = chosen(RESET, shards="a,b", to="TRIM_HORIZON", every=False, force=True)
    assert found == {"shards": ["a", "b"], "every": False, "to": TRIM_HORIZON, "stream_id": None, "force": True}
    assert chosen(RESET, shards=[], to=None)["to"] is None
    with pytest.raises(ConfigurationError, match="no time zone"):
        chosen(RESET, shards=[], to="2026-11-28T00:00:00")


def test_an_argument_has_a_name_for_each_way_in() -> None:
    argument = Argument("owner", "--lease-owner", "whose", field="held_by")
    assert (argument.name, argument.given_as, argument.parameter) == ("owner", "lease_owner", "held_by")
    assert Argument("root", "--root", "where").parameter == "root"


def test_a_new_verb_is_one_file_and_one_entry() -> None:
    """Nothing else of the package names the verbs of the table one by one."""
    root = Path(shardbatch.__file__).parent
    for part in ("cli", "tasks", "hooks"):
        for path in (root / part).glob("*.py"):
            found = re.findall(r"\b(unpark|accept_gap|adopt_root|sum_markers)\b", path.read_text("utf-8"))
            assert found == [], path
