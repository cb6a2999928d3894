# SPDX-License-Identifier: Apache-2.0
"""Which system tests stay together on one process, and in which order they are begun."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
#: Tests of a folder share the servers that its `conftest.py` starts, tests of a file those of the file: an Airflow or a
#: Spark is started once. The longest come first, so that two processes end together.
LONGEST = ("airflow", "test_demo.py", "test_dags.py", "spark", "test_spark_operator.py")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group(part(item)))
    items.sort(key=turn)


def part(item: pytest.Item) -> str:
    """The folder or the file here that a test belongs to."""
    return item.path.relative_to(HERE).parts[0]


def turn(item: pytest.Item) -> int:
    """Tests of other kinds keep their places, before the ones here."""
    if HERE not in item.path.parents:
        return -1
    return LONGEST.index(part(item)) if part(item) in LONGEST else len(LONGEST)
