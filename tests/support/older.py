# SPDX-License-Identifier: Apache-2.0
"""The version before this one, made of it: rows of schema version 1, and a store that does not know what came later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from shardbatch.core.application import Application
from shardbatch.core.ports import LeaseStore
from shardbatch.core.rows import SCHEMA_VERSION, TABLES, Columns, Key, Namespace, Row, Table
from shardbatch.core.tables import columns_of_table, row_type
from shardbatch.errors import UnsupportedSchema
from shardbatch.stores.sql import SQLStore
from tests.support.one_by_one import OneByOne

#: What the version before did not have. Each may be null, as every column that a later version adds.
LATER = {
    "shard_lease": {"caught_up_ms", "millis_behind_latest", "note", "begins", "skipped", "staging", "tenure"},
    "batch": {
        *("attempt_closed", "attempt_seen_ms", "gaps", "note", "unparked", "set_aside", "dropped", "roots"),
        *("min_arrival_ms", "max_arrival_ms", "shared", "joins", "from_ms", "to_ms", "number", "retired_ms"),
    },
    "application": {
        *("claimed_by", "last_action", "retention_ms", "gone_before_ms", "longest_retention_ms", "importing"),
        *("shown_intervals", "start_places"),
    },
}
#: And the tables that it did not have.
LATER_TABLES = ["interval_output"]
#: The schema version of its rows.
VERSION = 1


def names_of_later() -> list[str]:
    """The later columns as ``table.column``, table by table and in the order of the columns."""
    return [f"{t.name}.{c.name}" for t in TABLES for c in columns_of_table(t) if c.name in LATER.get(t.name, ())]


class _OldRow:
    """A row as the version before writes it."""

    def __init__(self, row: Row) -> None:
        self.key, self.counter = row.key, row.counter
        self._columns = {name: value for name, value in row.columns().items() if name not in LATER[row.key.table.name]}
        if isinstance(row, Application):
            self._columns["schema_version"] = VERSION

    def columns(self) -> Columns:
        return dict(self._columns)


def _read(row: Row) -> Row:
    """The row as the version before reads it: what it does not know has its default.

    The code at work on it is that of this version, so it is shown rows of this version.
    """
    columns = {**row.key.columns(), **_OldRow(row).columns()}
    if isinstance(row, Application):
        if row.schema_version > VERSION:
            raise UnsupportedSchema(
                f"The rows of {row.namespace} have schema version {row.schema_version}; this shardbatch reads "
                f"{VERSION - 1} and {VERSION}."
            )
        columns["schema_version"] = SCHEMA_VERSION
    return row_type(row.key.table).from_columns(columns)


class OlderStore(OneByOne):
    """Passes rows on without the later columns, in both directions, as rows of schema version 1."""

    def __init__(self, store: LeaseStore) -> None:
        self._store = store
        if isinstance(store, SQLStore):  # its statements must not name them either
            store._metadata = _older(store._metadata)

    def prepare(self) -> None:
        self._store.prepare()

    def pending(self) -> tuple[str, ...]:
        return self._store.pending()

    def list(self, table: Table, namespace: Namespace, scope: str | None = "", **equal: str) -> Iterator[Row]:
        return map(_read, self._store.list(table, namespace, scope, **equal))

    def get(self, key: Key) -> Row | None:
        row = self._store.get(key)
        return None if row is None else _read(row)

    def create(self, row: Row) -> bool:
        return self._store.create(_old(row))

    def replace(self, seen: Row, new: Row) -> bool:
        return self._store.replace(_old(seen), _old(new))

    def delete(self, seen: Row) -> bool:
        return self._store.delete(_old(seen))

    def close(self) -> None:
        self._store.close()


def _old(row: Row) -> Any:
    return _OldRow(row)


def _older(metadata: sa.MetaData) -> sa.MetaData:
    found = sa.MetaData(schema=metadata.schema)
    for table in metadata.tables.values():
        if table.name.endswith(tuple(LATER_TABLES)):
            continue
        later = next(names for name, names in LATER.items() if table.name.endswith(name))
        kept = [column._copy() for column in table.columns if column.name not in later]
        sql = sa.Table(table.name, found, *kept)
        for index in table.indexes:
            sa.Index(index.name, *(sql.c[column.name] for column in index.columns))
    return found
