# SPDX-License-Identifier: Apache-2.0
"""The real ``airflow shardbatch`` asks Airflow's real metadata database whether an owner is at work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.owner import Owner
from shardbatch.core.rows import BATCH, TABLES, Key
from shardbatch.stores.sql import SQLStore
from tests.support.metadata import Metadata
from tests.unit.cli.rows import NAMESPACE, OWNER, filled, frozen_batch

pytestmark = [pytest.mark.slow, pytest.mark.airflow]

Call = Callable[..., "subprocess.CompletedProcess[str]"]
WHERE = ("--app-name", "orders-etl", "--stream-name", "orders", "--output", "json")
ACT = ("--yes", "--reason", "ticket 7")
#: The batch ``b2`` has the first of these runs.
AT_WORK, ENDED = "scheduled__2026-11-28T00:00:00+00:00", "scheduled__2026-11-27T00:00:00+00:00"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An Airflow whose database knows one run that is at work and one that has ended."""
    folder = tmp_path_factory.mktemp("owners")
    done = call(folder, "db", "migrate")
    assert done.returncode == 0, done.stderr
    metadata = Metadata(folder)
    metadata.run("orders", AT_WORK, "running")
    metadata.task("orders", AT_WORK, "orders.work", "running")
    metadata.task("orders", AT_WORK, "done.commit", "success")
    metadata.run("orders", ENDED, "failed")
    metadata.engine.dispose()
    return folder


def call(home: Path, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """The program itself, in a process of its own."""
    program = Path(sys.executable).with_name("airflow")
    env = {
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__SHARDBATCH__DEPLOYMENT_ID": "prod",
        "AIRFLOW__SHARDBATCH__LEASES": "sql://leases_db",
        "AIRFLOW_CONN_LEASES_DB": json.dumps({"conn_type": "sqlite", "host": str(home / "leases.db")}),
        **changes,
    }
    return subprocess.run([program, *words], env=env, capture_output=True, text=True, timeout=300)


@pytest.fixture
def airflow(home: Path) -> Call:
    def run(verb: str, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
        return call(home, "shardbatch", verb, *WHERE, *words, **changes)

    return run


@pytest.fixture
def store(home: Path) -> Iterator[SQLStore]:
    """Batches of the run that is at work, of one that has ended, and of a group that has ended in the former."""
    (home / "leases.db").unlink(missing_ok=True)
    store = SQLStore(f"sqlite:///{home}/leases.db")
    store.prepare()
    memory = filled()
    for table in TABLES:
        for row in memory.list(table, NAMESPACE):
            assert store.create(row)
    assert store.create(frozen_batch("b3", str(Owner("prod", "orders", ENDED, "orders"))))
    assert store.create(frozen_batch("b4", str(Owner("prod", "orders", AT_WORK, "done"))))
    yield store
    store.close()


def state(store: SQLStore, batch_id: str) -> BatchState:
    row = store.get(Key(BATCH, NAMESPACE, ("", batch_id)))
    assert isinstance(row, Batch)
    return row.state


def rows(done: subprocess.CompletedProcess[str]) -> list[Any]:
    assert done.stdout, done.stderr
    return list(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("verb", "past", "after"), [("set-aside", "set aside", BatchState.COMMITTED), ("drop", "dropped", BatchState.VOID)]
)
def test_a_batch_of_a_run_at_work_is_left_and_goes_by_force(
    airflow: Call, store: SQLStore, verb: str, past: str, after: BatchState
) -> None:
    left = airflow(verb, "--batch", "b2", *ACT)
    assert left.returncode == 3
    (row,) = rows(left)
    assert (row["result"], row["owner"]) == ("left", OWNER)
    assert "at work" in row["why"]
    assert "--force" in row["why"]
    assert state(store, "b2") is BatchState.FROZEN
    (row,) = rows(airflow(verb, "--batch", "b2", "--force", *ACT))
    assert row["result"] == past
    assert "BY FORCE: its owner is at work" in row["effect"]
    assert state(store, "b2") is after
    seen = store.get(Key(BATCH, NAMESPACE, ("", "b2")))
    assert isinstance(seen, Batch)
    assert f"{past} by force: ticket 7" in (seen.note or "")


def test_what_an_ended_run_or_group_left_goes_without_force(airflow: Call, store: SQLStore) -> None:
    for verb, batch_id, past in (("set-aside", "b3", "set aside"), ("drop", "b4", "dropped")):
        done = airflow(verb, "--batch", batch_id, *ACT)
        assert [row["result"] for row in rows(done)] == [past], done.stderr
        assert state(store, batch_id) is not BatchState.FROZEN


def test_a_database_that_cannot_be_asked_leaves_the_batch(airflow: Call, store: SQLStore, tmp_path: Path) -> None:
    elsewhere = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/none.db"}
    left = airflow("drop", "--batch", "b3", *ACT, **elsewhere)
    assert left.returncode == 3
    (row,) = rows(left)
    assert row["result"] == "left"
    assert row["why"].startswith("OwnerUnknown: ")
    assert "no such table" in row["why"]
    assert "--force" in row["why"]
    assert state(store, "b3") is BatchState.FROZEN
    assert [row["result"] for row in rows(airflow("drop", "--batch", "b3", "--force", *ACT, **elsewhere))] == [
        "dropped"
    ]
