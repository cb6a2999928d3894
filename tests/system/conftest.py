# SPDX-License-Identifier: Apache-2.0
"""Which system tests stay together on one process, and in which order they are begun."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
#: Tests of a folder share the servers that its `conftest.py` starts, tests of a file those of the file: an Airflow or a
#: Spark is started once. The longest come first, so that two processes end together.
LONGEST = ("airflow", "test_demo.py", "test_dags.py", "spark", "test_spark_operator.py")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=turn)


def turn(item: pytest.Item) -> int:
    """Tests of other kinds keep their places, before the ones here."""
    if HERE not in item.path.parents:
        return -1
    part = item.path.relative_to(HERE).parts[0]
    return LONGEST.index(part) if part in LONGEST else len(LONGEST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile` a folder here counts as a file, where all tests are system tests."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class LoadPart(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            path = config.rootpath / file
            return path.relative_to(HERE).parts[0] if HERE in path.parents else file

    return LoadPart(config, log)
