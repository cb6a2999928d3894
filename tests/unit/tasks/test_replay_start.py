# SPDX-License-Identifier: Apache-2.0
"""The run that replays a batch, started by Airflow in this process, for a person who is named with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.models import DagRun
from airflow.sdk import DAG
from sqlalchemy import select

from shardbatch import SQLLeases
from shardbatch.core.rows import APPLICATION, Key
from shardbatch.errors import ConfigurationError
from shardbatch.stores.memory import MemoryStore
from shardbatch.tasks.replay_start import replay
from tests.support.acted_page import database
from tests.support.metadata import Metadata
from tests.unit.cli.rows import NAMESPACE, filled


@pytest.fixture
def metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Metadata:
    """Airflow's database, with the DAG of the batch."""
    database(tmp_path, [DAG("orders", schedule=None)])
    found = Metadata(tmp_path)
    monkeypatch.setattr("airflow.settings.Session", found.session)
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__DEPLOYMENT_ID", "prod")
    return found


def asked(store: MemoryStore, **more: Any) -> Any:
    given = {"batch_id": "b1", "actor": "ann", "reason": "its job was wrong", "preview": False}
    return replay(store, NAMESPACE, SQLLeases("leases"), **{**given, **more})


def test_it_is_noted_and_started_for_the_person_by_the_way_that_they_took(metadata: Metadata) -> None:
    store = filled()
    preview = asked(store, preview=True)
    by_page, by_command = asked(store, page=True, run_id="r1"), asked(store, run_id="r2")
    assert (preview.result, by_page.result, by_command.result) == ("would start", "started", "started")
    with metadata.session() as session:
        runs = {run.run_id: run for run in session.scalars(select(DagRun))}
    assert {name: run.triggered_by.value for name, run in runs.items()} == {
        by_page.run_id: "ui",
        by_command.run_id: "cli",
    }
    assert {run.triggering_user_name for run in runs.values()} == {"ann"}
    application: Any = store.get(Key(APPLICATION, NAMESPACE, ()))
    assert "ann replayed batch b1" in application.last_action


def test_what_airflow_refuses_is_told_in_its_words(metadata: Metadata) -> None:
    with pytest.raises(ConfigurationError, match=r"did not start a run of DAG 'gone': .*gone"):
        asked(filled(), dag_id="gone")
