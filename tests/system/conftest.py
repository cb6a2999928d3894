# SPDX-License-Identifier: Apache-2.0
"""System tests that share an Airflow or a Spark session stay in one process; the others are spread over two."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group by what is shared: a folder here is one group, and so is a file."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group(item.path.relative_to(HERE).parts[0]))
