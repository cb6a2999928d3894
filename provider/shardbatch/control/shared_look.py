# SPDX-License-Identifier: Apache-2.0
"""One look at an application's rows, and at its stream, that serves all questions of a process.

Questions read in their own order, and what a read promises may rest on it: C7 looks twice. So a look remembers what
was read as a tree: two questions share reads as long as both have read the same, in the same order. Where one goes
another way, it reads for itself, later. Each question sees what it would have seen alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

from shardbatch.core.ports import LeaseStore
from shardbatch.core.rows import BATCH, Columns, Key, Namespace, Row, Table
from shardbatch.errors import ProtocolError, ShardbatchError


@dataclass
class _Step:
    """A read that was made, or failed, and what was read behind it."""

    found: Any = None
    error: ShardbatchError | None = None
    next: dict[Hashable, _Step] = field(default_factory=dict)


class Rest:
    """When the tips of a stream may be asked for again: at once after a look that found all of them, and after ever
    longer pauses while looks find less. One for each application, from look to look.

    :param shortest_s: seconds of the first pause; each following one is twice as long.
    :param longest_s: seconds of the longest.
    """

    def __init__(self, shortest_s: float = 60.0, longest_s: float = 960.0) -> None:
        self._shortest_s, self._longest_s = shortest_s, longest_s
        self._pause_s, self._until = 0.0, float("-inf")
        #: What the last look found missing.
        self.note = ""

    def over(self, now: float) -> bool:
        """Whether the pause is over, by a clock that only runs forward."""
        return now >= self._until

    def found(self, missing: str, now: float) -> None:
        """A look ended; ``missing`` says which tips it did not find, and is empty if it found all. Of several questions
        of one look, the first that missed some counts."""
        if not self.over(now):
            return
        self.note = missing
        self._pause_s = 0.0 if not missing else min(self._longest_s, max(self._shortest_s, 2 * self._pause_s))
        self._until = now + self._pause_s


class Look:
    """What was read so far, and shall be shared.

    :param rest: of the look before, if there was one.
    """

    def __init__(self, rest: Rest | None = None) -> None:
        self.rest = rest or Rest()
        self._begin = _Step()
        self._lock = threading.Lock()

    def path(self) -> Path:
        """The way of one more question, from the beginning."""
        return Path(self._begin, self._lock)


class Path:
    """What one question reads, in its order."""

    def __init__(self, begin: _Step, lock: threading.Lock) -> None:
        self._at: _Step | None = begin
        self._lock = lock

    def read(self, what: Hashable, make: Callable[[], Any]) -> Any:
        """What another question read here, or else what ``make`` reads now.

        :raises ShardbatchError: if that read failed; then it fails for all.
        """
        with self._lock:
            if self._at is None:
                return make()
            known = self._at.next.get(what)
            if known is None:
                known = self._at.next[what] = _made(make)
            self._at = known
        if known.error is not None:
            raise known.error
        return known.found

    def leave(self) -> None:
        """From here on this question reads for itself."""
        self._at = None


def _made(make: Callable[[], Any]) -> _Step:
    try:
        return _Step(make())
    except ShardbatchError as error:
        return _Step(error=error)


class SharedStore:
    """The rows of a store, read along a path: a :class:`shardbatch.core.ports.LeaseStore` that writes nothing.

    :param opened: the store; it is opened at the first read that was not made before, and closed by :meth:`close`.
    """

    def __init__(self, path: Path, opened: Callable[[], AbstractContextManager[LeaseStore]]) -> None:
        self._path = path
        self._opened = opened
        self._stack = ExitStack()
        self._store: LeaseStore | None = None

    def _open(self) -> LeaseStore:
        if self._store is None:
            self._store = self._stack.enter_context(self._opened())
        return self._store

    def _anew(self) -> LeaseStore:
        """The store, which reads for this question alone from here on."""
        self._path.leave()
        return self._open()

    def close(self) -> None:
        """Close the store, if it was opened."""
        self._stack.close()

    def prepare(self) -> None:
        """Nothing is made."""

    def pending(self) -> tuple[str, ...]:
        """Nothing would be made."""
        return ()

    def list(self, table: Table, namespace: Namespace, scope: str | None = "", **equal: str) -> Iterator[Row]:
        """The rows of a namespace. All batches are too many to be kept, so they are read anew."""
        if table is BATCH and not equal:
            return self._anew().list(table, namespace, scope)
        what = ("list", table.name, namespace, scope, tuple(sorted(equal.items())))
        found = self._path.read(what, lambda: tuple(self._open().list(table, namespace, scope, **equal)))
        return iter(cast("tuple[Row, ...]", found))

    def latest(self, table: Table, namespace: Namespace, scope: str, limit: int) -> Iterator[Row]:
        """The last rows of a namespace; read anew."""
        return self._anew().latest(table, namespace, scope, limit)

    def applications(self) -> Iterator[Columns]:
        """The columns of every application."""
        return iter(self._path.read("applications", lambda: tuple(self._open().applications())))

    def get(self, key: Key) -> Row | None:
        """One row."""
        found: Row | None = self._path.read(("get", key), lambda: self._open().get(key))
        return found

    def create(self, row: Row) -> bool:
        """Refused."""
        _refuse()

    def replace(self, seen: Row, new: Row) -> bool:
        """Refused."""
        _refuse()

    def create_many(self, rows: Sequence[Row]) -> Sequence[bool]:
        """Refused."""
        _refuse()

    def replace_many(self, changes: Sequence[tuple[Row, Row]]) -> Sequence[bool]:
        """Refused."""
        _refuse()

    def delete(self, seen: Row) -> bool:
        """Refused."""
        _refuse()


def _refuse() -> NoReturn:
    raise ProtocolError("A question of a sensor tried to write.", remedy="This is a fault in shardbatch.")
