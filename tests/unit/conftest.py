# SPDX-License-Identifier: Apache-2.0
"""What unit tests of the Airflow side share: no database is made or asked."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes an Airflow connection for one test."""

    def make(conn_id: str, **fields: object) -> None:
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))

    return make
