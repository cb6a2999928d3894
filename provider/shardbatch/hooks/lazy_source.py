# SPDX-License-Identifier: Apache-2.0
"""A source that is opened when it is first used.

Commit never calls the stream, and freeze rarely does. So they do not need its client or the libraries behind it, which
take longer to load than everything else that these tasks do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardbatch.core.ports import Capabilities, Page, Source
    from shardbatch.core.position import Position
    from shardbatch.core.shard import Shard
    from shardbatch.core.words import Words


class LazySource:
    """Implements :class:`shardbatch.core.ports.Source`; may be used by many threads.

    :param name: the stream's name.
    :param make: opens the source; what it raises is raised by the first question.
    """

    def __init__(self, name: str, make: Callable[[], Source]) -> None:
        self.name = name
        self._make = make
        self._made: Source | None = None
        self._lock = threading.Lock()

    def _source(self) -> Source:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made

    @property
    def capabilities(self) -> Capabilities:
        """What the source can do."""
        return self._source().capabilities

    @property
    def words(self) -> Words:
        """How those who use the service speak of it."""
        return self._source().words

    def identity(self) -> str:
        """What tells this stream from another one of the same name."""
        return self._source().identity()

    def list_shards(self) -> Sequence[Shard]:
        """Every shard that the service lists."""
        return self._source().list_shards()

    def missing(self, listing: Sequence[Shard]) -> str:
        """What a listing of the stream lacks, or nothing."""
        return self._source().missing(listing)

    def open_at(self, instant_ms: int) -> Sequence[Shard] | None:
        """The shards that were open at an instant, or ``None`` if the service cannot tell."""
        return self._source().open_at(instant_ms)

    def clock_ms(self) -> int | None:
        """The service's own time, or ``None`` if it tells none."""
        return self._source().clock_ms()

    def resolve(self, start: Position, shard_id: str | None = None) -> Position:
        """A start that always means the same."""
        return self._source().resolve(start, shard_id)

    def retention_ms(self) -> int | None:
        """How long the service keeps a record, or ``None`` if it does not say."""
        return self._source().retention_ms()

    def read(self, shard_id: str, after: Position) -> Iterator[Page]:
        """Pages of a shard from a position on."""
        return self._source().read(shard_id, after)

    def end_reading(self, others: Callable[[], bool]) -> None:
        """Remove what reading needed, if it was opened at all."""
        with self._lock:
            made = self._made
        if made is not None:
            made.end_reading(others)

    def close(self) -> None:
        """Close connections, if there are any."""
        with self._lock:
            if self._made is not None:
                self._made.close()
