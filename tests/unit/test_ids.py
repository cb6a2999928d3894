# SPDX-License-Identifier: Apache-2.0
"""Every id that code, docs and tests cite has a text, and one only.

What is an id:

- A *rule* of docs/protocol.md: the letter of one of its sections and a number without a leading zero, as L5, and
  sometimes a small letter, as D2f.
- A *case* of tests/cases.md: letters of ``SYSTEMS``, a hyphen and a number, as K-10; or R or P and two or three digits,
  as R07.

All else is a word that looks like one: S3, E731, P0001, UTF-8. An id stands alone, between blanks or punctuation.
Where it is defined it stands bold at the beginning of a list item.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROTOCOL = ROOT / "docs" / "protocol.md"
CASES = ROOT / "tests" / "cases.md"
#: What is looked through, and the files that count there.
PLACES = ("provider", "plugins", "dags", "docs", "tests", "scripts", "benchmarks", "README.md", "CONTRIBUTING.md")
KINDS = {".md", ".py", ".toml"}

#: The sections of the protocol that have rules.
SECTIONS = "ABCDEFGHILNOTVWX"
#: The systems whose cases are cited, each with the prefix of its vectors; TR are traps.
SYSTEMS = "K|KV|B|BV|R|RV|M|MV|V|VV|TR"

ALONE = r"(?<![\w.+=\\-])(?:{})(?![\w+=-]|\.\d)"
RULE = re.compile(ALONE.format(rf"[{SECTIONS}][1-9]\d?[a-z]?"))
CASE = re.compile(ALONE.format(rf"(?:{SYSTEMS})-\d+|[RP]\d{{2,3}}[a-z]?"))
#: ``PROTOCOL`` with what follows it may name whole sections.
LIST = re.compile(r"\bPROTOCOL ((?:[A-Z]\d*[a-z]?(?![\w-])(?:, )?)+)")
DEFINED = re.compile(r"^ *[*-] \*\*([A-Z]+-?\d+[a-z]?)\b", re.MULTILINE)
SECTION = re.compile(r"^## ([A-Z])\. ", re.MULTILINE)


def defined(page: Path) -> list[str]:
    """The ids that a page defines, in its order."""
    return DEFINED.findall(page.read_text("utf-8"))


def sections() -> list[str]:
    """The letters of the protocol's sections."""
    return SECTION.findall(PROTOCOL.read_text("utf-8"))


def rules_in(text: str) -> set[str]:
    """The rules that a text cites, and the sections that it names behind ``PROTOCOL``."""
    named = {word for found in LIST.findall(text) for word in found.rstrip(", ").split(", ")}
    return set(RULE.findall(text)) | {word for word in named if word}


def cases_in(text: str) -> set[str]:
    """The cases that a text cites."""
    return set(CASE.findall(text))


def files() -> Iterator[Path]:
    for place in PLACES:
        top = ROOT / place
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.suffix in KINDS and path not in (CASES, Path(__file__).resolve()):
                yield path


TEXTS = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in files()}


def without_text(cited: dict[str, set[str]], known: set[str]) -> list[str]:
    return [f"{place}: {name}" for place, names in cited.items() for name in sorted(names - known)]


def test_every_rule_that_is_cited_stands_in_the_protocol() -> None:
    cited = {place: rules_in(text) for place, text in TEXTS.items()}
    assert without_text(cited, {*defined(PROTOCOL), *sections()}) == []


def test_every_case_that_is_cited_stands_among_the_cases() -> None:
    cited = {place: cases_in(text) for place, text in TEXTS.items()}
    assert without_text(cited, set(defined(CASES))) == []


def test_every_case_is_cited() -> None:
    cited = set().union(*map(cases_in, TEXTS.values()))
    assert [name for name in defined(CASES) if name not in cited] == []


@pytest.mark.parametrize("page", [PROTOCOL, CASES], ids=lambda page: page.name)
def test_no_id_is_defined_twice(page: Path) -> None:
    assert [name for name, times in Counter(defined(page)).items() if times > 1] == []


def test_what_a_page_defines_is_an_id() -> None:
    """Else a citation of it would not be seen."""
    assert [name for name in defined(PROTOCOL) if not RULE.fullmatch(name)] == []
    assert [name for name in defined(CASES) if not CASE.fullmatch(name)] == []


def test_the_sections_are_those_of_the_protocol() -> None:
    assert sorted(sections()) == sorted(SECTIONS)


@pytest.mark.parametrize(
    ("text", "rules", "cases"),
    [
        ("# L77, K-999", {"L77"}, {"K-999"}),
        ("(PROTOCOL D2f, B1)", {"D2f", "B1"}, set()),
        ("(PROTOCOL D6, E, X). A claim", {"D6", "E", "X"}, set()),
        ("PROTOCOL B8's, L3/L9: V12.", {"B8", "L3", "L9", "V12"}, set()),
        ("**K-10** KV-4; R07, R100 and P28", set(), {"K-10", "KV-4", "R07", "R100", "P28"}),
        ("S3 E731 B018 P0001 PAR1 UTF-8 SHA-256 AWS4 CRC-32 T0 H0 L05 V1.2 K10 P1 R7", set(), set()),
        ("x-L1 L1-x B1.5 _B1 B1_ aK-1 V-128-bit D3+ =B1", set(), set()),
    ],
)
def test_what_is_an_id(text: str, rules: set[str], cases: set[str]) -> None:
    assert rules_in(text) == rules
    assert cases_in(text) == cases
