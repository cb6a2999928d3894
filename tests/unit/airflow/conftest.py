# SPDX-License-Identifier: Apache-2.0
"""Airflow is imported when a test module is, so its home has to be set before: no database is made or asked here."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable

import pytest

os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="airflow-home-")
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes an Airflow connection for one test."""

    def make(conn_id: str, **fields: object) -> None:
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))

    return make
