# SPDX-License-Identifier: Apache-2.0
"""Every page is found, every link leads somewhere, and what is written from the code is as the code is."""

from __future__ import annotations

import inspect
import re
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

import shardbatch
from scripts import reference
from shardbatch import errors
from tests.support.pages import DOCS, PAGES, ROOT, anchors, links


class Loader(yaml.SafeLoader):
    """Passes over the names of Python objects that stand in ``mkdocs.yml``."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/name:", lambda loader, suffix, node: suffix)


def site() -> dict[str, Any]:
    return yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), Loader)


def pages_of(nav: list[Any]) -> list[str]:
    found = []
    for entry in nav:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            found += [value] if isinstance(value, str) else pages_of(value)
    return found


def of_docs() -> set[str]:
    return {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


def test_the_navigation_has_every_page_once() -> None:
    found = pages_of(site()["nav"])
    assert sorted(found) == sorted(of_docs())


@pytest.mark.parametrize("start", [ROOT / "README.md", DOCS / "index.md"], ids=["README.md", "index.md"])
def test_an_index_leads_to_every_page(start: Path) -> None:
    led = {(start.parent / address.partition("#")[0]).resolve() for address in links(start)}
    wanted = {DOCS / name for name in of_docs() - {"index.md"}}
    if start.name == "README.md":  # which leads to the reference as a whole
        wanted = {page for page in wanted if page.parent == DOCS} | {DOCS / "index.md"}
    assert wanted - led == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_page_and_a_heading_that_exist(page: Path) -> None:
    wrong = []
    for address in links(page):
        if re.match(r"[a-z]+:", address):
            continue
        name, _, anchor = address.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(address)
        elif DOCS in page.parents and DOCS not in target.parents:
            wrong.append(f"{address}: the built pages do not have it")
    assert wrong == []


# ---------------------------------------------------------------------- written from the code


@pytest.mark.parametrize("page", reference.PARTS)
def test_what_is_written_from_the_code_is_current(page: str) -> None:
    text = (DOCS / page).read_text("utf-8")
    assert reference.written(page, text) == text, "run .venv/bin/python -m scripts.reference"


def test_every_error_leads_to_a_section() -> None:
    names = {
        name
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, errors.ShardbatchError) and kind is not errors.ShardbatchError
    }
    assert names == set(reference.SECTIONS) == {kind.__name__ for kind in reference.errors()}
    assert names <= {heading.removeprefix("## ") for heading in (DOCS / "errors.md").read_text("utf-8").splitlines()}


def test_the_reference_has_every_public_name() -> None:
    text = "\n".join(page.read_text("utf-8") for page in (DOCS / "reference").glob("*.md"))
    made = set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))
    from shardbatch import spark

    wanted = {f"shardbatch.{name}" for name in shardbatch.__all__ if name != "__version__"}
    wanted |= {f"shardbatch.spark.{name}" for name in spark.__all__}
    assert wanted - made == set()


def test_the_reference_names_nothing_that_is_gone() -> None:
    from importlib import import_module

    for page in (DOCS / "reference").glob("*.md"):
        for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.MULTILINE):
            module, _, last = name.rpartition(".")
            assert hasattr(import_module(module), last), f"{page.name}: {name}"


#: Arguments whose meaning is that of ``BaseOperator``, or of the steps as the docstring says.
UNTOLD = {"map_index_template", "app_name", "stream", "leases", "staging", "group_id"} | {
    *("manifest_uri", "manifest_digest", "batch_id", "attempt", "interval", "since", "until", "committed_since"),
    "batches",
}


def _arguments(kind: Any) -> list[str]:
    found = inspect.signature(kind).parameters.values()
    return [each.name for each in found if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]


@pytest.mark.parametrize("name", [name for name in shardbatch.__all__ if name != "__version__"])
def test_every_argument_of_a_public_name_is_told(name: str) -> None:
    """Those of its own; an operator also takes those of the operators that it is built on."""
    kind = getattr(shardbatch, name)
    if not inspect.isclass(kind) or not issubclass(kind, str):
        docs = inspect.getdoc(kind) or ""
        if inspect.isclass(kind):
            # A base without a page of its own cannot tell them.
            ours = [base for base in kind.__mro__ if base.__module__.startswith("shardbatch.")]
            ours = [base for base in ours if not base.__name__.startswith("_")]
            docs += "".join(inspect.getdoc(base) or "" for base in ours)
        told = set(chain.from_iterable(re.findall(r":param (\w+):|``(\w+)``", docs)))
        silent = [each for each in _arguments(kind) if each not in told and each not in UNTOLD]
        assert silent == []


#: Words in a log that a page tells to search for.
PHRASES = re.findall(r"^\| `([^`]+)` \| (?:claim|read) \|", (DOCS / "alerts.md").read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_warning_that_is_to_be_searched_for_is_one_of_ours(phrase: str) -> None:
    rooms = [ROOT / "provider" / "shardbatch" / name for name in ("run", "sources")]
    code = "".join(path.read_text("utf-8") for room in rooms for path in room.rglob("*.py"))
    assert phrase in re.sub(r'"\n\s*f?"', "", code)
