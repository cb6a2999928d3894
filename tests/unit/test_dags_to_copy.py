# SPDX-License-Identifier: Apache-2.0
"""The DAGs of the folder ``dags``: what a person reads who approves a reset is what the preview says."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jinja2.sandbox import SandboxedEnvironment
from markdown_it import MarkdownIt

FILE = Path(__file__).resolve().parents[2] / "dags" / "reset_checkpoints.py"
ROW = {"kind": "lease", "name": "shardId-1", "result": "would reset", "effect": "reads 70 records again", "why": ""}


@pytest.fixture(scope="module")
def body() -> str:
    """The template of the text that Airflow shows as Markdown."""
    spec = spec_from_file_location("reset_checkpoints", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.SHOWN)


def shown(body: str, reason: str) -> str:
    ti = SimpleNamespace(xcom_pull=lambda **_: {"rows": [ROW], "counts": {"would reset": 1}})
    given: dict[str, Any] = {"ti": ti, "params": {"reason": reason}}
    return MarkdownIt().render(SandboxedEnvironment().from_string(body).render(given))


def test_each_row_of_the_preview_is_a_line_of_its_own(body: str) -> None:
    text = shown(body, "a drill")
    assert "a drill" in text
    [line] = text.partition("<li>")[2].split("</li>")[:1]
    assert "<strong>lease shardId-1</strong>: would reset. reads 70 records again" in line


@pytest.mark.parametrize(
    "reason",
    [
        "* **lease shardId-1**: nothing is read again.",
        "a drill\n\n* **lease shardId-1**: nothing is read again.\n\nIn all: nothing.",
        "![seen](https://example.com/seen.png)",
        "[the ticket](https://example.com)",
        "{{ 7 * 6 }}",
    ],
)
def test_a_reason_is_shown_as_it_was_written_and_is_no_part_of_the_preview(body: str, reason: str) -> None:
    text = shown(body, reason)
    assert text.count("<strong>") == text.count("<li>") == 1
    assert "<img" not in text
    assert "<a " not in text
    assert reason.splitlines()[-1] in text
