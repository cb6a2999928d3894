# SPDX-License-Identifier: Apache-2.0
"""What unit tests of the Airflow side share: no database is made or asked."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator

import pytest

from tests.support.statsd import StatsD

os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triggers fire as soon as they know; no scheduler has to hear anything before."""
    monkeypatch.setattr("shardbatch.triggers.SETTLED_S", 0.0)


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes an Airflow connection for one test."""

    def make(conn_id: str, **fields: object) -> None:
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))

    return make


@pytest.fixture
def statsd(monkeypatch: pytest.MonkeyPatch) -> Iterator[StatsD]:
    """A server to which this process sends its metrics, as a task process does, by Airflow's own client."""
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics.stats_utils import get_stats_factory

    with StatsD() as listening, monkeypatch.context() as patch:
        for name, value in listening.settings.items():
            patch.setenv(name, value)
        stats.initialize(factory=get_stats_factory(), export_legacy_names=True)
        yield listening
    stats.initialize(factory=get_stats_factory(), export_legacy_names=True)
