# SPDX-License-Identifier: Apache-2.0
"""A stream as the question of a sensor sees it: its clock, its shards, and which of them stand at their tips."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass
from typing import Any, cast

from shardbatch.control.shared_look import Path, Rest
from shardbatch.core.interval import CLOCKS_APART_MS
from shardbatch.core.ports import SYSTEM_CLOCK, Capabilities, Clock, Source
from shardbatch.core.position import Position
from shardbatch.core.shard import Shard
from shardbatch.core.tips import Tips
from shardbatch.errors import SourceError, StreamNotFound

#: Shards that one look asks for their tips, at the most, and how many at a time.
MOST_SHARDS, AT_A_TIME = 200, 8
#: Pages and seconds after which a shard is not at its tip, whatever else it is.
MOST_PAGES, MOST_SECONDS = 20, 20.0


@dataclass(frozen=True)
class Listing:
    """A listing of the stream; ``torn`` says what it lacks as far as it shows, and is empty if nothing."""

    shards: tuple[Shard, ...]
    torn: str = ""


class StreamLook:
    """The stream, read along a path, so that all questions of a look share it.

    :param name: tells streams, and ways to reach one, apart among all that read along such paths.
    :param opened: the source; it is opened at the first read that was not made before, and closed by :meth:`close`.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        opened: Callable[[], AbstractContextManager[Source]],
        rest: Rest,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._path, self._name, self._opened, self._rest, self._clock = path, name, opened, rest, clock
        self._stack = ExitStack()
        self._source: Source | None = None

    def close(self) -> None:
        """Close the source, if it was opened."""
        self._stack.close()

    def _open(self) -> Source:
        if self._source is None:
            self._source = self._stack.enter_context(self._opened())
        return self._source

    def _read(self, what: str, make: Callable[[Source], Any], *more: Any) -> Any:
        return self._path.read((what, self._name, *more), lambda: make(self._open()))

    def identity(self) -> str:
        """What tells the stream from another one of the same name."""
        return str(self._read("identity", lambda source: source.identity()))

    def capabilities(self) -> Capabilities:
        """What the source can do."""
        return cast("Capabilities", self._read("capabilities", lambda source: source.capabilities))

    def clock_ms(self) -> int:
        """The stream's time; this machine's, less what clocks may differ, if it tells none."""
        return int(self._read("clock", self._time))

    def listing(self) -> Listing:
        """A listing that is made now, or was made behind the same reads."""

        def listed(source: Source) -> Listing:
            shards = tuple(source.list_shards())
            return Listing(shards, source.missing(shards))

        return cast("Listing", self._read("listing", listed))

    def open_at(self, instant_ms: int) -> tuple[Shard, ...] | None:
        """The shards that were open at an instant; ``None`` where the service cannot tell."""

        def asked(source: Source) -> tuple[Shard, ...] | None:
            found = source.open_at(instant_ms)
            return None if found is None else tuple(found)

        return cast("tuple[Shard, ...] | None", self._read("open_at", asked, instant_ms))

    def rest(self) -> str:
        """What the last look at tips found missing, if it is too early to ask for them again; else empty."""
        early = self._path.read(("rest", self._name), lambda: not self._rest.over(self._clock.monotonic()))
        return self._rest.note if early else ""

    def clock_of(self, stream_id: str) -> int | None:
        """The stream's time, if it is that stream."""
        return cast(
            "int | None",
            self._read("clock_of", lambda there: self._time(there) if there.identity() == stream_id else None),
        )

    def tips(self, places: Mapping[str, Position], from_ms: int) -> Tips:
        """Which of the shards have nothing behind these places.

        :param from_ms: the stream's time before each of the requests: what arrives later is not promised.
        :raises SourceError: if the stream cannot be asked.
        """

        def asked(source: Source) -> Tips:
            found = _at_tip(source, places, self._clock)
            return Tips(from_ms, {name: places[name] for name in found}, source.retention_ms())

        wanted = tuple(sorted((name, str(place)) for name, place in places.items()))
        return cast("Tips", self._read("tips", asked, wanted, from_ms))

    def looked(self, missing: str) -> None:
        """A look at tips is over; ``missing`` says what it did not find, and is empty if nothing. The more often that
        happens in a row, the later they may be asked for again."""
        self._path.read(("looked", self._name), lambda: self._rest.found(missing, self._clock.monotonic()))

    def unread(self, places: Mapping[str, Position]) -> str | None:
        """One of the shards that has something behind its place, or of which that is not known; ``None`` if none has.
        Of very many shards some are asked, each time others.

        :raises SourceError: if some could not be asked, and none of the others has anything.
        """
        wanted = tuple(sorted((name, str(place)) for name, place in places.items()))
        return cast("str | None", self._read("unread", lambda source: _unread(source, places, self._clock), wanted))

    def _time(self, source: Source) -> int:
        there = source.clock_ms()
        return self._clock.now_ms() - CLOCKS_APART_MS if there is None else there


def _at_tip(source: Source, places: Mapping[str, Position], clock: Clock) -> frozenset[str]:
    def tip(item: tuple[str, Position]) -> bool:
        try:
            return _stands_at_tip(source, *item, clock)
        except StreamNotFound:
            raise
        except SourceError:
            return False  # of this shard nothing is known

    with ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="shardbatch-tips") as pool:
        return frozenset(name for name, found in zip(places, pool.map(tip, places.items()), strict=True) if found)


def _stands_at_tip(source: Source, shard_id: str, place: Position, clock: Clock) -> bool:
    """Whether the service says that nothing is behind a place, and nothing was lost there."""
    began = clock.monotonic()
    with closing(cast("Any", source.read(shard_id, place))) as pages:
        for number, page in enumerate(pages, 1):
            if page.records.num_rows or page.ended or page.gone or page.checkpoint_gone or page.next != place:
                return False
            if page.at_tip:
                return True
            if number >= MOST_PAGES or clock.monotonic() - began > MOST_SECONDS:
                return False
    return False


def _unread(source: Source, places: Mapping[str, Position], clock: Clock) -> str | None:
    chosen = list(places) if len(places) <= MOST_SHARDS else random.sample(list(places), MOST_SHARDS)
    failed: SourceError | None = None
    with ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="shardbatch-unread") as pool:
        asked = {pool.submit(_has_more, source, name, places[name], clock): name for name in chosen}
        for done in as_completed(asked):
            try:
                if done.result():
                    pool.shutdown(wait=False, cancel_futures=True)
                    return asked[done]
            except SourceError as error:
                failed = failed or error
    if failed is not None:
        raise failed
    return None


def _has_more(source: Source, shard_id: str, place: Position, clock: Clock) -> bool:
    """Whether there is something to read behind a place, or that is not known. That the record at the place has expired
    does not count: that of an idle shard does in its time."""
    began = clock.monotonic()
    with closing(cast("Any", source.read(shard_id, place))) as pages:
        for number, page in enumerate(pages, 1):
            if page.records.num_rows or page.ended or page.next != place:
                return True
            if page.at_tip or number >= MOST_PAGES or clock.monotonic() - began > MOST_SECONDS:
                return not page.at_tip
    return True
