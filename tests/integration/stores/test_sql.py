# SPDX-License-Identifier: Apache-2.0
"""What only SQL stores have: broken connections, older tables, rights, a file shared by writers."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from shardbatch.core import lease
from shardbatch.core.lease import Lease
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import SHARD_LEASE, Namespace
from shardbatch.core.shard import Shard
from shardbatch.errors import StoreError, StoreNotFound
from shardbatch.stores.sql import SQLStore
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer
from tests.support.waiting import wait_until

SPACE = Namespace("orders-etl", "orders")
ROW = lease.add(SPACE, "", Shard("shardId-000"), TRIM_HORIZON, 1, 7)


@pytest.fixture
def store(postgres_url: str) -> Iterator[SQLStore]:
    opened = SQLStore(postgres_url, page_size=3)
    opened.prepare()
    yield opened
    opened.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "leases.db"


def test_connections_that_the_server_ended_are_replaced(store: SQLStore, postgres_url: str) -> None:
    # R44: an idle connection is gone by the time Spark has ended
    admin = sa.create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    assert store.create(ROW)
    seen: Lease = ROW
    with admin.connect() as connection:
        for turn in range(3):
            assert connection.execute(sa.text(f"SELECT pg_terminate_backend(pid) {others}")).all()
            wait_until(
                lambda: not connection.execute(sa.text(f"SELECT pid {others}")).all(), 20, "the connections to end"
            )
            new = lease.renew(lease.take(seen, "w1", None, 0), "w1", turn)
            assert store.replace(seen, new)
            assert store.get(ROW.key) == new
            seen = new
    admin.dispose()


def test_a_password_is_never_shown() -> None:
    store = SQLStore(f"postgresql+psycopg://u:hidden-word@127.0.0.1:{free_port()}/db")
    assert "hidden-word" not in repr(store)
    for act in (store.prepare, lambda: store.get(ROW.key), lambda: store.create(ROW)):
        with pytest.raises(StoreError) as refused:
            act()
        assert "hidden-word" not in str(refused.value)
        assert "127.0.0.1" in str(refused.value)


def test_missing_rights_are_told(store: SQLStore, postgres_server: PostgresServer) -> None:
    role = f"reader-{uuid.uuid4().hex[:8]}"
    database = store.engine.url.database
    with postgres_server.connect(str(database)) as session:
        session.execute(f'CREATE ROLE "{role}" LOGIN')  # type: ignore[call-overload]
        session.execute(f'GRANT SELECT ON ALL TABLES IN SCHEMA public TO "{role}"')  # type: ignore[call-overload]
    reader = SQLStore(store.engine.url.set(username=role), create=False)
    reader.prepare()
    assert reader.get(ROW.key) is None
    with pytest.raises(StoreError, match="permission denied for table shard_lease"):
        reader.create(ROW)
    reader.close()


def test_the_tables_can_stand_in_a_schema_behind_a_prefix(store: SQLStore) -> None:
    with store.engine.connect() as connection:
        connection.execute(sa.text("CREATE SCHEMA team_a"))
    other = SQLStore(store.engine, schema="team_a", prefix="sb_")
    other.prepare()
    assert other.create(ROW)
    assert list(other.list(SHARD_LEASE, SPACE)) == [ROW]
    assert list(store.list(SHARD_LEASE, SPACE)) == []
    made = set(sa.inspect(store.engine).get_table_names("team_a"))
    assert made == {"sb_shard_lease", "sb_batch", "sb_application", "sb_interval_output"}


@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_tables_of_an_earlier_version_get_the_columns_they_lack(
    kind: str, file: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres_url") if kind == "postgresql" else f"sqlite:///{file}"
    store = SQLStore(url)
    store.prepare()
    assert store.create(ROW)
    with store.engine.connect() as connection:
        connection.execute(sa.text("DROP INDEX shard_lease_by_lease_owner"))
        connection.execute(sa.text("ALTER TABLE shard_lease DROP COLUMN read_group"))
        connection.execute(sa.text("ALTER TABLE shard_lease DROP COLUMN write_token"))
        connection.execute(sa.text("ALTER TABLE shard_lease ADD COLUMN of_a_later_version TEXT"))
    looking = SQLStore(url, create=False)
    with pytest.raises(StoreNotFound, match=r"they lack shard_lease\.read_group, shard_lease\.write_token\."):
        looking.prepare()
    stores = [SQLStore(url) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(SQLStore.prepare, stores))
    looking.prepare()
    taken = lease.take(ROW, "w1", "g1", 8)
    assert store.replace(ROW, taken)
    assert looking.get(ROW.key) == taken
    made = {index["name"] for index in sa.inspect(store.engine).get_indexes("shard_lease")}
    assert "shard_lease_by_lease_owner" in made
    for each in (store, looking, *stores):
        each.close()


def test_a_writer_waits_for_another_one_of_the_same_file(file: Path) -> None:
    store = SQLStore(f"sqlite:///{file}")
    store.prepare()
    assert store.create(ROW)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(1) as pool:
        sent = store.writes
        waiting = pool.submit(store.replace, ROW, lease.take(ROW, "w1", None, 8))
        wait_until(lambda: store.writes > sent, 20, "the write to be sent")
        assert store.get(ROW.key) == ROW, "readers do not wait"
        other.execute("UPDATE shard_lease SET lease_owner = 'w0', lease_count = 5")
        other.execute("COMMIT")
        assert waiting.result(40) is False
    found = store.get(ROW.key)
    assert isinstance(found, Lease)
    assert (found.lease_owner, found.lease_count) == ("w0", 5)
    other.close()
    store.close()


def test_a_file_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="unable to open database file"):
        SQLStore(f"sqlite:///{tmp_path / 'absent' / 'leases.db'}").prepare()
    (tmp_path / "no.db").write_bytes(b"this is no database, but long enough to be looked at as if it were one" * 20)
    with pytest.raises(StoreError, match="not a database"):
        SQLStore(f"sqlite:///{tmp_path / 'no.db'}").prepare()


def test_a_row_of_a_namespace_that_was_just_made_is_found_by_its_key(store: SQLStore, postgres_url: str) -> None:
    """Without statistics of the table, an index that has the whole namespace looks as good as the primary key."""
    assert all(store.create_many([lease.add(SPACE, "", Shard(f"s-{n}"), TRIM_HORIZON, 1, 7) for n in range(300)]))
    one = "app_name = 'orders-etl' AND stream_name = 'orders' AND scope = '' AND shard_id = 's-7'"
    with sa.create_engine(postgres_url).connect() as connection:
        for condition in (one, one + " AND lease_count = 1"):
            plan = connection.execute(sa.text(f"EXPLAIN SELECT * FROM shard_lease WHERE {condition}")).scalars().all()
            assert "shard_lease_pkey" in plan[0], plan
        mine = "app_name = 'orders-etl' AND stream_name = 'orders' AND lease_owner = 'w1'"
        plan = connection.execute(sa.text(f"EXPLAIN SELECT * FROM shard_lease WHERE {mine}")).scalars().all()
        assert "shard_lease_by_lease_owner" in "".join(plan), plan
