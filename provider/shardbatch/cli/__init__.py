# SPDX-License-Identifier: Apache-2.0
"""``airflow shardbatch``: shows the state of applications, and changes what is stuck."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.cli.cli_config import GroupCommand


def get_cli_commands() -> list[GroupCommand]:
    """What Airflow adds to its command line; every ``airflow`` command asks for it."""
    from shardbatch.cli.arguments import GROUP

    return [GROUP]
