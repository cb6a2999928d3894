# SPDX-License-Identifier: Apache-2.0
"""The page over the rows of the command line's tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from airflow.sdk import DAG, task

from shardbatch import KinesisStream, SQLLeases, Staging, StreamBatch
from shardbatch.core.rows import TABLES
from shardbatch.stores.sql import SQLStore
from tests.support.acted_page import Page, database
from tests.unit.cli.rows import NAMESPACE, filled

LEASES = SQLLeases("leases_page")


@pytest.fixture(scope="session")
def airflows_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of an Airflow with the DAG of that application, to be copied: it takes a moment to make."""
    folder = tmp_path_factory.mktemp("airflow")
    (folder / "staging").mkdir()
    with (
        DAG("orders", schedule=None) as dag,
        StreamBatch(
            "orders",
            app_name="orders-etl",
            stream=KinesisStream("orders"),
            leases=LEASES,
            staging=Staging(str(folder / "staging")),
        ) as batch,
    ):
        task(lambda uri: None, task_id="work")(batch.manifest_uri)
    database(folder, [dag], ["other"])
    return folder / "airflow.db"


@pytest.fixture
def acted_store(tmp_path: Path, connection: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Iterator[SQLStore]:
    """A lease store of this deployment with the rows of one application."""
    connection("leases_page", conn_type="sqlite", host=str(tmp_path / "leases.db"))
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__DEPLOYMENT_ID", "prod")
    made = SQLStore(f"sqlite:///{tmp_path}/leases.db")
    made.prepare()
    memory = filled()
    for table in TABLES:
        for row in memory.list(table, NAMESPACE):
            assert made.create(row)
    yield made
    made.close()


@pytest.fixture
def acted_page(
    tmp_path: Path, airflows_database: Path, acted_store: SQLStore, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Page]:
    """The page, and its users.

    ann may edit the DAG and start its runs, vic may only read it, oscar may read and edit another, root is an admin.
    """
    shutil.copy(airflows_database, tmp_path)
    page = Page(tmp_path, monkeypatch)
    page.rights.reads = {"ann": {"orders"}, "vic": {"orders"}, "oscar": {"other"}}
    page.rights.edits = {"ann": {"orders"}, "oscar": {"other"}}
    page.rights.starts = {"ann": {"orders"}}
    page.rights.admins = {"root"}
    yield page
    page.close()
