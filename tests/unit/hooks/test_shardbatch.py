# SPDX-License-Identifier: Apache-2.0
"""ShardbatchHook: the same values as the use-cases of the command line, from a store that it opens and closes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, task
from airflow.sdk.definitions.context import Context
from airflow.sdk.execution_time.context import set_current_context

from shardbatch import KinesisStream, Policies, ShardbatchHook, SQLLeases, Staging, StreamBatch
from shardbatch.control.status import batches, committed_up_to, shards, status
from shardbatch.core.rows import TABLES
from shardbatch.errors import ApplicationUnknown, ConfigurationError, StoreNotFound
from shardbatch.stores.sql import SQLStore
from tests.unit.cli.rows import NAMESPACE, filled, of_interval

KEPT = SQLLeases("leases_db")
NAMED: dict[str, Any] = {"app_name": "orders-etl", "stream": "orders"}


@pytest.fixture
def store(tmp_path: Path, connection: Callable[..., None]) -> SQLStore:
    """A store with an application, and the connection ``leases_db`` to it."""
    connection("leases_db", conn_type="sqlite", host=str(tmp_path / "leases.db"))
    made = SQLStore(f"sqlite:///{tmp_path}/leases.db")
    made.prepare()
    for table in TABLES:
        for row in filled().list(table, NAMESPACE):
            assert made.create(row)
    assert made.create(of_interval("b9", "/lake"))
    return made


def group(app_name: str = "orders-etl", stream: str = "orders", leases: str = "leases_db", **more: Any) -> StreamBatch:
    policies = Policies(sink="own")
    staging = Staging("/staging")
    with (
        DAG("d", schedule=None, **more),
        StreamBatch(
            "batch",
            app_name=app_name,
            stream=KinesisStream(stream),
            leases=SQLLeases(leases),
            staging=staging,
            policies=policies,
        ) as made,
    ):
        pass
    return made


@pytest.mark.parametrize(
    "hook",
    [
        lambda: ShardbatchHook(**NAMED, leases=KEPT),
        lambda: ShardbatchHook(**NAMED, leases="sql://leases_db"),
        lambda: ShardbatchHook(app_name="orders-etl", stream=KinesisStream("orders"), leases=KEPT),
        lambda: ShardbatchHook(batch=group()),
    ],
)
def test_it_has_the_values_of_the_use_cases(store: SQLStore, hook: Callable[[], ShardbatchHook]) -> None:
    made = hook()
    found = made.status()
    assert found == status(store, NAMESPACE)
    assert (found.open_shards, found.millis_behind_latest, found.intervals.committed_batches) == (4, 70_000, 1)
    assert made.shards() == shards(store, NAMESPACE)
    assert [shard.state for shard in made.shards()] == ["completed", "free", "frozen", "held", "landed"]
    assert made.batches() == batches(store, NAMESPACE)
    assert [batch.batch_id for batch in made.batches(limit=2)] == ["b9", "b2"]
    assert made.watermark() == committed_up_to(store, NAMESPACE)


def test_the_store_of_the_deployment_is_the_default(store: SQLStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SHARDBATCH__LEASES", "sql://leases_db")
    assert ShardbatchHook(**NAMED).status().stream_id == "arn:orders:1"


@pytest.mark.parametrize("method", ["status", "shards", "batches"])
@pytest.mark.parametrize("app_name", ["orders-etl", "orders-elt"])
def test_it_closes_what_it_opened_also_after_an_error(
    store: SQLStore, monkeypatch: pytest.MonkeyPatch, method: str, app_name: str
) -> None:
    made, closed = [], []
    prepare, close = SQLStore.prepare, SQLStore.close
    monkeypatch.setattr(SQLStore, "prepare", lambda self: made.append(self) or prepare(self))
    monkeypatch.setattr(SQLStore, "close", lambda self: closed.append(self) or close(self))
    hook = ShardbatchHook(app_name=app_name, stream="orders", leases=KEPT)
    if app_name == "orders-etl":
        getattr(hook, method)()
    else:
        with pytest.raises(ApplicationUnknown, match=r"orders-elt/orders .* -a 'orders-etl' -s 'orders'"):
            getattr(hook, method)()
    assert made == closed
    assert len(made) == 1


def test_to_look_makes_no_table(tmp_path: Path, connection: Callable[..., None]) -> None:
    connection("leases_db", conn_type="sqlite", host=str(tmp_path / "none.db"))
    with pytest.raises(StoreNotFound):
        ShardbatchHook(**NAMED, leases=KEPT).status()
    with closing(sqlite3.connect(tmp_path / "none.db")) as found:
        assert found.execute("SELECT name FROM sqlite_master").fetchall() == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "does not say which application"),
        ({"app_name": "orders-etl"}, "does not say which application"),
        ({"stream": "orders"}, "does not say which application"),
        ({**NAMED, "leases": "leases_db"}, r"ShardbatchHook\(leases\) = 'leases_db' cannot be read. Write sql://"),
        (NAMED, "No leases given"),
    ],
)
def test_what_is_wrong_shows_before_the_store_is_opened(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        ShardbatchHook(**given)


@pytest.mark.parametrize("more", [{"app_name": "other"}, {"stream": "other"}, {"leases": KEPT}])
def test_a_group_and_another_argument_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="batch and another argument"):
        ShardbatchHook(batch=group(), **more)


def test_a_limit_below_one_is_refused(store: SQLStore) -> None:
    with pytest.raises(ConfigurationError, match="limit of batches is 0"):
        ShardbatchHook(**NAMED, leases=KEPT).batches(limit=0)


def test_a_name_that_cannot_stand_in_a_row_is_refused(store: SQLStore) -> None:
    with pytest.raises(ConfigurationError, match="'orders/etl'"):
        ShardbatchHook(app_name="orders/etl", stream="orders", leases=KEPT).status()


def in_a_task(made: StreamBatch, conf: dict[str, str], call: Callable[[], Any]) -> Any:
    @task(dag=made.dag)
    def look() -> None:
        pass

    running = look().operator
    context: Any = {"task": running, "dag_run": SimpleNamespace(conf=conf), "params": {}}
    with set_current_context(Context(**context)):
        return call()


CONF = "{{{{ dag_run.conf['{}'] }}}}"


@pytest.mark.parametrize("native", [False, True])
def test_the_templates_of_a_group_are_rendered_in_the_running_task(store: SQLStore, native: bool) -> None:
    made = group(CONF.format("app"), CONF.format("stream"), CONF.format("conn"), render_template_as_native_obj=native)
    hook = ShardbatchHook(batch=made)
    conf = {"app": "orders-etl", "stream": "orders", "conn": "leases_db"}
    assert in_a_task(made, conf, hook.status) == status(store, NAMESPACE)
    with pytest.raises(ConfigurationError, match="is a template, and no task is running"):
        hook.status()


def test_a_template_may_be_a_statement_too(store: SQLStore) -> None:
    made = group("{% set name = 'orders' %}{% print(name) %}-etl", "{% print('orders') %}")
    assert in_a_task(made, {}, ShardbatchHook(batch=made).status) == status(store, NAMESPACE)


def test_what_a_task_passes_is_data_even_if_it_looks_like_a_template(store: SQLStore) -> None:
    evil = CONF.format("app")
    hook = ShardbatchHook(app_name=evil, stream=KinesisStream(CONF.format("app")), leases=KEPT)
    with pytest.raises(ApplicationUnknown, match=r"dag_run\.conf"):
        in_a_task(group(), {"app": "orders-etl"}, hook.status)


def test_it_needs_no_library_of_a_vendor_until_it_opens_the_store() -> None:
    program = """
import sys
from airflow.sdk import BaseHook, get_current_context
before = set(sys.modules)
from shardbatch import ShardbatchHook
ShardbatchHook(app_name="orders-etl", stream="orders", leases="sql://leases_db")
print(" ".join(sorted(set(sys.modules) - before)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = set(done.stdout.splitlines()[-1].split())
    assert {name for name in found if name.startswith(("sqlalchemy", "boto", "pyarrow", "shardbatch.control"))} == set()


def test_rows_need_no_aws(store: SQLStore) -> None:
    program = """
import sys
class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("boto3", "botocore", "aiobotocore", "pyarrow"):
            raise ModuleNotFoundError(f"refused: {name}", name=name)
sys.meta_path.insert(0, Wall())
from shardbatch import KinesisStream, ShardbatchHook
print(ShardbatchHook(app_name="orders-etl", stream=KinesisStream("orders"), leases="sql://leases_db").status().stream_id)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "arn:orders:1"
