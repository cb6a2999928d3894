# SPDX-License-Identifier: Apache-2.0
"""A word of an argument: the enum and its text are the same, and anything else is refused with all words."""

from __future__ import annotations

import copy
import json
import pickle
from enum import StrEnum

import pytest

from shardbatch.core.choices import Choice, chosen, flag_of
from shardbatch.errors import ConfigurationError


class Colour(Choice):
    RED = "red"
    GREEN = "green"


class Traffic(Choice):
    RED = "red"


class Theirs(StrEnum):
    RED = "red"


@pytest.mark.parametrize("given", ["red", Colour.RED, Theirs.RED])
def test_the_enum_and_its_text_are_taken(given: str) -> None:
    assert chosen(Colour, given, "Lamp(colour)") is Colour.RED


@pytest.mark.parametrize("given", ["blue", "RED", "Red", "", " red", None, True, 0, b"red", ["red"], Traffic.RED])
def test_anything_else_is_refused_with_all_words(given: object) -> None:
    with pytest.raises(ConfigurationError, match=r"^Lamp\(colour=x\) is not known\. Choose 'red' or 'green'\.$"):
        chosen(Colour, given, "Lamp(colour=x)")


def test_an_error_says_what_is_taken_beside_the_words() -> None:
    with pytest.raises(ConfigurationError, match=r"Choose 'red', 'green' or an RGB value\.$"):
        chosen(Colour, "blue", "Lamp(colour='blue')", other="an RGB value")


def test_a_word_is_written_as_its_text() -> None:
    text = "red"
    assert text == Colour.RED
    assert hash(Colour.RED) == hash(text)
    assert (str(Colour.RED), f"{Colour.RED}", f"{Colour.RED:>4}", repr(Colour.RED)) == (text, text, " red", "'red'")
    assert json.dumps({"colour": Colour.RED}) == '{"colour": "red"}'
    assert pickle.loads(pickle.dumps(Colour.RED)) is copy.deepcopy(Colour.RED) is Colour.RED


@pytest.mark.parametrize(
    ("given", "read"), [(True, True), (False, False), ("True", True), ("false", False), (" true\n", True)]
)
def test_a_switch_is_read_from_a_templates_text(given: bool | str, read: bool) -> None:
    assert flag_of("every", given) is read


@pytest.mark.parametrize("given", ["yes", "", "1", "None", None])
def test_a_text_that_is_no_switch_is_refused(given: str | None) -> None:
    with pytest.raises(ConfigurationError, match=r"every=.* is not known\. It is true or false"):
        flag_of("every", given)  # type: ignore[arg-type]
