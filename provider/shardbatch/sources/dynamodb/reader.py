# SPDX-License-Identifier: Apache-2.0
"""Reads one shard: iterators, places that were trimmed, the search for an instant, the tip and the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from shardbatch.core.interval import MARGIN_MS
from shardbatch.core.ports import Page
from shardbatch.core.position import Kind, Position
from shardbatch.core.slice import Oddities, Trimmed
from shardbatch.core.waiting import NO_WAITING, Waiting
from shardbatch.errors import InvalidAnswer, IteratorExpired, ShardNotFound, SourceError, Throttled
from shardbatch.sources.aws.pace import Pace
from shardbatch.sources.aws.refusals import Unreachable
from shardbatch.sources.dynamodb import places
from shardbatch.sources.dynamodb.calls import Caller
from shardbatch.sources.dynamodb.decoder import Decoded, empty
from shardbatch.sources.dynamodb.listing import Family, StreamListing
from shardbatch.sources.dynamodb.refusals import PlaceRefused, PlaceTrimmed

#: Empty answers in a row after which an open shard is at its tip. The service tells no lag, and an iterator may have to
#: cross several empty stretches before it reaches records (B-4).
EMPTY_AT_TIP = 5
#: Answers of a child that are looked at for its first record.
PEEKS = 3


@dataclass(frozen=True)
class _Pause:
    """Seconds before the next step; ``limits``: it is the service's limits that ask for them."""

    seconds: float = 0.0
    limits: bool = False


_Step = tuple["Page | None", _Pause]


class ShardReader:
    """One read of one shard from a place on. Used by one thread at a time.

    **The tip.** An empty answer of an open shard proves nothing. The read says ``at_tip`` of the fifth one in a row,
    each made with the iterator that the one before gave. A new iterator begins the count anew.

    **Trimmed places.** The read goes on at the oldest record, and says so with the first record behind the place, or
    at the tip or the end where there is none. Records that are not behind the place are left out, and then nothing was
    lost.

    :param listed: whether the shard is (still) listed; raises if it is the stream that is gone.
    :param pace_of: the pace of another shard, at which its first records are looked at.
    """

    def __init__(
        self,
        caller: Caller,
        listing: StreamListing,
        shard_id: str,
        start: Position,
        pace_of: Callable[[str], Pace],
        listed: Callable[[str], bool],
    ) -> None:
        self._caller = caller
        self._listing = listing
        self._shard_id = shard_id
        self._next = start
        self._pace_of = pace_of
        self._listed = listed
        self._iterator: str | None = None
        self._empty = 0
        self._trimmed: Trimmed | None = None
        self._finds_instants = caller.takes("GetShardIterator", "Timestamp")
        self._looked_below = False
        self._patience = caller.patience()
        self._paused = NO_WAITING
        self._mark()

    def pages(self) -> Iterator[Page]:
        """Pages until the shard's end; a refused call shows as an empty page that is silent, so that the reader can
        look at its limits before the wait."""
        self._mark()
        while True:
            page, pause = self._step()
            if page is not None:
                yield page
                self._mark()
                if page.ended:
                    return
            if pause.seconds > 0:
                self._caller.clock.sleep(pause.seconds)
                self._paused += Waiting(pause.seconds if pause.limits else 0.0)

    def _mark(self) -> None:
        """From here on count what the next page costs. It is counted by thread, and after a page another one may go
        on."""
        self._sent, self._waited = self._caller.sent(), self._caller.waited()

    def _step(self) -> _Step:
        """Ask once: the page that there is, and the pause before the next step."""
        try:
            return self._asked()
        except ShardNotFound as error:
            return self._gone(error)
        except Throttled as error:
            return self._page(empty(), silent=True), _Pause(self._patience.throttled(error), limits=True)
        except IteratorExpired as error:
            self._iterator = None
            return None, _Pause(self._patience.expired(error))
        except PlaceTrimmed as error:
            return self._to_oldest(error)
        except (InvalidAnswer, Unreachable) as error:
            return None, _Pause(self._patience.failed(error))

    def _asked(self) -> _Step:
        if self._searching and not self._finds_instants and self._nothing_below():
            return self._end(empty()), _Pause()
        if self._iterator is None:
            self._begin()
        assert self._iterator is not None
        pace = self._pace_of(self._shard_id)
        answer = self._caller.records(self._iterator, pace)
        self._patience.reset()
        self._iterator = answer.next_iterator
        self._empty = 0 if answer.records.num_rows else self._empty + 1
        pace.answered(0, idle=self._empty >= EMPTY_AT_TIP)
        return self._deliver(answer), _Pause()

    # places

    def _begin(self) -> None:
        """A new iterator for the place reached, or for the oldest record if that place was trimmed."""
        place = Position(Kind.TRIM_HORIZON) if self._trimmed else self._next
        try:
            self._iterator = self._place_at(self._shard_id, place)
        except PlaceRefused as error:
            if place.kind is not Kind.AFTER_SEQUENCE_NUMBER:
                raise
            self._iterator = self._place_before(place, error)
        self._empty = 0  # what an iterator before it found proves nothing of this one

    def _place_before(self, place: Position, refused: PlaceRefused) -> str:
        """An iterator before the record with the next integer. Nothing can stand between the two. A place that was
        imported may be the integer before that of a record; the service may refuse it, for it never gave it out.

        :raises PlaceTrimmed: if that record is trimmed, or ``refused`` if it is none.
        """
        try:
            return self._iterator_of(self._shard_id, places.next_record(place))
        except PlaceRefused:
            raise refused from None

    def _place_at(self, shard_id: str, place: Position) -> str:
        parameters = places.iterator_parameters(place, finds_instants=self._finds_instants)
        try:
            return self._iterator_of(shard_id, parameters)
        except PlaceRefused:
            if "Timestamp" not in parameters:
                raise
            self._finds_instants = False  # it does not know that type, or the instant is a moment ahead of its clock
            return self._place_at(shard_id, place)

    def _iterator_of(self, shard_id: str, parameters: dict[str, Any]) -> str:
        answer = self._caller.once("get_shard_iterator", StreamArn=self._listing.arn, ShardId=shard_id, **parameters)
        iterator = answer.get("ShardIterator")
        if not iterator:
            raise InvalidAnswer(f"The service gave no iterator for {shard_id} of the {self._caller.where}.")
        return str(iterator)

    def _to_oldest(self, error: PlaceTrimmed) -> _Step:
        """The service says that the place is trimmed: go on at the oldest record.

        At a place that names a record this is its word that the record is gone; and if it took that place a moment
        ago, that one behind it is gone. Elsewhere only the iterator was too old, and a new one is asked for.
        """
        at_iterator = self._iterator is None
        self._iterator = None
        if self._next.kind is Kind.AFTER_SEQUENCE_NUMBER and self._trimmed is None:
            self._trimmed = Trimmed(unread=not at_iterator)
            return None, _Pause()
        return None, _Pause(self._patience.failed(error))

    @property
    def _searching(self) -> bool:
        return self._next.timestamp_ms is not None

    def _nothing_below(self) -> bool:
        """Whether a child shows that nothing of this shard is wanted: its first record is older than the instant by
        more than arrival times run backwards, and all records of its parent came before that. Asked once; it spares the
        reading of closed generations."""
        if self._looked_below:
            return False
        self._looked_below = True
        bound = places.second_of(self._next.timestamp_ms or 0) - MARGIN_MS
        firsts = (self._first_arrival(child.shard_id) for child in self._listing.children(self._shard_id).children)
        return any(first is not None and first < bound for first in firsts)

    def _first_arrival(self, shard_id: str) -> int | None:
        """When the first record arrived that a shard holds, in milliseconds; ``None`` if a few answers show none."""
        try:
            iterator: str | None = self._place_at(shard_id, Position(Kind.TRIM_HORIZON))
            for _ in range(PEEKS):
                if iterator is None:
                    return None
                answer = self._caller.records(iterator, self._pace_of(shard_id))
                if answer.records.num_rows:
                    micros = answer.records.column("arrival_time").cast("int64")[0].as_py()
                    return None if micros is None else micros // 1000
                iterator = answer.next_iterator
        except SourceError:
            return None  # it only would have spared something
        return None

    # the end

    def _gone(self, error: ShardNotFound) -> _Step:
        """The shard is gone if the listing agrees. :raises StreamNotFound: if it is the stream that is gone."""
        self._iterator = None
        if self._listed(self._shard_id):
            doubt = InvalidAnswer(f"{self._where} is listed, but the service knows no such shard.")
            doubt.__cause__ = error
            return None, _Pause(self._patience.failed(doubt))
        return self._page(empty(), ended=True, gone=True), _Pause()

    def _end(self, records: pa.RecordBatch, **fields: Any) -> Page:
        try:
            family = self._listing.await_children(self._shard_id)
        except SourceError:
            family = Family((), final=False)  # the records are in hand, and the next claim's listing has the children
        return self._page(records, ended=True, children=family.children, leaf=_is_leaf(family), **fields)

    # pages

    def _deliver(self, answer: Decoded) -> Page:
        found, ended = answer.records, answer.next_iterator is None
        at_tip = not ended and self._empty >= EMPTY_AT_TIP
        begins, told = places.beyond(found, self._next), self._trimmed
        below, records = Oddities(below=begins), found.slice(begins)
        if told is not None and (found.num_rows or ended or at_tip):
            self._trimmed = None
            whole = begins or (not told.unread and places.adjoins(self._next, found))
            told = None if whole else told  # what it holds begins at the place or before it, so nothing is lost
        elif told is not None:
            told = None  # not yet: the answer was empty
        instant = self._next.timestamp_ms
        if records.num_rows and instant is not None:
            since = places.first_since(records, instant)
            self._next = places.last_place(records, None if since < records.num_rows else instant)
            records = records.slice(since)
        elif records.num_rows:
            self._next = places.last_place(records)
        said = {"checkpoint_gone": told is not None, "trimmed": told, "oddities": below}
        return self._end(records, **said) if ended else self._page(records, at_tip=at_tip, **said)

    def _page(self, records: pa.RecordBatch, **fields: Any) -> Page:
        requests, waiting = self._caller.sent() - self._sent, self._caller.waited() - self._waited + self._paused
        self._paused = NO_WAITING
        self._mark()
        return Page(records, self._next, requests=requests, waiting=waiting, **fields)

    @property
    def _where(self) -> str:
        return f"{self._shard_id} of the {self._caller.where}"


def _is_leaf(family: Family) -> bool:
    return family.final and not family.children
