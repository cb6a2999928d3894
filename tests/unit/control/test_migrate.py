# SPDX-License-Identifier: Apache-2.0
"""Migrate adds what the store lacks, then raises the application's version; a preview does neither."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shardbatch.control.migrate import Migrated, migrate
from shardbatch.core.application import Application
from shardbatch.core.rows import APPLICATION, SCHEMA_VERSION, Key, Row
from shardbatch.errors import ApplicationUnknown, ConfigurationError
from shardbatch.stores.memory import MemoryStore
from tests.support.verbs import Interrupted, act
from tests.unit.cli.rows import NAMESPACE, filled

RAISED = f"application orders-etl/orders from schema version {SCHEMA_VERSION - 1} to {SCHEMA_VERSION}"


class Lacking:
    """A store that lacks a column until it is prepared; before, it can read no row."""

    def __init__(self, store: MemoryStore, *lacks: str) -> None:
        self._store, self._lacks = store, lacks

    def pending(self) -> tuple[str, ...]:
        return self._lacks

    def prepare(self) -> None:
        self._lacks = ()

    def get(self, key: Key) -> Row | None:
        assert not self._lacks
        return self._store.get(key)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def application(store: Any) -> Application:
    row = store.get(Key(APPLICATION, NAMESPACE, ()))
    assert isinstance(row, Application)
    return row


@pytest.fixture
def older() -> MemoryStore:
    """An application of the version before."""
    store = filled()
    seen = application(store)
    assert store.replace(seen, replace(seen, schema_version=SCHEMA_VERSION - 1, row_count=seen.row_count + 1))
    return store


def run(store: Any, **chosen: Any) -> tuple[Migrated, ...]:
    return act(migrate, store, NAMESPACE, **{"actor": "ann", "reason": "upgrade", "dry_run": False, **chosen})


def test_a_preview_names_the_statements_and_reads_no_row_before_them(older: MemoryStore) -> None:
    store = Lacking(older, "ALTER TABLE x")
    assert run(store, dry_run=True, reason="") == (Migrated("ALTER TABLE x", "would run"),)
    assert store.pending() == ("ALTER TABLE x",)
    assert application(older).schema_version == SCHEMA_VERSION - 1


def test_statements_are_run_and_then_the_version_is_raised_with_a_note(older: MemoryStore) -> None:
    store = Lacking(older, "ALTER TABLE x")
    assert run(store) == (Migrated("ALTER TABLE x", "run"), Migrated(RAISED, "raised"))
    row = application(older)
    assert row.schema_version == SCHEMA_VERSION
    assert (row.last_action or "").endswith(f"ann migrated to version {SCHEMA_VERSION}: upgrade")


def test_a_version_that_would_be_raised_stays(older: MemoryStore) -> None:
    assert run(older, dry_run=True) == (Migrated(RAISED, "would raise"),)
    assert application(older).schema_version == SCHEMA_VERSION - 1


def test_doing_it_twice_is_the_same_as_once(older: MemoryStore) -> None:
    run(older)
    row = application(older)
    assert run(older) == (Migrated(f"application {NAMESPACE} has schema version {SCHEMA_VERSION}", "already"),)
    assert application(older) == row


def test_a_row_that_changes_meanwhile_is_raised_all_the_same(older: MemoryStore) -> None:
    seen = application(older)
    store = Interrupted(older, APPLICATION, lambda: older.replace(seen, seen.acted("bob looked")))
    assert run(store) == (Migrated(RAISED, "raised"),)
    assert application(older).schema_version == SCHEMA_VERSION


@pytest.mark.parametrize(
    ("make", "chosen", "error"),
    [(filled, {"reason": " "}, ConfigurationError), (MemoryStore, {}, ApplicationUnknown)],
)
def test_without_a_reason_or_an_application_it_is_refused(
    make: Callable[[], MemoryStore], chosen: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        run(make(), **chosen)
