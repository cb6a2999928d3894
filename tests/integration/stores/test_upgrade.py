# SPDX-License-Identifier: Apache-2.0
"""Two versions at work on the same rows, and how an upgrade adds what the later one wants."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from shardbatch.control.migrate import Migrated, migrate
from shardbatch.control.status import status
from shardbatch.core import batch as batches
from shardbatch.core.application import Application
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import APPLICATION, BATCH, SHARD_LEASE, TABLES, Key, Namespace
from shardbatch.core.start import Start
from shardbatch.errors import ConfigurationError, StoreError, StoreNotFound, UnsupportedSchema
from shardbatch.run import Frozen
from shardbatch.stores.memory import Memory, MemoryStore
from shardbatch.stores.sql import SQLStore
from tests.contract.stores import backends
from tests.support.older import LATER, LATER_TABLES, OlderStore, names_of_later
from tests.support.postgres import PostgresServer
from tests.support.rig import Rig
from tests.support.scripted import ScriptedStream
from tests.support.verbs import act

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


def raise_version(rig: Rig) -> None:
    act(migrate, rig.store, SPACE, actor="ann", reason="all workers are new", dry_run=False)


def rows_in(rig: Rig) -> list[Any]:
    return [row for table in (SHARD_LEASE, BATCH, APPLICATION) for row in rig.store.list(table, SPACE)]


def left_by(old: Rig, how: str) -> Frozen | None:
    """What a run of the version before leaves, and is over."""
    old.land("left", old.claim("left"))
    frozen = None if how == "landed" else old.freeze("left")
    if how == "worked" and frozen is not None:
        old.work(frozen)
    old.over("left")
    return frozen


def goes_on(old: Rig, new: Rig, how: str) -> None:
    """Whatever the version before leaves half done, this one goes on with, once a person has said so, and only then."""
    sent = old.stream.put(*"abcdefgh")
    first = old.run("whole")
    assert first.records == 8
    sent += old.stream.put(*"ijklm")
    frozen = left_by(old, how)
    new.store.prepare()  # what this adds is none of the others' business
    before = rows_in(new)
    steps: list[Any] = [lambda: new.claim("new"), lambda: new.freeze("left"), lambda: new.freeze("x", replay="b1")]
    if frozen is not None:
        steps += [lambda: new.freeze("left", frozen.batch_id), lambda: new.commit("left", frozen)]
    for step in steps:
        with pytest.raises(UnsupportedSchema, match="airflow shardbatch migrate -a etl -s orders --yes"):
            step()
    assert rows_in(new) == before
    sent += old.stream.put("n")
    assert old.run("between").records in (1, 5, 6)  # the others go on meanwhile

    raise_version(new)
    with pytest.raises(UnsupportedSchema, match="have schema version 2; this shardbatch reads 0 and 1"):
        old.claim("old")
    sent += new.stream.put("o")
    for number in range(3):
        new.run(f"new-{number}")
    assert sorted(new.committed()) == sorted(sent)
    assert new.sink() == sorted(sent, key=int)
    assert all(lease.pending is None and lease.batch_id is None for lease in new.consumer().leases())
    again = new.freeze("again", replay=first.batch_id)  # of a row that knows of no roots
    new.start(again, roots=("elsewhere",))
    new.end(again)
    assert new.commit("again", again).decided == 2
    assert new.sink("elsewhere") == sorted(sent[:8], key=int)
    assert new.sink() == sorted(sent[8:], key=int)


def test_what_the_version_before_left_frozen_is_gone_on_with_after_a_migrate(rigs: tuple[Rig, Rig]) -> None:
    goes_on(*rigs, "frozen")


@pytest.mark.parametrize("how", ["landed", "worked"])
def test_what_the_version_before_left_otherwise_is_gone_on_with_too(tmp_path: Path, how: str) -> None:
    memory = Memory()
    older = OlderStore(MemoryStore(memory))
    older.prepare()
    old = Rig(tmp_path / "staging", stream=ScriptedStream(shards=2), store=older)
    new = Rig(tmp_path / "staging", stream=old.stream, store=MemoryStore(memory), time=old.time, verdicts=old.verdicts)
    goes_on(old, new, how)


def test_what_only_this_version_knows_outlives_a_write_of_the_version_before(rigs: tuple[Rig, Rig]) -> None:
    """A worker of it that began before the migrate may still write to a batch."""
    old, new = rigs
    old.stream.put("a", "b", "c")
    new.run("first")
    (row,) = new.batches()
    changed = replace(
        row, note="mended", unparked=1, from_ms=5, to_ms=9, number=3, joins=True, row_count=row.row_count + 1
    )
    assert new.store.replace(row, changed)
    assert row.roots

    seen: Any = old.store.get(row.key)
    assert (seen.roots, seen.number, seen.note) == ((), 0, None)
    beaten = batches.heartbeat(seen, 77, "client:w1:42")
    assert old.store.replace(seen, beaten)
    (after,) = new.batches()
    assert (after.row_count, after.spark_application) == (beaten.row_count, (1, "client:w1:42"))
    assert (after.note, after.unparked, after.roots) == ("mended", 1, row.roots)
    assert (after.interval, after.number, after.joins) == ((5, 9), 3, True)
    assert (after.min_arrival_ms, after.max_arrival_ms) == (row.min_arrival_ms, row.max_arrival_ms)


def test_a_replay_by_the_version_before_ends_a_set_aside_for_this_one(rigs: tuple[Rig, Rig]) -> None:
    old, new = rigs
    new.stream.put("a", "b", "c")
    new.land("first", new.claim("first"))
    new.freeze("first")
    new.over("first")
    (row,) = new.batches()
    assert new.store.replace(row, batches.set_aside(row, "poison", 1))
    seen: Any = old.store.get(row.key)
    start = Start("s2", 2, "transform", ("/out",))
    opened = batches.open_attempt(seen, 7)
    assert old.store.replace(seen, opened)
    assert old.store.replace(opened, batches.redecide(opened, (start,), 2))
    (after,) = new.batches()
    assert (after.set_aside, after.decided, after.starts) == (None, 2, (start,))


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
    assert ", ".join([*names_of_later(), "the table interval_output"]) in text
    assert "CREATE TABLE interval_output (" in text
    assert "ALTER TABLE batch ADD COLUMN unparked BIGINT; ALTER TABLE batch ADD COLUMN set_aside TEXT" in text
    assert "airflow shardbatch migrate --yes" in text


def test_its_statements_are_all_that_is_needed(url: str) -> None:
    with contextlib.closing(SQLStore(url, create=False)) as store:
        statements = store.pending()
        assert len(statements) == len(names_of_later()) + len(LATER_TABLES)
        with store.engine.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)
        assert store.pending() == ()
        store.prepare()
        assert store.get(Key(APPLICATION, SPACE, ())) == Application(SPACE, "arn:1", TRIM_HORIZON, 1, schema_version=1)


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
        assert len(store.pending()) == len(names_of_later()) + len(LATER_TABLES)
        with pytest.raises(StoreError, match="must be owner of table"):
            store.prepare()
    with postgres_server.connect(database) as session:
        session.execute("DROP OWNED BY upgrade_writer")
        session.execute("DROP ROLE upgrade_writer")


# ---------------------------------------------------------------------- migrate, and the version on the row


def test_migrate_says_what_it_would_run_and_then_runs_it(url: str) -> None:
    with contextlib.closing(SQLStore(url)) as store:
        preview = act(migrate, store, SPACE, actor="ann", reason="")
        assert {item.result for item in preview} == {"would run"}
        assert [item.what for item in preview] == list(store.pending())
        with pytest.raises(ConfigurationError, match="needs a reason"):
            act(migrate, store, SPACE, actor="ann", reason=" ", dry_run=False)
        assert len(store.pending()) == len(preview)  # nothing was run without one
        done = act(migrate, store, SPACE, actor="ann", reason="upgrade", dry_run=False)
        assert [item.what for item in done[:-1]] == [item.what for item in preview]
        assert done[-1] == Migrated("application etl/orders from schema version 1 to 2", "raised")
        assert store.pending() == ()
        again = act(migrate, store, SPACE, actor="ann", reason="upgrade", dry_run=False)
        assert again == (Migrated("application etl/orders has schema version 2", "already"),)


@pytest.fixture
def version(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the version that the code at work is of."""

    def set_to(number: int) -> None:
        for module in ("core.application", "run.consumer", "control.migrate"):
            monkeypatch.setattr(import_module(f"shardbatch.{module}"), "SCHEMA_VERSION", number)

    return set_to


def test_rows_stay_in_their_version_until_a_person_raises_it(version: Any, tmp_path: Path) -> None:
    memory = Memory()
    rig = Rig(tmp_path / "staging", store=MemoryStore(memory))
    version(1)
    rig.store.prepare()
    assert rig.store.create(Application(SPACE, rig.stream.identity(), TRIM_HORIZON, 1, schema_version=1))
    sent = rig.stream.put("a")
    rig.run("of-version-1")
    version(2)
    sent += rig.stream.put("b")
    with pytest.raises(UnsupportedSchema, match="migrate -a etl -s orders"):
        rig.run("of-version-2")
    version(1)
    rig.run("of-version-1-again")
    assert rig.committed() == sent

    version(2)
    preview = act(migrate, rig.store, SPACE, actor="ann", reason="")
    assert preview == (Migrated("application etl/orders from schema version 1 to 2", "would raise"),)
    assert status(rig.store, SPACE).schema_version == 1  # looking is possible before
    (done,) = act(migrate, rig.store, SPACE, actor="ann", reason="all workers are new", dry_run=False)
    assert done.result == "raised"
    assert status(rig.store, SPACE).schema_version == 2
    assert "ann migrated to version 2: all workers are new" in str(status(rig.store, SPACE).last_action)
    rig.stream.put("c")
    assert rig.run("of-version-2-again").records == 1
    version(1)
    rows = {name: dict(table) for name, table in memory.tables.items()}
    for step in (
        lambda: rig.claim("of-version-1"),
        lambda: rig.claim("told", replay="b1"),
        lambda: status(rig.store, SPACE),
        lambda: act(migrate, rig.store, SPACE, actor="ann", reason="back", dry_run=False),
    ):
        with pytest.raises(UnsupportedSchema, match=r"etl/orders have schema version 2; this shardbatch reads 0 and 1"):
            step()
    assert {name: dict(table) for name, table in memory.tables.items()} == rows
    assert set(rows) == {table.name for table in TABLES}
    version(3)
    assert status(rig.store, SPACE).schema_version == 2  # it reads the version before
    version(4)
    with pytest.raises(UnsupportedSchema, match="version 2; this shardbatch reads 3 and 4"):
        rig.claim("of-version-4")


def test_a_place_without_tables_says_what_it_lacks_until_it_is_made(place: Any) -> None:
    with contextlib.closing(place.open(**place.place())) as store:
        assert store.pending()
        store.prepare()
        assert store.pending() == ()
