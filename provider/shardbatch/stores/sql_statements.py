# SPDX-License-Identifier: Apache-2.0
"""Statements of the SQL lease store for many rows of one table, namespace and scope at once.

They are compiled here and go to the driver as they are: SQLAlchemy's own way costs more for each row than the database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from shardbatch.core.rows import Columns, Key
from shardbatch.stores.outcome import TOKEN, Stored, Write

#: A statement, and the driver's form of its values for each row.
Bound = tuple[str, Sequence[Any]]

# Of the values in an update: where the row stands, and the counter that it must have.
AT, BEFORE = "at_", "before"


def behind(order: Sequence[sa.Column[Any]], last: Mapping[str, Any]) -> sa.ColumnElement[bool]:
    """Rows that come after one in this order of columns, in words that every database walks its index by."""
    first, *rest = order
    value = last[first.name]
    if not rest:
        beyond: sa.ColumnElement[bool] = first > value
        return beyond
    return sa.and_(first >= value, sa.or_(first > value, behind(rest, last)))


def creations(sql: sa.Table, dialect: sa.Dialect, writes: Sequence[Write]) -> Bound:
    """Rows that must not be there yet."""
    fixed, last = writes[0].key.columns(), writes[0].key.table.key[-1]
    values = [{**fixed, last: write.key.values[-1], **write.row.columns(), TOKEN: write.token} for write in writes]
    return _bound(_insertion(sql, dialect), values)


def replacements(sql: sa.Table, dialect: sa.Dialect, writes: Sequence[Write]) -> Bound:
    """Rows that must have the counter that was seen."""
    fixed = {AT + name: value for name, value in writes[0].key.columns().items()}
    last = AT + writes[0].key.table.key[-1]
    values = [
        {
            **write.row.columns(),
            TOKEN: write.token,
            **fixed,
            last: write.key.values[-1],
            BEFORE: write.before,
        }
        for write in writes
    ]
    changed = tuple(name for name in values[0] if name in sql.c)
    return _bound(_update(sql, dialect, writes[0].key.table.counter, changed), values)


@lru_cache(maxsize=32)
def _insertion(sql: sa.Table, dialect: sa.Dialect) -> sa.Compiled:
    return sa.insert(sql).compile(dialect=dialect)


@lru_cache(maxsize=32)
def _update(sql: sa.Table, dialect: sa.Dialect, counter: str, changed: tuple[str, ...]) -> sa.Compiled:
    at = [column == sa.bindparam(AT + column.name) for column in sql.primary_key]
    statement = sa.update(sql).where(*at, sql.c[counter] == sa.bindparam(BEFORE))
    return statement.values({name: sa.bindparam(name) for name in changed}).compile(dialect=dialect)


def _bound(compiled: Any, values: Sequence[Columns]) -> Bound:
    """Some drivers take values by name, others in the order of the statement."""
    order = compiled.positiontup
    return str(compiled), values if order is None else list(map(itemgetter(*order), values))


def stored_of(connection: sa.Connection, sql: sa.Table, places: Sequence[Key]) -> dict[tuple[str, ...], Stored]:
    """What is there of rows, by the values of their keys."""
    key = places[0]
    name, counter = sql.c[key.table.key[-1]], sql.c[key.table.counter]
    beside = [sql.c[column] == value for column, value in key.columns().items() if column != name.name]
    query = sa.select(name, counter, sql.c[TOKEN]).where(*beside, name.in_([place.values[-1] for place in places]))
    return {(*key.values[:-1], last): Stored(int(count), token) for last, count, token in connection.execute(query)}
