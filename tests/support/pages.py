# SPDX-License-Identifier: Apache-2.0
"""The pages of the docs, taken apart: blocks of code, headings, links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
#: All that a reader may come to.
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")),
    *sorted(DOCS.rglob("*.md")),
]

_BLOCK = re.compile(
    r"^(?P<indent>[ \t]*)```(?P<kind>\w*)\n(?P<text>.*?)^(?P=indent)```[ \t]*$", re.DOTALL | re.MULTILINE
)
_CODE = re.compile(r"``.+?``|`[^`]+`", re.DOTALL)
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<address>[^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block; ``kind`` is its language, empty if it has none. ``line`` is that of its fence."""

    page: Path
    line: int
    kind: str
    text: str

    @property
    def name(self) -> str:
        """Where it stands, for a test's id."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path, *kinds: str, until: str = "") -> list[Block]:
    """The blocks of a page in their order.

    :param kinds: of these languages; default: of all.
    :param until: only those before this heading.
    """
    text = page.read_text("utf-8")
    if until:
        assert f"\n{until}\n" in text, f"{page.name} has no heading {until!r}"
        text = text.partition(f"\n{until}\n")[0]
    found = []
    for match in _BLOCK.finditer(text):
        lines = [line.removeprefix(match["indent"]) for line in match["text"].splitlines()]
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(page, line, match["kind"], "\n".join(lines) + "\n"))
    return [block for block in found if not kinds or block.kind in kinds]


def parsed(block: Block, text: str = "") -> list[Any]:
    """The DAGs that a block makes, as an Airflow that reads the file has them.

    :param text: its code with what a test has changed; default: as it stands.
    """
    from airflow.sdk import DAG

    space: dict[str, Any] = {"__name__": "a_dag_file", "__file__": f"/dags/{block.page.stem}.py"}
    made: list[Any] = []
    entered = DAG.__enter__

    def enter(self: Any) -> Any:
        made.append(self)
        return entered(self)

    with mock.patch.object(DAG, "__enter__", enter):
        exec(compile(text or block.text, block.name, "exec"), space)
    return made


def prose(page: Path) -> str:
    """A page without its blocks."""
    return _BLOCK.sub("", page.read_text("utf-8"))


def links(page: Path) -> list[str]:
    """The addresses that a page leads to, in its prose."""
    return [match["address"] for match in _LINK.finditer(_CODE.sub("", prose(page)))]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} (.+)$", prose(page), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        number, name = 0, slug
        while name in found:
            number += 1
            name = f"{slug}-{number}"
        found.add(name)
    return found
