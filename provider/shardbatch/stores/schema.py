# SPDX-License-Identifier: Apache-2.0
"""The SQL form of the tables: types and lengths that all four databases take, and how they are made.

``python -m shardbatch.stores.schema postgresql`` (or ``sqlite``, ``mysql``, ``mariadb``) prints the statements.
"""

from __future__ import annotations

import sys
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable

from shardbatch.core.rows import TABLES, Table
from shardbatch.core.tables import columns_of_table
from shardbatch.errors import StoreNotFound
from shardbatch.stores import keys
from shardbatch.stores.outcome import TOKEN

#: A text column of a table that is asked for by value often enough for an index (behind the namespace).
INDEXED = {"shard_lease": "lease_owner", "batch": "owner"}
_MYSQL = ("mysql", "mariadb")
_DIALECTS = {"postgresql": postgresql, "sqlite": sqlite, "mysql": mysql, "mariadb": mysql}


def schema_of(prefix: str = "", schema: str | None = None) -> sa.MetaData:
    """All tables, their names behind ``prefix``, in a database schema."""
    metadata = sa.MetaData(schema=schema)
    for table in TABLES:
        _define(table, prefix, metadata)
    return metadata


def _define(table: Table, prefix: str, metadata: sa.MetaData) -> None:
    key = ("app_name", "stream_name", *table.key)
    sql = sa.Table(
        prefix + table.name,
        metadata,
        *(sa.Column(name, _key_type(name), primary_key=True) for name in key),
        *(sa.Column(column.name, _type(column.type)) for column in columns_of_table(table)),
        sa.Column(TOKEN, sa.String(32)),
        mysql_engine="InnoDB",
        mariadb_engine="InnoDB",
    )
    asked = INDEXED.get(table.name)
    if asked:
        name = f"{prefix}{table.name}_by_{asked}"
        columns = [sql.c["app_name"], sql.c["stream_name"], sql.c[asked]]
        # Of rows that have an owner only: else PostgreSQL, which knows nothing yet of a namespace just made, may walk
        # through all of it by this index to find one row, where the primary key would do.
        owned = sql.c[asked].is_not(None)
        sa.Index(
            name,
            *columns,
            mysql_length={asked: 191},
            mariadb_length={asked: 191},
            postgresql_where=owned,
            sqlite_where=owned,
        )


def _key_type(name: str) -> sa.types.TypeEngine[Any]:
    """Compared byte by byte everywhere, so that keys differ in case and come in one order."""
    size = keys.length(name)
    charset = "ascii" if name == "scope" else "utf8mb4"
    binary = mysql.VARCHAR(size, charset=charset, collation=charset + "_bin")
    return sa.String(size).with_variant(sa.String(size, collation="C"), "postgresql").with_variant(binary, *_MYSQL)


def _type(kind: str) -> sa.types.TypeEngine[Any]:
    if kind == "int":
        return sa.BigInteger()
    if kind == "bool":
        return sa.Boolean()
    return sa.Text().with_variant(mysql.MEDIUMTEXT(charset="utf8mb4", collation="utf8mb4_bin"), *_MYSQL)


def statements(dialect: str, prefix: str = "", schema: str | None = None) -> str:
    """The statements that make tables and indexes in a database of this dialect."""
    spoken = _DIALECTS[dialect].dialect()
    made: list[str] = []
    for table in schema_of(prefix, schema).tables.values():
        made.append(str(CreateTable(table).compile(dialect=spoken)))
        made.extend(str(CreateIndex(index).compile(dialect=spoken)) for index in table.indexes)
    lines = "\n".join(text.strip().replace("\t", "    ") + ";" for text in made).splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def pending(connection: sa.Connection, metadata: sa.MetaData) -> list[str]:
    """The statements that make the tables, columns and indexes that are missing; they only ever add something."""
    look, dialect = sa.inspect(connection), connection.dialect
    found: list[str] = []
    for table in metadata.tables.values():
        held: set[str | None] = set()
        if look.has_table(table.name, schema=table.schema):
            found.extend(_additions(dialect, table, _missing(look, table)))
            held = {index["name"] for index in look.get_indexes(table.name, schema=table.schema)}
        else:
            found.append(_text(CreateTable(table), dialect))
        found.extend(_text(CreateIndex(index), dialect) for index in table.indexes if index.name not in held)
    return found


def _additions(dialect: sa.Dialect, table: sa.Table, columns: list[sa.Column[Any]]) -> list[str]:
    named = dialect.identifier_preparer.format_table(table)
    return [f"ALTER TABLE {named} ADD COLUMN {_text(CreateColumn(column), dialect)}" for column in columns]


def _text(element: sa.schema.DDLElement | CreateColumn, dialect: sa.Dialect) -> str:
    return str(element.compile(dialect=dialect)).strip().replace("\t", "    ")


def make(connection: sa.Connection, metadata: sa.MetaData) -> None:
    """Make what is :func:`pending`. Fails if another process makes the same thing just now."""
    for statement in pending(connection, metadata):
        connection.exec_driver_sql(statement)


def check(connection: sa.Connection, metadata: sa.MetaData, store: str) -> None:
    """See that tables and columns are there.

    :raises StoreNotFound: naming what is missing, with the statements that add it where an earlier version made some.
    """
    missing: list[str] = []
    statements: list[str] = []
    look = sa.inspect(connection)
    absent = [table for table in metadata.tables.values() if not look.has_table(table.name, schema=table.schema)]
    if absent and len(absent) == len(metadata.tables):
        raise StoreNotFound(f"The table {absent[0].fullname} of {store} does not exist.")
    for table in metadata.tables.values():
        if table in absent:
            missing.append(f"the table {table.fullname}")
            statements.append(" ".join(_text(CreateTable(table), connection.dialect).split()))
            continue
        columns = _missing(look, table)
        missing.extend(f"{table.fullname}.{column.name}" for column in columns)
        statements.extend(_additions(connection.dialect, table, columns))
    if missing:
        raise StoreNotFound(
            "An earlier version made the tables of {}; they lack {}.".format(store, ", ".join(missing)),
            remedy="Let an owner of the tables run: {}; 'airflow shardbatch migrate --yes' does it where that is "
            "allowed, as the next claim does with create=True.".format("; ".join(statements)),
        )


def _missing(look: sa.Inspector, table: sa.Table) -> list[sa.Column[Any]]:
    held = {column["name"] for column in look.get_columns(table.name, schema=table.schema)}
    return [column for column in table.columns if column.name not in held]


if __name__ == "__main__":
    sys.stdout.write(statements(*sys.argv[1:]))
