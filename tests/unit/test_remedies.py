# SPDX-License-Identifier: Apache-2.0
"""What errors and answers tell people to do can be done."""

from __future__ import annotations

import re
from pathlib import Path

import shardbatch
from shardbatch.cli.arguments import GROUP

KNOWN = {command.name for command in GROUP.subcommands}


def texts() -> dict[str, str]:
    """Every module, comments and docstrings of functions included: simpler, and no harm."""
    root = Path(shardbatch.__file__).parent
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.py")}


def test_every_command_that_is_named_exists() -> None:
    named = {
        (path, verb) for path, text in texts().items() for verb in re.findall(r"airflow shardbatch ([a-z-]+)", text)
    }
    assert {verb for _, verb in named} <= KNOWN, sorted(named)
