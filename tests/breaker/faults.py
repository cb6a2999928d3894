# SPDX-License-Identifier: Apache-2.0
"""What a process may meet on its way to the lease store, the stream and the staging area.

A fate is drawn for the one call that the process is about to make; words that do not fit the call mean "go".
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from shardbatch.core.ports import Page, Verdict
from shardbatch.core.position import Position
from shardbatch.core.rows import BATCH, Key, Namespace, Row, Table
from shardbatch.errors import OwnerUnknown, StagingError, StoreError, Throttled
from shardbatch.run.hold import Held
from shardbatch.stores.outcome import Unclear, Write
from tests.breaker.process import Process
from tests.breaker.table_client import Broken
from tests.breaker.truth import look
from tests.support.scripted import of_lag

if TYPE_CHECKING:
    from tests.breaker.world import World

#: What may become of each kind of call.
FATES = {
    # refused: not written, an error.  lost: written, an error.  late: an error, and written later if it still can be.
    # unclear: written, but the answer is lost, and the store reads back after others came between.  resent: not even
    # written, else the same.
    "write": ("refused", "lost", "late", "unclear", "resent"),
    # backwards: of writes that have no order among them, the last comes first.
    "many": ("backwards",),
    # stale: rows as they were some writes ago, all or one of them; a list may so show rows of different ages.
    "list": ("stale",),
    "get": ("stale",),
    # throttled: an error.  old: as before the last reshard.  racing: children whose parents are still shown open.
    # lacking: without the closed shards that have children; never twice in a row.
    "listing": ("throttled", "old", "racing", "lacking"),
    # throttled: an error, also for cut answers and expired iterators that the source gave up.  broken: another error.
    # empty, vague: a page of nothing, behind or no answer.  idle: several such pages, each as far behind as
    # the one before.  tip: a lag of zero beside records.  childless: names none.
    "page": ("throttled", "broken", "empty", "idle", "vague", "tip", "childless"),
    # of a table's stream: errors of the service, and listings as above, in each page of them.  circle: its cursor is
    # that of the page before.
    "describe": ("throttled", "failed", "cut", "old", "racing", "lacking", "circle"),
    # none: an answer without an iterator.  trimmed, unknown: the service errs about a shard.
    "iterator": ("throttled", "failed", "none", "trimmed", "unknown"),
    # expired: an iterator that is too young for it.  slow: others come between an answer and its arrival.
    "records": ("throttled", "failed", "cut", "expired", "trimmed", "unknown", "empty", "broken", "slow", "slow"),
    "landing": ("refused", "lost"),
    # down: the question fails.  wrong: a run that is active is taken for over.
    "question": ("down", "wrong"),
    # unreachable: the cluster cannot be asked to end an older application.
    "cancel": ("unreachable",),
    # broken: the application fails.  swallowed: the block that it is in fails, and it goes on to a good end.
    "work": ("broken", "swallowed"),
}


#: Pages of nothing that come in a row where a lag does not become zero.
IDLE = 6
#: Calls to the staging area that may fail, and that others may come before.
STEPPED = (
    "write_manifest",
    "read_manifest",
    "read_manifests",
    "records",
    "note_attempt",
    "starts_of",
    "leave_end",
    "finished_starts",
    "slice",
)


class SteppedStore:
    """A process's way to the lease store, whichever that is: all of ours send a write through ``_send``."""

    def __init__(self, world: World, process: Process) -> None:
        self.process = process
        self._world = world
        self._store: Any = copy.copy(world.store)
        self._sends = self._store._send
        self._store._send = self._send
        self._fate = ""
        self._rows: tuple[Row | None, Row | None] = (None, None)

    def _write(self, verb: str, old: Row | None, new: Row | None) -> bool:
        self._fate = self.process.pause("write").word
        if self._fate == "refused":
            raise StoreError("The store did not answer.")
        if self._fate == "late":
            self._world.late.append((self.process, verb, old, new))
            raise StoreError("The store did not answer in time.")
        self._rows = old, new
        lost = self._fate == "lost"
        done: bool = getattr(self._store, verb)(*(row for row in (old, new) if row is not None))
        if lost:
            raise StoreError("The answer of the store did not arrive.")
        return done

    def _send(self, write: Write) -> bool:
        fate, self._fate = self._fate, ""
        if fate == "resent":
            self.process.pause("answer")
            raise Unclear("the request did not arrive")
        done: bool = self._sends(write)
        if done:
            self._world.wrote(self.process, *self._rows)
        if fate == "unclear":
            self.process.pause("answer")
            raise Unclear("the answer did not arrive")
        return done

    def create(self, row: Row) -> bool:
        return self._write("create", None, row)

    def replace(self, seen: Row, new: Row) -> bool:
        return self._write("replace", seen, new)

    def delete(self, seen: Row) -> bool:
        return self._write("delete", seen, None)

    def create_many(self, rows: Sequence[Row]) -> Sequence[bool]:
        return self._each([partial(self.create, row) for row in rows])

    def replace_many(self, changes: Sequence[tuple[Row, Row]]) -> Sequence[bool]:
        return self._each([partial(self.replace, seen, new) for seen, new in changes])

    def _each(self, writes: Sequence[Callable[[], bool]]) -> Sequence[bool]:
        if len(writes) > 1 and self.process.pause("many").word == "backwards":
            return [write() for write in reversed(writes)][::-1]
        return [write() for write in writes]

    def get(self, key: Key) -> Row | None:
        fate = self.process.pause("get")
        if fate.word == "stale":
            return self._world.as_it_was(key.table, key.values[0] if key.values else "", fate).get(key)
        row: Row | None = self._store.get(key)
        return row

    def list(self, table: Table, namespace: Namespace, scope: str | None = "", **equal: str) -> Iterator[Row]:
        fate = self.process.pause("list")
        if fate.word == "stale" and scope == "":  # an interval's rows are all there before freeze asks for them (T3)
            self.process.misled |= table is BATCH
            rows = self._world.as_it_was(table, scope, fate)
            return iter([row for _, row in sorted(rows.items(), key=lambda item: item[0].values) if fits(row, equal)])
        return iter(list(self._store.list(table, namespace, scope, **equal)))

    def prepare(self) -> None:
        """The tables are there."""

    def close(self) -> None:
        """The store is everybody's."""


def fits(row: Row, equal: dict[str, str]) -> bool:
    columns = row.columns()
    return all(columns[name] == value for name, value in equal.items())


class SteppedSource:
    """A process's way to the stream."""

    def __init__(self, world: World, process: Process) -> None:
        self._lacking = False
        self._stream, self._process = world.stream, process
        self.name, self.capabilities, self.words = world.stream.name, world.stream.capabilities, world.stream.words

    def identity(self) -> str:
        return self._stream.identity()

    def retention_ms(self) -> int | None:
        return self._stream.retention_ms()

    def missing(self, listing: Any) -> str:
        return self._stream.missing(listing)

    def open_at(self, instant_ms: int) -> Any:
        return self._stream.open_at(instant_ms)

    def clock_ms(self) -> int | None:
        return self._stream.clock_ms()

    def resolve(self, start: Position, shard_id: str | None = None) -> Position:
        return self._stream.resolve(start, shard_id)

    def list_shards(self) -> Any:
        fate = self._process.pause("listing").word
        if fate == "throttled":
            raise Throttled("The stream does not list its shards now.")
        self._lacking = fate == "lacking" and not self._lacking
        return self._stream.seen("" if fate == "lacking" and not self._lacking else fate)

    def read(self, shard_id: str, after: Position) -> Iterator[Page]:
        pages, position = self._stream.read(shard_id, after), after
        while True:
            fate = self._process.pause("page").word
            if fate == "throttled":
                raise Throttled("The stream does not answer.")
            if fate == "broken":
                raise Broken("The answer cannot be taken apart.")
            if fate in ("empty", "idle", "vague"):
                for _ in range(IDLE if fate == "idle" else 1):
                    nothing = Page(self._stream.nothing(), position, silent=fate == "vague")
                    tells = self._stream.tells_lag and fate != "vague"
                    yield of_lag(nothing, self._stream.behind(shard_id, position)) if tells else nothing
                continue
            page = next(pages, None)
            if page is None:
                return
            page, position = self._stream.told(shard_id, position, page), page.next
            if fate == "tip" and page.records.num_rows and self._stream.tells_lag:
                page = of_lag(page, 0)
            yield replace(page, children=()) if fate == "childless" else page

    def end_reading(self, others: Callable[[], bool]) -> None:
        """Nothing was set up."""

    def close(self) -> None:
        """The stream is everybody's."""


class SteppedLanding:
    """A process's way to the staging area and to the output roots."""

    def __init__(self, world: World, process: Process) -> None:
        self._world, self._process = world, process
        self.uri = world.landing.uri
        self.outputs = SteppedRoots(world, process)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._world.landing, name)
        return partial(called, self._process, found) if name in STEPPED else found

    def left_by(self, namespace: Namespace, batch_id: str, works: Sequence[str]) -> Any:
        """As the landing says; what the commit has to decide by it is remembered."""
        answer = called(self._process, self._world.landing.left_by, namespace, batch_id, works)
        look(self._world, self._process)
        return answer


class SteppedRoots:
    """A process's way to the output roots."""

    def __init__(self, world: World, process: Process) -> None:
        self._roots, self._process = world.landing.outputs, process

    def place(self, root: str) -> str:
        return self._roots.place(root)

    def folder(self, batch_id: str, start_id: str) -> str:
        return self._roots.folder(batch_id, start_id)

    def look(self, root: str, folders: Sequence[str], app: str, *, shared: bool) -> None:
        called(self._process, partial(self._roots.look, shared=shared), root, folders, app)
        self._process.looked.add(self._roots.place(root))

    def mark(self, root: str, decision: Any) -> None:
        called(self._process, self._roots.mark, root, decision)

    def sum_if_due(self, root: str) -> bool:
        return self._roots.sum_if_due(root)


def called(process: Process, found: Callable[..., Any], *arguments: Any) -> Any:
    """A call to the staging area or to a root, and what becomes of it."""
    fate = process.pause("landing").word
    if fate == "refused":
        raise StagingError("The staging area does not answer.")
    answer = found(*arguments)
    if fate == "lost":
        raise StagingError("The answer of the staging area did not arrive.")
    return answer


def asked(world: World, process: Process, deployment: str, owner: str) -> Verdict:
    """The answer of a process's own Airflow to whether an owner is over."""
    fate = process.pause("question").word
    if fate == "down":
        raise OwnerUnknown("Airflow does not answer.")
    verdict = world.verdict(deployment, owner)
    return Verdict.OVER if fate == "wrong" and verdict is Verdict.ACTIVE else verdict


class HandRenewal:
    """Stands for the thread that renews what a read holds: the test says when it does."""

    def __init__(self, consumer: Any) -> None:
        self._held: list[Held] = []
        consumer.store.process.renewal = self

    def add(self, held: Held) -> None:
        self._held.append(held)

    @contextmanager
    def running(self) -> Iterator[HandRenewal]:
        yield self

    def renew(self) -> None:
        """One heartbeat, of those leases that the reader is not writing at this moment."""
        for held in self._held:
            if not held._lock.locked():
                held.renew()
