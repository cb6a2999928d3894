# SPDX-License-Identifier: Apache-2.0
"""Makes task processes of a real Airflow die by SIGKILL at a named place, without a change of the product.

A DAG file gives its group leases and staging of this module. A test *arms* a place of a DAG by leaving a file; the
first process of that DAG that comes there takes the file and is gone, its supervisor with it if the file says so.

Places are `before-<write>` and `after-<write>` of the lease store's writes (`taken`, `landed`, `stamped`, `rolled`, …
of a lease; `frozen`, `beaten`, `closed`, `decided`, `sent`, … of a batch, and `named-task`, `named-client`,
`named-standalone`, which tell a row what an application is called), `after-page` of a slice's writer, `end-of-<task>`,
and those that the DAG's own work names by :meth:`Orders.at`.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from shardbatch import SQLLeases, Staging
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.position import Position
from shardbatch.core.rows import Key, Namespace, Row, Table
from tests.support.one_by_one import OneByOne

if TYPE_CHECKING:
    import pyarrow as pa

    from shardbatch.core.ports import Landing, LeaseStore, SliceWriter
    from shardbatch.core.slice import LandedFile


@dataclass(frozen=True)
class Orders:
    """Where processes of one DAG are to die, as files of a folder that both sides know."""

    folder: Path
    dag_id: str

    def arm(self, place: str, *, supervisor: bool = False, when: str = "") -> None:
        """The next process that comes to this place dies there.

        :param supervisor: its supervisor dies first.
        :param when: not before there is a file of this name in the folder.
        """
        order = {"supervisor": supervisor, "when": when}
        self._file("die", place).write_text(json.dumps(order), "utf-8")

    def obeyed(self, place: str) -> bool:
        """Whether a process has died at this place."""
        return self._file("died", place).exists()

    def at(self, place: str) -> None:
        """Die here, if that is ordered."""
        taken = self._file("died", place)
        try:
            order = json.loads(self._file("die", place).read_text("utf-8"))
            if order["when"] and not (self.folder / order["when"]).exists():
                return
            self._file("die", place).rename(taken)  # of several processes one takes it
        except FileNotFoundError:
            return
        if order["supervisor"]:
            os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    def _file(self, word: str, place: str) -> Path:
        return self.folder / f"{word}-{self.dag_id}-{place}"


@dataclass(frozen=True)
class DeadlyLeases(SQLLeases):
    """Leases whose store obeys the orders of a DAG."""

    folder: str = ""
    dag_id: str = ""

    def open(self) -> LeaseStore:
        return DeadlyStore(super().open(), Orders(Path(self.folder), self.dag_id))


@dataclass(frozen=True)
class DeadlyStaging(Staging):
    """A staging area whose writers obey the orders of a DAG, and have a page on the disk once it was given to them."""

    folder: str = ""
    dag_id: str = ""

    def open(self) -> Landing:
        from shardbatch.landing.area import StagingArea
        from shardbatch.landing.writer import Sizes

        orders = Orders(Path(self.folder), self.dag_id)

        class Area(StagingArea):
            def slice(self, namespace: Namespace, shard_id: str, after: Position, tenure: int) -> SliceWriter:  # type: ignore[override]
                return _Writer(super().slice(namespace, shard_id, after, tenure), orders)

        return Area(self.uri, sizes=Sizes(row_group=1))


class _Writer:
    def __init__(self, writer: SliceWriter, orders: Orders) -> None:
        self.arrivals_ms: tuple[int, int] | None = None
        self._writer = writer
        self._orders = orders

    def write(self, page: pa.RecordBatch) -> None:
        self._writer.write(page)
        self._orders.at("after-page")

    def rest(self) -> None:
        self._writer.rest()

    def finish(self) -> tuple[LandedFile, ...]:
        files = self._writer.finish()
        self.arrivals_ms = self._writer.arrivals_ms
        return files

    def abandon(self) -> None:
        self._writer.abandon()


class DeadlyStore(OneByOne):
    """Passes everything on to a store, and obeys orders around its writes."""

    def __init__(self, store: LeaseStore, orders: Orders) -> None:
        self._store = store
        self._orders = orders

    def create(self, row: Row) -> bool:
        write = _creation(row)
        self._orders.at(f"before-{write}")
        done = self._store.create(row)
        if done:
            self._orders.at(f"after-{write}")
        return done

    def replace(self, seen: Row, new: Row) -> bool:
        write = _lease_write(seen, new) if isinstance(seen, Lease) else _batch_write(seen, new)
        self._orders.at(f"before-{write}")
        done = self._store.replace(seen, new)
        if done:
            self._orders.at(f"after-{write}")
        return done

    def delete(self, seen: Row) -> bool:
        return self._store.delete(seen)

    def prepare(self) -> None:
        self._store.prepare()

    def list(self, table: Table, namespace: Namespace, scope: str | None = "", **equal: str) -> Iterator[Row]:
        return self._store.list(table, namespace, scope, **equal)

    def get(self, key: Key) -> Row | None:
        return self._store.get(key)

    def close(self) -> None:
        from airflow.sdk import get_current_context

        self._store.close()
        # A step closes its store when all that it does to rows is done, and before its task tells Airflow anything.
        self._orders.at(f"end-of-{get_current_context()['ti'].task_id.rpartition('.')[2]}")


def _creation(row: Row) -> str:
    if isinstance(row, Batch):
        return "frozen" if row.state is BatchState.FROZEN else "voided"
    return "added"


def _lease_write(seen: Lease, new: Row) -> str:
    new = cast("Lease", new)
    if seen.batch_id != new.batch_id:
        if seen.batch_id is None:
            return "stamped"
        return "rolled" if new.pending is None else "unstamped"
    if seen.pending != new.pending:
        return "landed"
    if seen.lease_owner != new.lease_owner:
        return "freed" if new.lease_owner is None else "taken"
    return "renewed"


def _batch_write(seen: Row, new: Row) -> str:
    if not isinstance(seen, Batch):
        return "noted"
    new = cast("Batch", new)
    if seen.state is not new.state:
        return "decided" if new.state is BatchState.COMMITTED else new.state.value.lower()
    if seen.attempt_closed != new.attempt_closed:
        return "closed"
    if seen.attempt != new.attempt:
        return "opened"
    if seen.owner != new.owner:
        return "adopted"
    if seen.event_ms != new.event_ms:
        return "sent"
    _, named = new.spark_application
    return (
        "beaten"
        if named is None or seen.spark_application == new.spark_application
        else f"named-{named.partition(':')[0]}"
    )
