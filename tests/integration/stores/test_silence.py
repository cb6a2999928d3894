# SPDX-License-Identifier: Apache-2.0
"""A database that accepts and stays silent: every call ends within its limit, and no outcome is guessed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import pytest
import sqlalchemy as sa

from shardbatch.core import lease
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import SHARD_LEASE, Namespace
from shardbatch.core.shard import Shard
from shardbatch.errors import StoreError
from shardbatch.stores.sql import SQLStore
from tests.support.postgres import PostgresServer
from tests.support.silence import NO_ANSWERS, SILENT, SPEAKS, SilentProxy, silent_proxy

SPACE = Namespace("orders-etl", "orders")
ROWS = [lease.add(SPACE, "", Shard(f"shardId-{number:03d}"), TRIM_HORIZON, 1, 7) for number in range(3)]
LIMIT_S = 1.0
#: A call ends within three times the limit; the rest is for a machine that is busy.
ENDS_S = 3 * LIMIT_S + 5

URLS = ["postgresql+psycopg://u:s3cr3t@127.0.0.1:{}/db"]
URLS += [f"mysql+{name}://u:s3cr3t@127.0.0.1:{{}}/db" for name in ("pymysql", "mysqldb") if find_spec(name)]


def refused(act: Callable[[], object]) -> str:
    began = time.monotonic()
    with pytest.raises(StoreError) as caught:
        act()
    assert time.monotonic() - began < ENDS_S
    assert "s3cr3t" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "url", [pytest.param(url, marks=pytest.mark.long if at else ()) for at, url in enumerate(URLS)]
)
def test_a_database_that_accepts_and_says_nothing_fails_every_call(url: str) -> None:
    with silent_proxy() as proxy:
        store = SQLStore(url.format(proxy.port), time_limit=LIMIT_S)
        for act in (store.prepare, store.pending, lambda: store.get(ROWS[0].key), lambda: store.create(ROWS[0])):
            refused(act)
        store.close()


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[SilentProxy]:
    with silent_proxy(postgres_server.port) as made:
        yield made


@pytest.fixture
def store(proxy: SilentProxy, postgres_url: str) -> Iterator[SQLStore]:
    found = SQLStore(sa.make_url(postgres_url).set(port=proxy.port), time_limit=LIMIT_S)
    found.prepare()
    assert found.create(ROWS[0])
    yield found
    found.close()


def test_a_database_that_falls_silent_fails_every_call_and_is_used_again(store: SQLStore, proxy: SilentProxy) -> None:
    for act in (
        lambda: store.get(ROWS[0].key),
        lambda: list(store.list(SHARD_LEASE, SPACE)),
        lambda: store.replace(ROWS[0], lease.take(ROWS[0], "w1", None, 8)),
        lambda: store.create_many(ROWS[1:]),
        lambda: store.delete(ROWS[0]),
        store.prepare,
    ):
        proxy.mode = SILENT
        refused(act)
        proxy.mode = SPEAKS
        assert store.get(ROWS[0].key) == ROWS[0]
    assert list(store.list(SHARD_LEASE, SPACE)) == ROWS[:1]


def test_a_write_whose_answer_did_not_come_is_looked_for(store: SQLStore, proxy: SilentProxy) -> None:
    taken = lease.take(ROWS[0], "w1", None, 8)
    proxy.mode = NO_ANSWERS
    assert "unknown" in refused(lambda: store.replace(ROWS[0], taken))  # it was written all the same
    proxy.mode = SPEAKS
    assert store.get(ROWS[0].key) == taken
    proxy.mode = NO_ANSWERS
    speaks = threading.Timer(LIMIT_S * 0.6, setattr, (proxy, "mode", SPEAKS))
    speaks.start()
    renewed = lease.renew(taken, "w1", 9)
    assert store.replace(taken, renewed) is True  # sent once, its answer lost, found by its token
    speaks.join()
    assert store.get(ROWS[0].key) == renewed


def test_a_call_that_is_quick_leaves_its_connection_alone(store: SQLStore) -> None:
    for _ in range(3):
        assert store.get(ROWS[0].key) == ROWS[0]
        time.sleep(LIMIT_S * 0.6)
    with store.engine.connect() as connection:
        waited = connection.execute(sa.text(f"SELECT pg_sleep({LIMIT_S * 1.5})"))
        assert waited.rowcount == 1  # of others who use the engine nothing is cut
