# SPDX-License-Identifier: Apache-2.0
"""Examples are parsed with an Airflow that has no database, and the settings that they count on."""

from __future__ import annotations

import os
import tempfile

import pytest

os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="airflow-home-")
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__LEASES", "sql://leases_db")
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__STAGING", "/data/staging")
