# SPDX-License-Identifier: Apache-2.0
"""Which system tests stay together on one process, and in which order they are begun."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
#: Tests of a part share the servers that they need: an Airflow or a Spark is started once. A part is a folder, or a
#: file of this one. The longest come first, so that two processes end together.
LONGEST = (
    *("airflow", "airflow beside", "test_demo.py", "test_dags.py", "test_spark_connect.py", "page", "spark"),
    "test_spark_operator.py",
)
#: The tests on an Airflow take longer than all others together, so half of them have an Airflow of their own.
BESIDE = frozenset(
    f"test_{name}.py"
    for name in ("backfills", "claim_waits", "orders", "replays", "runs", "spark_alive", "traced", "waits", "wakes")
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=turn)


def turn(item: pytest.Item) -> int:
    """Tests of other kinds keep their places, before the ones here."""
    if HERE not in item.path.parents:
        return -1
    part = part_of(item.path)
    return LONGEST.index(part) if part in LONGEST else len(LONGEST)


def part_of(path: Path) -> str:
    """The part that a file here belongs to."""
    part = path.relative_to(HERE).parts[0]
    return f"{part} beside" if part == "airflow" and path.name in BESIDE else part


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile` a part here counts as a file, where all tests are system tests."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class LoadPart(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            path = config.rootpath / file
            return part_of(path) if HERE in path.parents else file

    return LoadPart(config, log)
