# SPDX-License-Identifier: Apache-2.0
"""A lease store in this process's memory, for tests: of the use-cases, and users' own of their DAGs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from shardbatch.core.rows import APPLICATION, TABLES, Columns, Key, Namespace, Row, Table
from shardbatch.core.tables import row_type
from shardbatch.errors import StoreNotFound
from shardbatch.stores import outcome
from shardbatch.stores.outcome import TOKEN, Stored, Unclear, Write, Writes

#: Called around each write with ``"before"`` or ``"after"`` and the write; raising ``TimeoutError`` or
#: ``ConnectionError`` loses the request or its answer.
Fault = Callable[[str, Write], None]

Address = tuple[str, ...]


class Memory:
    """What several stores share, as several connections share a server."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.tables: dict[str, dict[Address, Columns]] = {}


_named: dict[str, Memory] = {}
_named_lock = threading.Lock()


def open_url(url: str, **options: Any) -> MemoryStore:
    """The store ``memory://NAME``; equal names share their rows."""
    with _named_lock:
        memory = _named.setdefault(url.partition("://")[2], Memory())
    return MemoryStore(memory, **options)


class MemoryStore:
    """Rows in a dictionary, under the same rules as the real stores; may be used by many threads.

    ``memory`` is shared by stores that see the same rows (default: one of its own). ``page_size`` (default 100 rows) is
    how many rows a list reads at once. ``fault`` injects lost requests and lost answers.
    """

    def __init__(
        self,
        memory: Memory | None = None,
        *,
        page_size: int = 100,
        create: bool = True,
        fault: Fault | None = None,
    ) -> None:
        self.memory = memory or Memory()
        self.page_size = page_size
        self.fault = fault
        self._create = create
        self._writes = Writes(backoff=0.001)

    @property
    def writes(self) -> int:
        """Writes sent so far."""
        return self._writes.sent

    def prepare(self) -> None:
        """Make the tables, or see that they are there."""
        with self.memory.lock:
            for table in TABLES:
                if self._create:
                    self.memory.tables.setdefault(table.name, {})
                self._table(table)

    def pending(self) -> tuple[str, ...]:
        """Tables that are not there."""
        with self.memory.lock:
            return tuple(f"table {table.name}" for table in TABLES if table.name not in self.memory.tables)

    def list(self, table: Table, namespace: Namespace, scope: str | None = "", **equal: str) -> Iterator[Row]:
        """The rows of a namespace and scope, or of all scopes, in key order, page by page."""
        start = (namespace.app_name, namespace.stream_name, *((scope,) if table.key and scope is not None else ()))
        last: Address = ()
        while True:
            with self.memory.lock:
                rows = self._table(table)
                page = sorted(address for address in rows if address[: len(start)] == start and address > last)
                page = page[: self.page_size]
                found = [dict(rows[address]) for address in page]
            for columns in found:
                if all(columns.get(name) == value for name, value in equal.items()):
                    yield row_type(table).from_columns(columns)
            if len(page) < self.page_size:
                return
            last = page[-1]

    def latest(self, table: Table, namespace: Namespace, scope: str, limit: int) -> Iterator[Row]:
        """The last rows of a namespace and scope, the last one first."""
        start = (namespace.app_name, namespace.stream_name, scope)
        with self.memory.lock:
            rows = self._table(table)
            last = sorted((address for address in rows if address[: len(start)] == start), reverse=True)[:limit]
            found = [dict(rows[address]) for address in last]
        yield from (row_type(table).from_columns(columns) for columns in found)

    def applications(self) -> Iterator[Columns]:
        """The columns of every namespace's application row."""
        with self.memory.lock:
            yield from [dict(columns) for columns in self._table(APPLICATION).values()]

    def get(self, key: Key) -> Row | None:
        """One row as it stands now."""
        with self.memory.lock:
            columns = self._table(key.table).get(_address(key))
            return None if columns is None else row_type(key.table).from_columns(dict(columns))

    def create(self, row: Row) -> bool:
        """Write a row if its key has none."""
        return self._writes.settle(outcome.creation(row), self._send, self._look)

    def replace(self, seen: Row, new: Row) -> bool:
        """Write ``new`` if the counter is still that of ``seen``."""
        return self._writes.settle(outcome.replacement(seen, new), self._send, self._look)

    def create_many(self, rows: Sequence[Row]) -> Sequence[bool]:
        """As :meth:`create` for each."""
        return [self.create(row) for row in rows]

    def replace_many(self, changes: Sequence[tuple[Row, Row]]) -> Sequence[bool]:
        """As :meth:`replace` for each."""
        return [self.replace(seen, new) for seen, new in changes]

    def delete(self, seen: Row) -> bool:
        """Remove the row if the counter is still that of ``seen``."""
        return self._writes.settle(outcome.deletion(seen), self._send, self._look)

    def close(self) -> None:
        """Nothing to give back; the rows stay with ``memory``."""

    def _send(self, write: Write) -> bool:
        try:
            if self.fault:
                self.fault("before", write)
            with self.memory.lock:
                applied = self._apply(write)
            if self.fault:
                self.fault("after", write)
        except (TimeoutError, ConnectionError) as error:
            raise Unclear(str(error)) from error
        return applied

    def _apply(self, write: Write) -> bool:
        key, rows = write.key, self._table(write.key.table)
        stored = rows.get(_address(key))
        if (None if stored is None else stored[key.table.counter]) != write.before:
            return False
        if write.deletes:
            del rows[_address(key)]
        else:
            rows[_address(key)] = {**(stored or {}), **key.columns(), **write.row.columns(), TOKEN: write.token}
        return True

    def _look(self, key: Key) -> Stored | None:
        with self.memory.lock:
            columns = self._table(key.table).get(_address(key))
            return None if columns is None else Stored(columns[key.table.counter], columns.get(TOKEN))

    def _table(self, table: Table) -> dict[Address, Columns]:
        if table.name not in self.memory.tables:
            raise StoreNotFound(f"The table {table.name} of this memory store does not exist.")
        return self.memory.tables[table.name]


def _address(key: Key) -> Address:
    return tuple(key.columns().values())
