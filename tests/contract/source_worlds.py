# SPDX-License-Identifier: Apache-2.0
"""Every source behind one face: streams to make, to write to and to reshard, and what the service can do."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Protocol

import pytest

from shardbatch.core.ports import Page, Source
from shardbatch.core.shard import Shard
from tests.contract import sources_servers, sources_tables
from tests.contract.sources_tapes import tapes
from tests.support.lines.files import LineFiles
from tests.support.lines.source import LinesSource


class Abilities(Protocol):
    """What a service can do beyond the least."""

    trims: bool  # forgets records
    looks_ahead: bool  # reads from LATEST before any record came
    tells_recreation: bool  # tells a stream from an earlier one of its name
    merges: bool  # makes one shard of two
    deletes: bool  # a deleted stream can be read no more


class AnyStream(Protocol):
    """One stream of a service, and sources on it."""

    name: str

    def create(self, shards: int) -> None:
        """Make it, with so many open shards."""

    def delete(self) -> None:
        """Remove it."""

    def source(self, *, page_records: int = ...) -> Source:
        """A source on it, whose answers have at most so many records."""
        ...

    def put(self, *texts: str, into: Shard | None = None) -> list[str]:
        """Write records into a shard, by default the first; the texts of their places."""
        ...

    def split(self, shard: Shard) -> Any:
        """Close a shard in favour of two children. This and `merge` only where the source has lineage."""

    def merge(self, shard: Shard, adjacent: Shard) -> Any:
        """Close two neighbours in favour of one child."""

    def expire(self) -> None:
        """All that was written is too old now. Only where the service trims."""


class AnyWorld(Protocol):
    """One service."""

    restore: Callable[[], None]

    @property
    def can(self) -> Abilities:
        """What it can do."""
        ...

    def unmade(self, name: str) -> AnyStream:
        """A stream that is not made yet."""
        ...

    def stream(self, shards: int = 1) -> AnyStream:
        """A new stream."""
        ...

    def texts(self, *pages: Page) -> list[str]:
        """What was written, of the records of some pages."""
        ...

    def key(self, text: str) -> str:
        """The partition key of the record that a text made."""
        ...


class LinesStream:
    """A stream of lines."""

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self.files = LineFiles(root, name)

    def create(self, shards: int) -> None:
        self.files.create(shards)

    def delete(self) -> None:
        self.files.delete()

    def source(self, *, page_records: int = 100) -> Source:
        return LinesSource(self.files, page_lines=page_records)

    def put(self, *texts: str, into: Shard | None = None) -> list[str]:
        first = next(shelf.name for shelf in self.files.shards() if not shelf.closed)
        return self.files.put(into.shard_id if into else first, *texts)

    def split(self, shard: Shard) -> None:
        self.files.reshard(shard.shard_id, children=2)

    def merge(self, shard: Shard, adjacent: Shard) -> None:
        self.files.reshard(shard.shard_id, adjacent.shard_id, children=1)

    def expire(self) -> None:
        for shelf in self.files.shards():
            self.files.drop(shelf.name)


@dataclass(frozen=True)
class LinesCan:
    """Files can do all that is asked of them."""

    trims: bool = True
    looks_ahead: bool = True
    tells_recreation: bool = True
    merges: bool = True
    deletes: bool = True


class LinesWorld:
    """A folder of streams of lines."""

    can = LinesCan()
    texts = staticmethod(sources_servers.texts)
    key = staticmethod(sources_servers.key)

    def __init__(self, root: Path) -> None:
        self.root = root
        self.restore: Callable[[], None] = lambda: None

    def unmade(self, name: str) -> LinesStream:
        return LinesStream(self.root, name)

    def stream(self, shards: int = 1) -> LinesStream:
        made = self.unmade(f"t-{uuid.uuid4().hex[:12]}")
        made.create(shards)
        return made


def lines(stack: ExitStack, _: pytest.FixtureRequest) -> AnyWorld:
    """A folder that goes at the end."""
    root = Path(mkdtemp())
    stack.callback(lambda: [LineFiles(root, path.name).delete() for path in root.iterdir()] and root.rmdir())
    return LinesWorld(root)


def _of_kinesis(name: str) -> Callable[[ExitStack, pytest.FixtureRequest], AnyWorld]:
    return lambda stack, request: sources_servers.WORLDS[name](stack, request)


WORLDS: dict[str, Callable[[ExitStack, pytest.FixtureRequest], AnyWorld]] = {
    "tapes": tapes,
    "lines": lines,
    **{name: _of_kinesis(name) for name in sources_servers.WORLDS},
    **sources_tables.WORLDS,
}
