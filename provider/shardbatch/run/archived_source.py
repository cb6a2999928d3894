# SPDX-License-Identifier: Apache-2.0
"""The stream as an interval run reads it that begins before the stream's retention: first what the archive has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from shardbatch.core.archive_pieces import at, place_of
from shardbatch.core.archive_plan import ArchivedPage, Copy, FromStream, Hole, Over
from shardbatch.core.policies import GapPolicy
from shardbatch.core.ports import Capabilities, Page, Source
from shardbatch.core.position import SHARD_END, Position, after
from shardbatch.core.shard import Shard
from shardbatch.core.slice import Gap
from shardbatch.core.words import Words
from shardbatch.run.archive import Archive
from shardbatch.run.consumer import Consumer
from shardbatch.run.coverage import explained, lacks
from shardbatch.run.expiry import ask_kept


def with_archive(consumer: Consumer) -> Consumer:
    """The consumer of a run; that of an interval which the stream may not have whole reads the archive first.

    An application that has only interval runs has no archive, and what a stream keeps may be unknown: then the stream
    is read alone.
    """
    interval = consumer.interval
    live = consumer.application() if interval is not None else None
    if interval is None or live is None or isinstance(consumer.source, ArchivedSource):
        return consumer
    kept, now_ms = ask_kept(consumer), consumer.now_ms()
    if kept.gone_before(now_ms) is None or kept.all_since(interval.from_ms, now_ms):
        return consumer
    archive = Archive(consumer, interval, kept, live.reset_count)
    return replace(consumer, source=ArchivedSource(consumer.source, archive, consumer.policies.gap))


class ArchivedSource:
    """A source whose shards begin with what was copied from the archive. Implements
    :class:`shardbatch.core.ports.Source`."""

    def __init__(self, source: Source, archive: Archive, policy: GapPolicy | str) -> None:
        self.archive = archive
        self.name = source.name
        self._source = source
        self._policy = policy
        self._added: set[str] = set()
        self._nothing = archive.no_records()

    @property
    def words(self) -> Words:
        """The stream's."""
        return self._source.words

    @property
    def capabilities(self) -> Capabilities:
        """The stream's."""
        return self._source.capabilities

    def identity(self) -> str:
        """The stream's."""
        return self._source.identity()

    def list_shards(self) -> Sequence[Shard]:
        """Every shard that the stream lists, and those that have left it and may have records in the archive."""
        listed = list(self._source.list_shards())
        known = {shard.shard_id for shard in listed}
        left = [shard for shard in self.archive.shards() if shard.shard_id not in known]
        self._added.update(shard.shard_id for shard in left)
        return [*listed, *left]

    def missing(self, listing: Sequence[Shard]) -> str:
        """What the stream's own listing lacks."""
        return self._source.missing([shard for shard in listing if shard.shard_id not in self._added])

    def open_at(self, instant_ms: int) -> Sequence[Shard] | None:
        """The stream's."""
        return self._source.open_at(instant_ms)

    def clock_ms(self) -> int | None:
        """The stream's."""
        return self._source.clock_ms()

    def resolve(self, start: Position, shard_id: str | None = None) -> Position:
        """The stream's."""
        return self._source.resolve(start, shard_id)

    def retention_ms(self) -> int | None:
        """The stream's."""
        return self._source.retention_ms()

    def read(self, shard_id: str, after: Position) -> Iterator[Page]:
        """First the pages of the archive, then those of the stream from there on.

        :raises GapFound: under ``gap=fail``, where neither has records of the interval.
        """
        place, gap = after, None
        for step in self.archive.plan(shard_id, after).steps:
            if isinstance(step, Copy):
                for page in self._copied(step):
                    yield replace(page, gap=gap)
                    place, gap = page.next, None
            elif isinstance(step, Hole):
                hole = explained(self.archive, shard_id, step)
                if self._policy == GapPolicy.FAIL:
                    raise lacks(self.archive, shard_id, hole)
                gap = Gap(place, from_ms=hole.from_ms, reason=hole.reason)
            elif isinstance(step, FromStream):
                place = place if step.lo is None else place_of(step.lo)
                if gap is not None or step.looked_ms is not None or place != after:
                    yield ArchivedPage(self._nothing, place, gap=gap, looked_ms=step.looked_ms)
                yield from self._source.read(shard_id, place)
            elif isinstance(step, Over):
                children = tuple(self.archive.children(shard_id)) if step.ended else ()
                leaf = step.ended and not children
                yield ArchivedPage(
                    self._nothing, place, ended=step.ended, over=True, children=children, leaf=leaf, gap=gap
                )

    def _copied(self, step: Copy) -> Iterator[ArchivedPage]:
        """The records of a step, and an empty page if it ends behind the last of them."""
        place = place_of(step.lo)
        for records in self.archive.copy(step):
            last = records.num_rows - 1
            number = records.column("sequence_number")[last].as_py()
            place = after(number, records.column("sub_sequence_number")[last].as_py() or 0)
            yield ArchivedPage(records, place)
        if step.hi < at(SHARD_END) and at(place) != step.hi:
            yield ArchivedPage(self._nothing, place_of(step.hi))

    def end_reading(self, others: Callable[[], bool]) -> None:
        """The stream's."""
        self._source.end_reading(others)

    def close(self) -> None:
        """The stream's."""
        self._source.close()
