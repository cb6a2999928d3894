# SPDX-License-Identifier: Apache-2.0
"""The lease store in a SQL database: PostgreSQL, SQLite, MySQL or MariaDB through SQLAlchemy Core.

Every operation is one statement that commits itself, or one transaction over many rows that none of them depends on
another in. So no transaction is ever open between two calls.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import exc

from shardbatch.core.rows import APPLICATION, Columns, Key, Namespace, Row, Table
from shardbatch.core.tables import row_type
from shardbatch.errors import StoreError, StoreNotFound
from shardbatch.masking import masked, shown
from shardbatch.stores import outcome
from shardbatch.stores.outcome import TOKEN, Stored, Unclear, Write, Writes
from shardbatch.stores.schema import check, make, pending, schema_of
from shardbatch.stores.sql_engine import ask_for_password, cause_of, open_engine, reason_of, transaction
from shardbatch.stores.sql_statements import behind, creations, replacements, stored_of
from shardbatch.stores.time_limit import DEFAULT_S, TimeLimit

T = TypeVar("T")


def open_url(url: str, **options: Any) -> SQLStore:
    """The store at a SQLAlchemy URL."""
    return SQLStore(url, **options)


class SQLStore:
    """Rows in a few tables; may be used by many threads.

    :param engine: a SQLAlchemy URL or an engine. Its password is never shown.
    :param create: make missing tables, columns and indexes in :meth:`prepare` (default), else only check for them.
    :param prefix: stands before the tables' names (default: nothing).
    :param schema: schema of the tables (default: the connection's own).
    :param page_size: rows that a list reads with one statement (default 500).
    :param arguments: what the driver is told beside the URL (default: nothing); never shown.
    :param password: gives the password of each new connection, in place of the URL's (default: nothing does).
    :param time_limit: seconds that one call of the database may take (default 30); a call that takes longer fails, and
        a write whose answer did not come is looked for. No call goes on for more than three times that.
    :raises ConfigurationError: for a URL that cannot be read, a missing driver, or SQLite without a file.
    """

    def __init__(
        self,
        engine: str | sa.URL | sa.Engine,
        *,
        create: bool = True,
        prefix: str = "",
        schema: str | None = None,
        page_size: int = 500,
        arguments: Mapping[str, Any] | None = None,
        password: Callable[[], str] | None = None,
        time_limit: float = DEFAULT_S,
    ) -> None:
        engine, self._secrets = open_engine(engine, arguments or {}, time_limit)
        if password is not None:
            ask_for_password(engine, password)
        #: The engine; its connections commit every statement.
        self.engine = engine
        self._limit = TimeLimit(engine, time_limit)
        self.page_size = page_size
        self._create = create
        self._metadata = schema_of(prefix, schema)
        self._schema = schema
        self._prefix = prefix
        self._writes = Writes(within=2 * time_limit)

    def __repr__(self) -> str:
        return f"SQLStore({masked(self.engine.url.render_as_string(hide_password=True), self._secrets)!r})"

    @property
    def writes(self) -> int:
        """Writes sent so far."""
        return self._writes.sent

    def prepare(self) -> None:
        """Make what is missing of tables, columns and indexes, or see that it is there; many may do so at once.

        :raises StoreNotFound: if a table or column is missing and ``create`` is off.
        """
        began = time.monotonic()
        for turn in range(1, 11):
            try:
                with self._connected() as connection:
                    if self._create:
                        make(connection, self._metadata)
                    check(connection, self._metadata, repr(self))
                return
            except exc.SQLAlchemyError as error:  # another process may just have made it: look again
                late = time.monotonic() - began > self._limit.seconds
                if turn == 10 or late or getattr(error, "connection_invalidated", False):
                    text = f"The tables of {self!r} cannot be prepared: {self._reason(error)}."
                    raise StoreError(text) from self._shown(error)
                time.sleep(random.uniform(0, 0.05) * turn)

    def pending(self) -> tuple[str, ...]:
        """The statements that :meth:`prepare` would send, if it may."""
        try:
            with self._connected() as connection:
                return tuple(pending(connection, self._metadata))
        except exc.SQLAlchemyError as error:
            text = f"The tables of {self!r} cannot be looked at: {self._reason(error)}."
            raise StoreError(text) from self._shown(error)

    def list(self, table: Table, namespace: Namespace, scope: str | None = "", **equal: str) -> Iterator[Row]:
        """The rows of a namespace and scope, or of all scopes, in key order, one statement a page."""
        sql = self._table(table)
        fixed = {"app_name": namespace.app_name, "stream_name": namespace.stream_name, **equal}
        if table.key and scope is not None:
            fixed[table.key[0]] = scope
        query = sa.select(*self._columns(table)).where(*(sql.c[name] == value for name, value in fixed.items()))
        for columns in self._pages(query, [sql.c[name] for name in table.key if name not in fixed]):
            yield row_type(table).from_columns(columns)

    def latest(self, table: Table, namespace: Namespace, scope: str, limit: int) -> Iterator[Row]:
        """The last rows of a namespace and scope, the last one first, one statement a page."""
        sql = self._table(table)
        fixed = {"app_name": namespace.app_name, "stream_name": namespace.stream_name, table.key[0]: scope}
        query = sa.select(*self._columns(table)).where(*(sql.c[name] == value for name, value in fixed.items()))
        key = sql.c[table.key[-1]]
        asked = query
        while limit > 0:
            size = min(limit, self.page_size)
            page = self._ask(asked.order_by(key.desc()).limit(size))
            for columns in page:
                yield row_type(table).from_columns(columns)
            if len(page) < size:
                return
            limit -= size
            asked = query.where(key < page[-1][key.name])

    def applications(self) -> Iterator[Columns]:
        """The columns of every namespace's application row."""
        sql = self._table(APPLICATION)
        for columns in self._pages(sa.select(*self._columns(APPLICATION)), [sql.c.app_name, sql.c.stream_name]):
            yield dict(columns)

    def _pages(self, query: sa.Select[Any], order: Sequence[sa.Column[Any]]) -> Iterator[Mapping[str, Any]]:
        query = query.order_by(*order).limit(self.page_size)
        page: Sequence[Mapping[str, Any]] = self._ask(query)
        while page:
            yield from page
            if len(page) < self.page_size or not order:
                return
            page = self._ask(query.where(behind(order, page[-1])))

    def get(self, key: Key) -> Row | None:
        """One row as it stands now."""
        query = sa.select(*self._columns(key.table)).where(*self._at(key))
        for columns in self._ask(query):
            return row_type(key.table).from_columns(columns)
        return None

    def create(self, row: Row) -> bool:
        """Write a row if its key has none."""
        return self._writes.settle(outcome.creation(row), self._send, self._look)

    def replace(self, seen: Row, new: Row) -> bool:
        """Write ``new`` if the counter is still that of ``seen``; columns that this version does not know stay."""
        return self._writes.settle(outcome.replacement(seen, new), self._send, self._look)

    def create_many(self, rows: Sequence[Row]) -> Sequence[bool]:
        """As :meth:`create` for each, ``page_size`` of them in one transaction."""
        return self._settle_all(rows, outcome.creations)

    def replace_many(self, changes: Sequence[tuple[Row, Row]]) -> Sequence[bool]:
        """As :meth:`replace` for each, ``page_size`` of them in one transaction."""
        return self._settle_all(changes, outcome.replacements)

    def delete(self, seen: Row) -> bool:
        """Remove the row if the counter is still that of ``seen``."""
        return self._writes.settle(outcome.deletion(seen), self._send, self._look)

    def close(self) -> None:
        """Close the connections."""
        self.engine.dispose()

    def _table(self, table: Table) -> sa.Table:
        name = self._prefix + table.name
        return self._metadata.tables[name if self._schema is None else f"{self._schema}.{name}"]

    def _columns(self, table: Table) -> Sequence[sa.Column[Any]]:
        return [column for column in self._table(table).columns if column.name != TOKEN]

    def _at(self, key: Key) -> Sequence[sa.ColumnElement[bool]]:
        sql = self._table(key.table)
        return [sql.c[name] == value for name, value in key.columns().items()]

    def _send(self, write: Write) -> bool:
        sql, key = self._table(write.key.table), write.key
        stored = (*self._at(key), sql.c[key.table.counter] == write.before)
        values = {**write.row.columns(), TOKEN: write.token}
        statement: sa.Insert | sa.Update | sa.Delete
        if write.deletes:
            statement = sa.delete(sql).where(*stored)
        elif write.before is None:
            statement = sa.insert(sql).values(**key.columns(), **values)
        else:
            statement = sa.update(sql).where(*stored).values(**values)
        try:
            with self._connected() as connection:
                done = connection.execute(statement)
                return write.before is None or done.rowcount == 1
        except exc.IntegrityError:  # only a create can break a constraint: the primary key
            return False
        except exc.SQLAlchemyError as error:
            raise self._judge(error, write.name) from self._shown(error)

    def _settle_all(self, asked: Sequence[T], writes_of: Callable[[Sequence[T]], Sequence[Write]]) -> Sequence[bool]:
        answers: list[bool] = []
        for first in range(0, len(asked), self.page_size):
            writes = writes_of(asked[first : first + self.page_size])
            answers += self._writes.settle_all(writes, self._send_all, self._look_all)
        return answers

    def _send_all(self, writes: Sequence[Write]) -> Sequence[bool]:
        """Creations only, or replacements only, in one transaction; each row is still its own compare-and-set."""
        if len(writes) == 1:
            return [self._send(writes[0])]
        sql = self._table(writes[0].key.table)
        ordered = sorted(writes, key=lambda write: write.key.values)  # so that no two of these wait crosswise
        make = creations if writes[0].before is None else replacements
        statement, values = make(sql, self.engine.dialect, ordered)
        places = [write.key for write in ordered]
        try:
            with self._limit.call(), transaction(self.engine) as connection:
                if connection.exec_driver_sql(statement, values).rowcount == len(writes):
                    return [True] * len(writes)
                stored = stored_of(connection, sql, places)
        except exc.IntegrityError:  # a row is there already, and so none was written
            stored = self._look_all(places)
            return [write.key.values not in stored and self._send(write) for write in writes]
        except exc.SQLAlchemyError as error:
            raise self._judge(error, f"write of {len(writes)} rows") from self._shown(error)
        found = (stored.get(write.key.values) for write in writes)
        return [row is not None and row.token == write.token for row, write in zip(found, writes, strict=True)]

    def _look_all(self, places: Sequence[Key]) -> dict[tuple[str, ...], Stored]:
        sql = self._table(places[0].table)
        try:
            with self._connected() as connection:
                return stored_of(connection, sql, places)
        except exc.SQLAlchemyError as error:
            raise self._judge(error, "read") from self._shown(error)

    def _look(self, key: Key) -> Stored | None:
        sql = self._table(key.table)
        query = sa.select(sql.c[key.table.counter].label("counter"), sql.c[TOKEN]).where(*self._at(key))
        for columns in self._fetch(query):
            return Stored(int(columns["counter"]), columns[TOKEN])
        return None

    def _ask(self, query: sa.Select[Any]) -> Sequence[Mapping[str, Any]]:
        return self._writes.ask(f"The lease store {self!r}", lambda: self._fetch(query))

    def _fetch(self, query: sa.Select[Any]) -> Sequence[Mapping[str, Any]]:
        try:
            with self._connected() as connection:
                found = connection.execute(query)
                names = tuple(found.keys())
                return [dict(zip(names, row, strict=True)) for row in found]
        except exc.SQLAlchemyError as error:
            raise self._judge(error, "read") from self._shown(error)

    @contextmanager
    def _connected(self) -> Iterator[sa.Connection]:
        with self._limit.call(), self.engine.connect() as connection:
            yield connection

    def _reason(self, error: exc.SQLAlchemyError) -> str:
        return reason_of(error, self._secrets)

    def _shown(self, error: exc.SQLAlchemyError) -> BaseException | None:
        return shown(error, self._secrets)

    def _judge(self, error: exc.SQLAlchemyError, what: str) -> Exception:
        """What a failed statement means: the outcome is unknown, or the statement cannot work."""
        reason = self._reason(error)
        text = reason.lower()
        if "no such table" in text or "doesn't exist" in text or getattr(cause_of(error), "sqlstate", "") == "42P01":
            return StoreNotFound(f"A table of {self!r} is missing: {reason}.")
        unclear = (exc.OperationalError, exc.InterfaceError, exc.InternalError, exc.TimeoutError)
        if isinstance(error, unclear) or getattr(error, "connection_invalidated", False):
            return Unclear(reason)
        return StoreError(f"The {what} failed in {self!r}: {reason}.")
