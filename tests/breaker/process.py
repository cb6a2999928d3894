# SPDX-License-Identifier: Apache-2.0
"""Processes that a test moves one step at a time: every call to the world is a place where others may come between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from shardbatch.core.ports import LeaseStore, Page
from shardbatch.core.position import Position
from shardbatch.core.rows import Key, Namespace, Row, Table
from shardbatch.errors import StoreError

#: Seconds after which a step that does not come back is a fault of the test.
PATIENCE = 30.0


class Killed(BaseException):
    """The process is gone."""


class Process:
    """One attempt of one task in a thread of its own, that runs only while the test steps it.

    ``fate`` decides the next write: ``go`` on, ``lost`` (made, no answer arrives), ``refused`` (not made, an error).
    """

    def __init__(self, name: str, run: str, task: str, body: Callable[[Process], Any]) -> None:
        self.name, self.run, self.task = name, run, task
        self.result: Any = None
        self.error: BaseException | None = None
        self.finished = False
        self.abandoned = False
        self.fate = "go"
        self._turn = threading.Semaphore(0)
        self._parked = threading.Semaphore(0)
        self._dying = False
        self._thread = threading.Thread(target=self._main, args=(body,), name=name, daemon=True)
        self._thread.start()
        self._wait()

    def _main(self, body: Callable[[Process], Any]) -> None:
        self.pause()
        try:
            if not self._dying:
                self.result = body(self)
        except BaseException as error:  # noqa: BLE001 - the thread ends as a process would, whatever it is
            self.error = error
        self.finished = True
        self._parked.release()

    def _wait(self) -> None:
        if not self._parked.acquire(timeout=PATIENCE):
            raise AssertionError(f"{self.name} does not come back from its step")

    def pause(self) -> None:
        """Called by the process: let the others go on, until it is stepped again."""
        if self._dying:
            raise Killed
        self._parked.release()
        self._turn.acquire()
        if self._dying:
            raise Killed

    def step(self, fate: str = "go") -> None:
        """Let it go on to its next call of the world, or to its end."""
        assert not self.finished
        self.fate = fate
        self._turn.release()
        self._wait()

    def kill(self) -> None:
        """SIGKILL: not one more write."""
        if not self.finished:
            self._dying = True
            self._turn.release(8)  # a read has a thread of its own beside the task's
            self._thread.join(PATIENCE)
            self.finished = True
            self.error = self.error or Killed()

    def end(self) -> None:
        """Run it to its end without anybody coming between."""
        while not self.finished:
            self.step()


class SteppedStore:
    """A process's way to the lease store."""

    def __init__(self, store: LeaseStore, process: Process) -> None:
        self._store, self._process = store, process

    def _write(self, write: Callable[[], bool]) -> bool:
        self._process.pause()
        fate, self._process.fate = self._process.fate, "go"
        if fate == "refused":
            raise StoreError("The store did not answer.")
        done = write()
        if fate == "lost":
            raise StoreError("The answer of the store did not arrive.")
        return done

    def create(self, row: Row) -> bool:
        return self._write(lambda: self._store.create(row))

    def replace(self, seen: Row, new: Row) -> bool:
        return self._write(lambda: self._store.replace(seen, new))

    def delete(self, seen: Row) -> bool:
        return self._write(lambda: self._store.delete(seen))

    def get(self, key: Key) -> Row | None:
        self._process.pause()
        return self._store.get(key)

    def list(self, table: Table, namespace: Namespace, scope: str = "", **equal: str) -> Iterator[Row]:
        self._process.pause()
        return iter(list(self._store.list(table, namespace, scope, **equal)))

    def prepare(self) -> None:
        self._store.prepare()

    def close(self) -> None:
        self._store.close()


class SteppedSource:
    """A process's way to the stream."""

    def __init__(self, stream: Any, process: Process) -> None:
        self._stream, self._process = stream, process
        self.name, self.capabilities = stream.name, stream.capabilities

    def identity(self) -> str:
        return str(self._stream.identity())

    def retention_ms(self) -> int | None:
        return self._stream.retention_ms()  # type: ignore[no-any-return]

    def resolve(self, start: Position) -> Position:
        return self._stream.resolve(start)  # type: ignore[no-any-return]

    def list_shards(self) -> Any:
        self._process.pause()
        return self._stream.list_shards()

    def read(self, shard_id: str, after: Position) -> Iterator[Page]:
        for page in self._stream.read(shard_id, after):
            self._process.pause()
            yield page

    def close(self) -> None:
        self._stream.close()


class SteppedLanding:
    """A process's way to the staging area."""

    def __init__(self, landing: Any, process: Process) -> None:
        self._landing, self._process = landing, process
        self.uri = landing.uri

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._landing, name)
        if name in ("write_manifest", "note_attempt", "finished_starts", "mark_committed", "slice"):

            def call(*arguments: Any) -> Any:
                self._process.pause()
                return found(*arguments)

            return call
        return found
