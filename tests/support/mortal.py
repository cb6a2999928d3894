# SPDX-License-Identifier: Apache-2.0
"""A lease store in whose hands a caller dies: before or after the n-th write that it makes."""

from __future__ import annotations

from collections.abc import Iterator

from shardbatch.core.ports import LeaseStore
from shardbatch.core.rows import Key, Namespace, Row, Table
from tests.support.one_by_one import OneByOne


class Killed(BaseException):
    """The process is gone; nothing of it runs on."""


class MortalStore(OneByOne):
    """Passes everything on to a store, and kills its caller at one write."""

    def __init__(self, store: LeaseStore, at: int, *, applied: bool) -> None:
        self._store = store
        self._left = at
        self._applied = applied
        self.dead = False

    def _step(self) -> bool:
        """Whether this is the write to die at."""
        if self.dead:
            raise Killed
        self._left -= 1
        self.dead = self._left < 0
        if self.dead and not self._applied:
            raise Killed
        return self.dead

    def create(self, row: Row) -> bool:
        dying = self._step()
        done = self._store.create(row)
        if dying:
            raise Killed
        return done

    def replace(self, seen: Row, new: Row) -> bool:
        dying = self._step()
        done = self._store.replace(seen, new)
        if dying:
            raise Killed
        return done

    def delete(self, seen: Row) -> bool:
        dying = self._step()
        done = self._store.delete(seen)
        if dying:
            raise Killed
        return done

    def prepare(self) -> None:
        self._store.prepare()

    def list(self, table: Table, namespace: Namespace, scope: str | None = "", **equal: str) -> Iterator[Row]:
        return self._store.list(table, namespace, scope, **equal)

    def get(self, key: Key) -> Row | None:
        return self._store.get(key)

    def close(self) -> None:
        self._store.close()
