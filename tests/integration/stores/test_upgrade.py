# SPDX-License-Identifier: Apache-2.0
"""Two versions at work on the same rows, and how an upgrade adds what the later one wants."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from shardbatch.consumer import Outcome
from shardbatch.consumer.migrate import Migrated, migrate
from shardbatch.consumer.status import status
from shardbatch.core import application as applications
from shardbatch.core import batch as batches
from shardbatch.core.application import Application
from shardbatch.core.batch import BatchState
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import APPLICATION, BATCH, SHARD_LEASE, Key, Namespace
from shardbatch.errors import ConfigurationError, StoreError, StoreNotFound, UnsupportedSchema
from shardbatch.stores.memory import Memory, MemoryStore
from shardbatch.stores.sql import SQLStore
from tests.contract.stores import backends
from tests.support.older import LATER, OlderStore, names_of_later
from tests.support.postgres import PostgresServer
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream

SPACE = Namespace("etl", "orders")


@pytest.fixture(params=["memory", "sqlite", "postgresql", "dynalite", "ministack"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Where the rows of the version before stand."""
    return backends.made(request, tmp_path)


@pytest.fixture
def rigs(place: Any, tmp_path: Path) -> Iterator[tuple[Rig, Rig]]:
    """The version before and this one, on the same rows, stream and staging; the first has made the tables."""
    older, newer = OlderStore(place.open()), place.open()
    older.prepare()
    stream = ScriptedStream(shards=2)
    old = Rig(tmp_path / "staging", stream=stream, store=older)
    new = Rig(tmp_path / "staging", stream=stream, store=newer, time=old.time, verdicts=old.verdicts)
    yield old, new
    older.close()
    newer.close()


def columns_in(store: SQLStore) -> set[str]:
    look = sa.inspect(store.engine)
    return {f"{table}.{column['name']}" for table in LATER for column in look.get_columns(table)}


def test_whole_runs_of_both_versions_in_turn_lose_and_double_nothing(rigs: tuple[Rig, Rig]) -> None:
    old, new = rigs
    sent = []
    for number, rig in enumerate((old, new, old, new, old)):
        sent += old.stream.put(*(f"{number}-{key}" for key in range(8)))
        assert rig.run(f"whole-{number}").records == 8
    # Whatever one version leaves half done, the other goes on with.
    for number, (first, second) in enumerate([(old, new), (new, old)]):
        sent += old.stream.put(*(f"landed-{number}-{key}" for key in range(5)))
        first.land(f"landed-{number}", first.claim(f"landed-{number}"))
        first.over(f"landed-{number}")
        assert second.run(f"after-landed-{number}").records == 5

        sent += old.stream.put(*(f"frozen-{number}-{key}" for key in range(5)))
        first.land(f"frozen-{number}", first.claim(f"frozen-{number}"))
        first.freeze(f"frozen-{number}")
        first.over(f"frozen-{number}")
        found = second.claim(f"adopter-{number}")
        assert found.outcome is Outcome.ADOPTED
        frozen = second.freeze(f"adopter-{number}", found.batch_id)
        assert frozen.attempt == 2
        second.work(frozen)
        assert second.commit(f"adopter-{number}", frozen).newly
        second.over(f"adopter-{number}")
        # And replays it, in a run of the version that froze it.
        again = first.freeze(f"again-{number}", replay=found.batch_id)
        first.work(again)
        assert first.commit(f"again-{number}", again).decided == 3
        first.over(f"again-{number}")
    assert sorted(new.committed()) == sorted(sent)
    assert new.sink() == sorted(sent, key=int)
    assert all(lease.pending is None and lease.batch_id is None for lease in new.consumer().leases())


def test_what_only_this_version_knows_outlives_a_write_of_the_version_before(rigs: tuple[Rig, Rig]) -> None:
    old, new = rigs
    old.stream.put("a", "b", "c")
    new.land("first", new.claim("first"))
    frozen = new.freeze("first")
    new.over("first")
    (row,) = new.batches()
    assert new.store.replace(row, batches.unpark(batches.park(row, "a poison pill"), "mended"))
    application: Any = new.store.get(Key(APPLICATION, SPACE, ()))
    assert new.store.replace(application, application.acted("ann looked"))

    assert old.claim("second").outcome is Outcome.ADOPTED  # a write of the batch row
    (after,) = new.batches()
    assert after.owner == str(old.owner("second"))
    assert (after.note, after.unparked) == ("a poison pill; mended", row.attempt)
    assert status(new.store, SPACE).last_action == "ann looked"
    frozen = old.freeze("second", frozen.batch_id)
    old.work(frozen)
    old.commit("second", frozen)
    (after,) = new.batches(BatchState.COMMITTED)
    assert (after.note, after.unparked) == ("a poison pill; mended", row.attempt)


def test_a_replay_by_the_version_before_ends_a_set_aside_for_this_one(rigs: tuple[Rig, Rig]) -> None:
    old, new = rigs
    wanted = old.stream.put("a", "b", "c")
    new.land("first", new.claim("first"))
    new.freeze("first")
    new.over("first")
    (row,) = new.batches()
    new.store.replace(row, batches.set_aside(row, "poison", 1))
    again = old.freeze("again", replay=row.batch_id)
    old.work(again)
    old.commit("again", again)
    (after,) = new.batches()
    assert (after.set_aside, after.decided) == (None, 2)
    assert new.sink() == sorted(wanted, key=int)


# ---------------------------------------------------------------------- tables


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with the tables of the version before."""
    found = f"sqlite:///{tmp_path}/leases.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with contextlib.closing(OlderStore(SQLStore(found))) as older:
        older.prepare()
        older.create(Application(SPACE, "arn:1", TRIM_HORIZON, 1))
    return str(found)


def test_a_store_that_must_not_make_anything_names_the_columns_and_the_statements(url: str) -> None:
    with contextlib.closing(SQLStore(url, create=False)) as store, pytest.raises(StoreNotFound) as raised:
        store.prepare()
    text = str(raised.value)
    assert ", ".join(names_of_later()) in text
    assert "ALTER TABLE batch ADD COLUMN unparked BIGINT; ALTER TABLE batch ADD COLUMN set_aside TEXT" in text
    assert "airflow shardbatch migrate --yes" in text


def test_its_statements_are_all_that_is_needed(url: str) -> None:
    with contextlib.closing(SQLStore(url, create=False)) as store:
        statements = store.pending()
        assert len(statements) == len(names_of_later())
        with store.engine.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)
        assert store.pending() == ()
        store.prepare()
        assert store.get(Key(APPLICATION, SPACE, ())) == Application(SPACE, "arn:1", TRIM_HORIZON, 1)


def test_many_that_prepare_at_once_all_succeed_while_the_version_before_writes(url: str) -> None:
    older = OlderStore(SQLStore(url))
    stores = [SQLStore(url) for _ in range(6)]

    def write(_: int) -> int:
        done = 0
        for _ in range(20):
            row: Any = older.get(Key(APPLICATION, SPACE, ()))
            done += older.replace(row, replace(row, row_count=row.row_count + 1))
        return done

    with ThreadPoolExecutor(8) as pool:
        written = [pool.submit(write, number) for number in range(2)]
        list(pool.map(SQLStore.prepare, stores))
        total = sum(each.result() for each in written)
    row: Any = stores[0].get(Key(APPLICATION, SPACE, ()))
    assert row.row_count == 1 + total
    assert set(names_of_later()) <= columns_in(stores[0])
    for each in (older, *stores):
        each.close()


def test_who_may_not_alter_the_tables_is_told_by_the_database(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    with contextlib.closing(OlderStore(SQLStore(postgres_url))) as older:
        older.prepare()
    database = postgres_url.rpartition("/")[2]
    with postgres_server.connect(database) as session:
        session.execute("CREATE ROLE upgrade_writer LOGIN")
        session.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO upgrade_writer")
    limited = postgres_url.replace("postgres@", "upgrade_writer@")
    with contextlib.closing(SQLStore(limited)) as store:
        assert len(store.pending()) == len(names_of_later())
        with pytest.raises(StoreError, match="must be owner of table"):
            store.prepare()
    with postgres_server.connect(database) as session:
        session.execute("DROP OWNED BY upgrade_writer")
        session.execute("DROP ROLE upgrade_writer")


# ---------------------------------------------------------------------- migrate, and the version on the row


def test_migrate_says_what_it_would_run_and_then_runs_it(url: str) -> None:
    with contextlib.closing(SQLStore(url)) as store:
        preview = migrate(store, SPACE, actor="ann", reason="")
        assert {item.result for item in preview} == {"would run"}
        assert [item.what for item in preview] == list(store.pending())
        with pytest.raises(ConfigurationError, match="needs a reason"):
            migrate(store, SPACE, actor="ann", reason=" ", dry_run=False)
        assert len(store.pending()) == len(preview)  # nothing was run without one
        done = migrate(store, SPACE, actor="ann", reason="upgrade", dry_run=False)
        assert [item.what for item in done[:-1]] == [item.what for item in preview]
        assert store.pending() == ()
        again = migrate(store, SPACE, actor="ann", reason="upgrade", dry_run=False)
        assert again == (Migrated("application etl/orders has schema version 1", "already"),)


@pytest.fixture
def version(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the version that the code at work is of."""

    def set_to(number: int) -> None:
        monkeypatch.setattr(applications, "SCHEMA_VERSION", number)
        monkeypatch.setattr("shardbatch.consumer.migrate.SCHEMA_VERSION", number)

    return set_to


def test_rows_stay_in_their_version_until_a_person_raises_it(version: Any, tmp_path: Path) -> None:
    memory = Memory()
    rig = Rig(tmp_path / "staging", store=MemoryStore(memory))
    sent = rig.stream.put("a")
    rig.run("of-version-1")
    version(2)
    sent += rig.stream.put("b")
    rig.run("of-version-2")
    version(1)
    sent += rig.stream.put("c")
    rig.run("of-version-1-again")  # both at work at once
    assert rig.committed() == sent

    version(2)
    preview = migrate(rig.store, SPACE, actor="ann", reason="")
    assert preview == (Migrated("application etl/orders from schema version 1 to 2", "would raise"),)
    assert status(rig.store, SPACE).schema_version == 1
    (done,) = migrate(rig.store, SPACE, actor="ann", reason="all workers are new", dry_run=False)
    assert done.result == "raised"
    assert status(rig.store, SPACE).schema_version == 2
    assert "ann migrated to version 2: all workers are new" in str(status(rig.store, SPACE).last_action)
    rig.run("of-version-2-again")
    version(1)
    rows = {name: dict(table) for name, table in memory.tables.items()}
    for step in (
        lambda: rig.claim("of-version-1"),
        lambda: rig.claim("told", replay="b1"),
        lambda: status(rig.store, SPACE),
        lambda: migrate(rig.store, SPACE, actor="ann", reason="back", dry_run=False),
    ):
        with pytest.raises(UnsupportedSchema, match=r"etl/orders have schema version 2; this shardbatch reads 0 and 1"):
            step()
    assert {name: dict(table) for name, table in memory.tables.items()} == rows
    assert set(rows) == {SHARD_LEASE.name, BATCH.name, APPLICATION.name}
    version(3)
    rig.stream.put("d")
    assert rig.run("of-version-3").records == 1  # it reads the version before
    version(4)
    with pytest.raises(UnsupportedSchema, match="version 2; this shardbatch reads 3 and 4"):
        rig.claim("of-version-4")


def test_a_place_without_tables_says_what_it_lacks_until_it_is_made(place: Any) -> None:
    with contextlib.closing(place.open(**place.place())) as store:
        assert store.pending()
        store.prepare()
        assert store.pending() == ()
