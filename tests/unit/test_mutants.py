# SPDX-License-Identifier: Apache-2.0
"""The list of mutants, and what its runner makes of a line that is not where it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.mutant import Mutant, StaleMutant, listed
from tests.mutants.stages import stages_of

ROOT = Path(__file__).resolve().parents[2]
MUTANT = Mutant("m", "core/a.py", "return a < b", "return a <= b", "all of it", ("unit",))


def test_one_line_is_changed_and_its_indentation_kept() -> None:
    text = "def less(a, b):\n    return a < b\n\n\ndef more(a, b):\n    return a < b or b < a\n"
    assert MUTANT.applied(text) == text.replace("    return a < b\n", "    return a <= b\n")


@pytest.mark.parametrize("text", ["", "return a > b\n", "return a < b\nif c:\n    return a < b\n"])
def test_a_line_that_does_not_stand_there_once_makes_its_mutant_stale(text: str) -> None:
    with pytest.raises(StaleMutant, match="stale mutant m"):
        MUTANT.applied(text)


def test_every_mutant_says_what_it_breaks_and_has_tests_that_are_there() -> None:
    mutants = listed(ROOT / "tests" / "mutants")
    assert len(mutants) >= 36
    for mutant in mutants:
        assert mutant.breaks.endswith("."), mutant.name
        for stage in stages_of(mutant, ROOT):
            for path in stage.paths:
                assert (ROOT / path).exists(), f"{mutant.name}: {path}"


@pytest.mark.parametrize("mutant", listed(ROOT / "tests" / "mutants"), ids=lambda mutant: mutant.name)
def test_the_line_of_every_mutant_stands_in_the_sources_once(mutant: Mutant) -> None:
    text = (ROOT / mutant.path).read_text("utf-8")
    assert mutant.applied(text) != text
