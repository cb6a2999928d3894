# SPDX-License-Identifier: Apache-2.0
"""How a command answers: a table for people, or numbers that stay numbers for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from airflow.cli.simple_table import AirflowConsole

from shardbatch.cli.tables import Table
from shardbatch.control.status import ShardStatus, Status


def show_rows(output: str, found: Sequence[Any], table: Table) -> None:
    """What was found, row by row: whole for machines, as a table for people."""
    if output in ("json", "yaml"):
        write(output, [asdict(item) for item in found])
    else:
        show(output, table)


def with_loss(found: Status | ShardStatus, now_ms: int) -> dict[str, Any]:
    """With the time until unread records may expire, by this machine's clock."""
    left = None if found.expires_from_ms is None else found.expires_from_ms - now_ms
    return {**asdict(found), "ms_until_loss": left}


def write(output: str, value: Any) -> None:
    """Numbers stay numbers, unlike in Airflow's own tables as JSON."""
    if output == "json":
        sys.stdout.write(json.dumps(value, indent=2) + "\n")
    else:
        from airflow.utils import yaml

        sys.stdout.write(yaml.dump(json.loads(json.dumps(value)), sort_keys=False))


def show(output: str, table: Table) -> None:
    """A table for people. What stands in brackets or between colons is a person's text, and no markup or emoji."""
    AirflowConsole(markup=False, emoji=False).print_as(data=table, output=output)
