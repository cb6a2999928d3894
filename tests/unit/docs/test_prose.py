# SPDX-License-Identifier: Apache-2.0
"""What people read is plain English: phrases that make a riddle are in no page and in no text or comment of the
provider, and the prose of pages stays within 120 columns."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages import PAGES, ROOT

#: What is not written, and what says the same plainly.
RIDDLES = {
    r"nobody|no one": "say who does it, or use the passive: 'unknown', 'is not read', 'has no owner'",
    r"what of it": "name the thing: 'the part of it that'",
    r"only who": "'only a reader that'",
    r"for ever": "'permanently', 'keeps running'",
    r"whoever": "name the actor: 'the task that'",
    r"of whom": "begin a new sentence",
    r"it is as it was": "'it has not changed'",
    r"somebody|anybody": "say who: 'another process', 'a person'",
    r"(?:is|are) none of": "'is not one of', 'does not belong to'",
    r"(?<!there )(?:is|are|was|were) no (?!longer|other|more than|less than)(?=\w)": "'is not a'",
}
PATTERN = re.compile(rf"\b(?:{'|'.join(RIDDLES)})\b", re.IGNORECASE)
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
WIDTH = 120


def prose(page: Path) -> str:
    """A page with its code blocks blanked, line by line."""
    return FENCE.sub(lambda block: "\n" * block[0].count("\n"), page.read_text("utf-8"))


def riddles(text: str) -> list[str]:
    text = " ".join(text.split())
    return [text[max(0, found.start() - 40) : found.end() + 20] for found in PATTERN.finditer(text)]


def texts(module: Path) -> Iterator[tuple[int, str]]:
    """The docstrings and other strings of a module, those that stand side by side as one; and its comments, those on
    lines that follow each other as one."""
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    yield from comments(module)


def comments(module: Path) -> Iterator[tuple[int, str]]:
    begun, last, words = 0, 0, list[str]()
    with module.open("rb") as lines:
        found = [token for token in tokenize.tokenize(lines.readline) if token.type == tokenize.COMMENT]
    for token in found:
        line = token.start[0]
        if words and line != last + 1:
            yield begun, " ".join(words)
            words = []
        begun = begun if words else line
        last = line
        words.append(token.string.lstrip("#: "))
    if words:
        yield begun, " ".join(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_no_riddles(page: Path) -> None:
    assert riddles(prose(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_prose_of_a_page_is_within_its_columns(page: Path) -> None:
    lines = enumerate(prose(page).splitlines(), 1)
    assert [number for number, line in lines if len(line) > WIDTH and not line.startswith("|")] == []


def test_the_texts_of_the_provider_have_no_riddles() -> None:
    found = []
    for module in sorted((ROOT / "provider" / "shardbatch").rglob("*.py")):
        name = module.relative_to(ROOT / "provider" / "shardbatch")
        found += [f"{name}:{line}: {riddle}" for line, text in texts(module) for riddle in riddles(text)]
    assert found == []


def test_comments_are_read_as_they_run_on(tmp_path: Path) -> None:
    module = tmp_path / "m.py"
    module.write_text("#: A riddle for\n#: ever.\nA = 1  # nobody\n\n# else\n", "utf-8")
    assert list(comments(module)) == [(1, "A riddle for ever. nobody"), (5, "else")]
    assert len(riddles(next(comments(module))[1])) == 2


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("of a row nobody\n    knows its age", True),
        ("Whoever reads it", True),
        ("a number that is no number", True),
        ("there is no such batch", False),
        ("the file is no longer there", False),
        ("it has not changed", False),
    ],
)
def test_what_is_a_riddle(text: str, is_one: bool) -> None:
    assert bool(riddles(text)) is is_one
