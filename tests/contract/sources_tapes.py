# SPDX-License-Identifier: Apache-2.0
"""Tapes behind the face of the source suite: a service without lineage that does not know when a stream was made."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from shardbatch.core.ports import Source
from shardbatch.core.shard import Shard
from tests.contract import sources_servers
from tests.support.tape import Tapes, TapeSource


@dataclass(frozen=True)
class TapesCan:
    """What tapes do: no more than the least that the port of sources asks, but forgetting."""

    trims: bool = True
    looks_ahead: bool = True
    tells_recreation: bool = False
    merges: bool = False
    deletes: bool = True


class TapeStream:
    """One stream."""

    def __init__(self, tapes: Tapes, name: str) -> None:
        self.name = name
        self._tapes = tapes

    def create(self, shards: int) -> None:
        self._tapes.streams[self.name] = [[] for _ in range(shards)]

    def delete(self) -> None:
        del self._tapes.streams[self.name]

    def source(self, *, page_records: int = 100) -> Source:
        return TapeSource(self._tapes, self.name, page_records=page_records)

    def put(self, *texts: str, into: Shard | None = None) -> list[str]:
        return self._tapes.put(self.name, int(into.shard_id) if into else 0, *texts)

    def split(self, shard: Shard) -> None:
        raise NotImplementedError("a tape is never split")

    def merge(self, shard: Shard, adjacent: Shard) -> None:
        raise NotImplementedError("tapes are never merged")

    def expire(self) -> None:
        for tape in self._tapes.streams[self.name]:
            tape.clear()


class TapeWorld:
    """All streams of tapes."""

    can = TapesCan()
    texts = staticmethod(sources_servers.texts)

    def __init__(self) -> None:
        self._tapes = Tapes()
        self.restore: Callable[[], None] = lambda: None

    def unmade(self, name: str) -> TapeStream:
        return TapeStream(self._tapes, name)

    def stream(self, shards: int = 1) -> TapeStream:
        made = self.unmade(f"t-{uuid.uuid4().hex[:12]}")
        made.create(shards)
        return made

    def key(self, text: str) -> str:
        return f"k-{text}"


def tapes(_: ExitStack, __: pytest.FixtureRequest) -> TapeWorld:
    """Tapes that nobody else has."""
    return TapeWorld()
