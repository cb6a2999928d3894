# SPDX-License-Identifier: Apache-2.0
"""What users may write: the public names with their arguments and defaults, and arguments that take a few words."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from difflib import unified_diff
from enum import Enum
from typing import Any

import pytest

import shardbatch
from shardbatch.errors import ConfigurationError
from shardbatch.local import Fault, FaultKind
from tests.support.public_names import MODULES, TABLE, arguments, public, table

TASK = {
    "task_id": "positions",
    "app_name": "orders-etl",
    "stream": shardbatch.DynamoDBStream("orders"),
    "leases": shardbatch.SQLLeases("leases"),
}
#: What a class needs to be made, where it needs anything.
NEEDED: dict[str, dict[str, Any]] = {
    "KinesisStream": {"name": "orders"},
    "ShardClosedSensor": {
        "task_id": "wait",
        "shard_ids": ["s-1"],
        "app_name": "etl",
        "stream": shardbatch.KinesisStream("orders"),
        "leases": shardbatch.SQLLeases("leases_db"),
    },
    "DynamoDBStream": {"table": "orders"},
    "Fault": {"operation": "*"},
    "SparkSubmitBatchOperator": {
        "task_id": "work",
        "application": "job.py",
        **dict.fromkeys(("manifest_uri", "manifest_digest", "batch_id", "attempt"), "given"),
        "app_name": "etl",
        "stream": shardbatch.KinesisStream("orders"),
        "leases": shardbatch.SQLLeases("leases_db"),
        "staging": shardbatch.Staging("/staging"),
    },
    "ExportPositionsOperator": TASK,
    "ImportPositionsOperator": {**TASK, "reason": "moving", "positions": {}},
}
NAMES = {(module, name): value for module in MODULES for name, value in public(module).items()}
ENUMS = {name: value for (_, name), value in NAMES.items() if isinstance(value, type) and issubclass(value, Enum)}


def choices() -> list[Any]:
    """Every public argument that takes an enum: who takes it, its name, the enum."""
    found = []
    for (_, name), made in NAMES.items():
        plain = callable(made) and not (isinstance(made, type) and issubclass(made, (Enum, Exception)))
        for argument in arguments(made).values() if plain else ():
            for word in re.findall(r"\w+", str(argument.annotation)):
                if word in ENUMS:
                    found.append(pytest.param(made, argument.name, ENUMS[word], id=f"{name}-{argument.name}"))
    return found


def test_the_public_names_are_those_of_the_table() -> None:
    known, found = TABLE.read_text("utf-8"), table()
    changed = "\n".join(unified_diff(known.splitlines(), found.splitlines(), "the table", "the code", lineterm="", n=3))
    assert known == found, f"{changed}\nIf this is meant: python -m tests.support.public_names, and CHANGELOG.md."


def test_every_enum_of_an_argument_is_a_public_name() -> None:
    for (module, name), made in NAMES.items():
        for argument in arguments(made).values() if inspect.isclass(made) and not issubclass(made, Enum) else ():
            for word in re.findall(r"\w+", str(argument.annotation)):
                kind = getattr(inspect.getmodule(made), word, None)
                if inspect.isclass(kind) and issubclass(kind, Enum):
                    assert word in public(module), f"{name}({argument.name}) takes {word}"


@pytest.mark.parametrize(("made", "argument", "kind"), choices())
def test_an_argument_takes_an_enum_and_its_text(made: Callable[..., Any], argument: str, kind: type[Enum]) -> None:
    needed = NEEDED.get(made.__name__, {})
    for item in kind:
        by_enum, by_text = (made(**needed, **{argument: given}) for given in (item, item.value))
        assert getattr(by_enum, argument) is getattr(by_text, argument) is item
        assert (by_enum, repr(by_enum)) == (by_text, repr(by_text))


@pytest.mark.parametrize("nonsense", ["nonsense", "", None, 7, "upper"])
@pytest.mark.parametrize(("made", "argument", "kind"), choices())
def test_an_argument_refuses_nonsense_and_lists_its_words(
    made: Callable[..., Any], argument: str, kind: type[Enum], nonsense: object
) -> None:
    given = next(iter(kind)).value.swapcase() if nonsense == "upper" else nonsense
    # The local server has no part of the rest of shardbatch, so its errors are Python's own.
    refused = ValueError if made.__module__.startswith("shardbatch.local") else ConfigurationError
    with pytest.raises(refused, match=re.escape(repr(given))) as told:
        made(**NEEDED.get(made.__name__, {}), **{argument: given})
    assert all(item.value in str(told.value) for item in kind)


def test_the_arguments_that_take_words_are_found() -> None:
    found = {parameter.id for parameter in choices()}
    wanted = {"start", "deaggregate", "fan_out"}
    assert {f"KinesisStream-{name}" for name in wanted} | {"Policies-gap", "Outputs-intervals", "Fault-kind"} <= found
    assert {Fault("*", "cut").kind, Fault("*", FaultKind.CUT).kind} == {FaultKind.CUT}


def test_a_word_of_a_template_is_looked_at_when_it_is_rendered() -> None:
    stream = shardbatch.KinesisStream("orders", start="{{ s }}", deaggregate="{{ d }}", fan_out="{{ f }}")
    words = {"{{ s }}": "LATEST", "{{ d }}": "strict", "{{ f }}": "never"}
    done = stream.rendered(lambda text: words.get(text, text))
    assert (done.start, done.deaggregate, done.fan_out) == tuple(words.values())
    assert done.fan_out is shardbatch.FanOut.NEVER
    with pytest.raises(ConfigurationError, match=r"fan_out='perhaps'"):
        stream.rendered(lambda text: {**words, "{{ f }}": "perhaps"}.get(text, text))
