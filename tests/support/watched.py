# SPDX-License-Identifier: Apache-2.0
"""An application's rows and its stream, as a sensor asks them, in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

from shardbatch.control.questions import Answer, StreamQuestion
from shardbatch.control.shared_look import Look, SharedStore
from shardbatch.control.stream_look import StreamLook
from shardbatch.core.application import Application
from shardbatch.core.lease import Lease
from shardbatch.core.ports import Clock
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, after
from shardbatch.core.rows import APPLICATION, SHARD_LEASE, Key, Namespace
from shardbatch.stores.memory import MemoryStore
from tests.support.scripted import ScriptedStream

NAMESPACE = Namespace("etl", "orders")
HOUR = 3_600_000


class Watched:
    """``stream`` is read by the application of ``store``. ``time`` is the clock of the process that asks, in seconds,
    ``opened`` counts how often it opened the stream, and ``meanwhile`` happens each time the stream is opened."""

    def __init__(self, shards: int = 2, now_ms: int = 1_700_000_000_000) -> None:
        self.stream = ScriptedStream(shards=shards)
        self.stream.now_ms = now_ms
        for shard in self.stream.shards.values():
            shard.born_ms = now_ms
        self.store = MemoryStore()
        self.store.prepare()
        self.look, self.time, self.opened = Look(), 0.0, 0
        self.meanwhile: Callable[[], None] = lambda: None
        begun = Application(
            NAMESPACE, self.stream.identity(), TRIM_HORIZON, 1, key_space=self.stream.capabilities.key_space
        )
        assert self.store.create(replace(begun, retention_ms=24 * HOUR))

    @property
    def application(self) -> Application:
        found = self.store.get(Key(APPLICATION, NAMESPACE, ()))
        assert isinstance(found, Application)
        return found

    def row(self, shard_id: str) -> Lease:
        found = self.store.get(Key(SHARD_LEASE, NAMESPACE, ("", shard_id)))
        assert isinstance(found, Lease)
        return found

    def enrol(self, *shard_ids: str, **fields: Any) -> None:
        """A row for each of these shards, or for all."""
        for shard_id in shard_ids or tuple(self.stream.shards):
            shard = self.stream.shards[shard_id]
            made = Lease(
                NAMESPACE, "", shard_id, None, 1, TRIM_HORIZON,
                hash_range=shard.hash_range, parent_shard_ids=shard.parents, begins=TRIM_HORIZON,
            )  # fmt: skip
            assert self.store.create(replace(made, **fields))

    def commit(self, *shard_ids: str) -> None:
        """A run reads these shards, or all that have a row, to their tips or ends, and commits."""
        for shard_id in shard_ids or tuple(self.stream.shards):
            shard, row = self.stream.shards[shard_id], self.row(shard_id)
            place = after(str(shard.items[-1].sequence_number)) if shard.items else row.checkpoint
            place = SHARD_END if shard.closed else place
            seen = None if shard.closed else f"{self.stream.now_ms}@{place}"
            self.change(shard_id, checkpoint=place, completed=shard.closed, committed_to=seen or row.committed_to)

    def change(self, shard_id: str, **fields: Any) -> None:
        """Write a row anew."""
        row = self.row(shard_id)
        assert self.store.replace(row, replace(row, lease_count=row.lease_count + 1, **fields))

    def change_application(self, **fields: Any) -> None:
        """Write the application's row anew."""
        row = self.application
        assert self.store.replace(row, replace(row, row_count=row.row_count + 1, **fields))

    def ask(self, question: StreamQuestion, *, again: bool = True, by_name: bool = False) -> Answer:
        """Ask, in a look of its own unless ``again`` is no; with the stream's name alone if so told."""
        if again:
            self.look = Look(self.look.rest)
        path = self.look.path()
        clock = Clock(now_ms=lambda: self.stream.now_ms, monotonic=lambda: self.time, sleep=lambda seconds: None)
        with closing(SharedStore(path, self._store)) as store:
            there = StreamLook(path, "orders", self._stream, self.look.rest, clock)
            return question.ask_with(store, NAMESPACE, None if by_name else there)

    @contextmanager
    def _store(self) -> Iterator[MemoryStore]:
        yield self.store

    @contextmanager
    def _stream(self) -> Iterator[ScriptedStream]:
        self.opened += 1
        self.meanwhile()
        yield self.stream
