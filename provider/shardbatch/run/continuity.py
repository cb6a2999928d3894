# SPDX-License-Identifier: Apache-2.0
"""Checks that the answers of a shard follow one another without a hole, and records the gaps where they do not.

A stream does not report expired records: an answer begins at the oldest record that is left. Only the first answer of a
read shows what is missing, because only there the read also requests the record at its place. So if an answer comes too
late after the one before, it is dropped: the read begins again at the place reached, and its first answer is compared.
The delay may come from the machine, a shard's turn, a landing or the service. A page that continues an answer was made
with it, however late it is taken: the next answer is measured against the question of the whole answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from datetime import timedelta
from math import ceil

from shardbatch.core.archive_plan import ArchivedPage
from shardbatch.core.expiry import Kept, all_read, born_after, looked, tip_seen
from shardbatch.core.interval import CLOCKS_APART_MS
from shardbatch.core.lease import Lease
from shardbatch.core.ports import Capabilities, Page
from shardbatch.core.slice import Gap, Trimmed
from shardbatch.run.consumer import Consumer

#: Milliseconds between two answers after which a read asks what is still in the stream: more than its own pauses (pace,
#: patience, one landed page), and few beside the hours that a record lives: what expires unseen between two answers
#: that are closer was at the very end of its retention.
STANDSTILL_MS = 60_000
EXPIRED = "records expired before they were read"
TRIMMED = "the service says that records were trimmed before they were read"
LEFT = "the shard left the stream before its end was read"


def longest_ms(can: Capabilities) -> int:
    """Milliseconds between two answers after which a read is begun anew in any case.

    The service may have forgotten its place by then, so nothing is lost by it. And no answer that is believed is older
    than clocks may differ.
    """
    lives = _ms(can.place_lives)
    if lives is None:
        return CLOCKS_APART_MS
    return min(CLOCKS_APART_MS, lives)


class Ancestors:
    """The rows of the shards above those that one task reads. A row that was read to its end is asked for once, for
    nothing is added to it: else each shard of a long lineage without records would ask for all rows above it."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._ended: dict[str, Lease] = {}

    def lease(self, shard_id: str) -> Lease | None:
        """One row."""
        row = self._ended.get(shard_id) or self._consumer.lease(shard_id)
        if row is not None and all_read(row):
            self._ended[shard_id] = row
        return row


class Continuity:
    """The trail of one read of one shard. ``gaps`` are those of its slice, the lease's skipped ones first. ``seen_ms``
    is the latest instant at which the answer just given was surely true, and ``seen_at`` the same moment on the
    monotonic clock. ``taken_ms`` is later if the answer was pushed and lay here for a while.

    Instants are the worker's; the time that went by is the larger of what its two clocks say, since the monotonic one
    stands still while a machine sleeps and the other one may be set back.
    """

    def __init__(
        self,
        consumer: Consumer,
        lease: Lease,
        kept: Callable[[], Kept],
        above: Ancestors,
        same_stream: Callable[[], None] = lambda: None,
    ) -> None:
        """:param same_stream: raises if the stream is not the application's; it is called where a shard seems gone."""
        self._consumer = consumer
        self._above = above
        self._lease = lease
        self._kept = kept
        self._same_stream = same_stream
        self._longest_ms = longest_ms(consumer.source.capabilities)
        self._least_ms = _ms(consumer.source.capabilities.least_retention)
        self._place = lease.checkpoint
        self._arrival_ms = lease.checkpoint_arrival_ms
        self._look_ms: int | None = None
        self._found: list[Gap] = []
        self._begins = True
        self._mono = consumer.clock.monotonic()
        self.now_ms = self._asked_at = self._made_at = consumer.now_ms()
        self._asked_ms = self._made_ms = self.seen_ms = self.taken_ms = self.now_ms
        self._asked_mono = self._made_mono = self.seen_at = self._mono
        self._pushed: tuple[float, int] | None = None

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """All gaps so far, in the order of their places."""
        return (*self._lease.skipped, *self._found)

    def pages(self) -> Iterator[Page]:
        """The pages from the checkpoint on. An answer that may not follow the one before is requested again."""
        pages = self._read()
        while True:
            self._asked_ms, self._asked_at = self._consumer.now_ms(), self._tick()
            self._asked_mono = self._mono
            page = next(pages, None)
            if page is None:
                return
            if self._doubtful(page):
                if isinstance(pages, Generator):
                    pages.close()
                pages = self._read()
                continue
            if page.gone:
                self._same_stream()
            if isinstance(page, ArchivedPage):
                self._copied(page)
            else:
                self._follow(page)
            yield page

    def look(self) -> int:
        """When the latest answer saw the tip: not before it was requested. After a standstill the answer may have
        waited here for all that time, so the answer before it counts."""
        self._look_ms = self.seen_ms
        return self.seen_ms

    def _read(self) -> Iterator[Page]:
        self._begins = True
        self._made_ms, self._made_at = self._consumer.now_ms(), self._tick()
        self._made_mono = self._mono
        return self._consumer.source.read(self._lease.shard_id, self._place)

    def _tick(self) -> int:
        """The time now, which never runs back."""
        mono = self._consumer.clock.monotonic()
        self.now_ms = max(self._consumer.now_ms(), self.now_ms + int((mono - self._mono) * 1000))
        self._mono = mono
        return self.now_ms

    def _doubtful(self, page: Page) -> bool:
        """Whether records may have expired between the answer before and this one, which does not show it. The first
        answer of a read is always compared; otherwise a stretch without records might begin again without end."""
        now = self._tick()
        if isinstance(page, ArchivedPage):
            return False
        if self._begins or page.continues or page.silent:
            return False
        stood = now - self._made_at
        return stood > self._longest_ms or (stood > STANDSTILL_MS and not self._all_since(self._read_up_to(now), now))

    def _follow(self, page: Page) -> None:
        if page.silent:
            return
        now, rows = self.now_ms, page.records.num_rows
        if not page.continues:
            self.seen_at = self._made_mono if now - self._made_at > STANDSTILL_MS else self._asked_mono
            self.seen_ms = self._made_ms if now - self._made_at > STANDSTILL_MS else self._asked_ms
            self.taken_ms = self.seen_ms
            if page.asked is not None:
                self._back_to(page.asked)
            # At the earliest: it may have waited to arrive.
            self._made_ms, self._made_at = self._asked_ms, self._asked_at
            self._made_mono = self._asked_mono
        first = page.records.column("sequence_number")[0].as_py() if rows else None
        arrivals = page.records.column("arrival_time").drop_null()
        arrival = arrivals[0].value // 1000 if len(arrivals) else None
        self._end_gap(first, arrival)
        if self._left(page, now) or (self._lost(page, now, arrival) and not self._open(first)):
            reason = LEFT if page.gone else EXPIRED if page.trimmed is None else TRIMMED
            number = page.trimmed.records if page.trimmed else None
            self._add(Gap(self._place, first, self._from_ms(now), arrival, reason, records=number))
        self._begins &= not (rows or page.at_tip or page.ended)
        self._place = page.next
        if len(arrivals):
            self._arrival_ms = arrivals[-1].value // 1000

    def _copied(self, page: ArchivedPage) -> None:
        """A page from the archive: it shows nothing of the stream, whose first answer is compared when it comes."""
        first = page.records.column("sequence_number")[0].as_py() if page.records.num_rows else None
        arrivals = page.records.column("arrival_time").drop_null()
        arrival = arrivals[0].value // 1000 if len(arrivals) else None
        if page.gap is not None:
            since = self._arrival_ms if page.gap.from_ms is None else page.gap.from_ms
            self._add(replace(page.gap, from_ms=since))
        self._end_gap(first, arrival)
        self._look_ms = page.looked_ms
        self._place = page.next
        if len(arrivals):
            self._arrival_ms = arrivals[-1].value // 1000

    def _end_gap(self, first: str | None, arrival: int | None) -> None:
        """A gap that was seen while nothing was left, or none yet, ends before this record."""
        if first is not None and self._found and self._found[-1].first_available is None:
            self._found[-1] = _closed(self._found[-1], first, arrival)

    def _back_to(self, asked: float) -> None:
        """Of an answer that was pushed only this moment is sure. By the other clock it is worked out once, from the
        first answer that it brought: the monotonic one may stand still between two of them."""
        if self._pushed is None or self._pushed[0] != asked:
            self._pushed = asked, self.seen_ms - ceil(max(0.0, self.seen_at - asked) * 1000)
        self.seen_at, self.seen_ms = min(self.seen_at, asked), min(self.seen_ms, self._pushed[1])

    def _left(self, page: Page, now: int) -> bool:
        """Whether the shard left the stream with records that are wanted. It had none if the instant from which it is
        to be read lay ahead when that was said, and the stream has all since then: it closed before."""
        instant, said_ms = self._place.timestamp_ms, self._lease.caught_up_ms
        ahead = instant is not None and said_ms is not None and instant > said_ms
        return page.gone and not (ahead and self._all_since(instant, now))

    def _lost(self, page: Page, now: int, arrival: int | None) -> bool:
        """Whether the first answer of a read shows that records expired, or leaves it open where there is no record at
        the place that could show it."""
        begins, interval = self._begins and not self._place.exact, self._consumer.interval
        if page.trimmed is not None and self._surely_lost(page.trimmed, now):
            return True
        if not page.checkpoint_gone and not begins:
            return False
        if begins and interval is not None and arrival is not None and arrival < interval.from_ms:
            return False  # what is older than the interval is there
        if begins and interval is None and self._look_ms is None and self._lease.caught_up_ms is None:
            return False  # a row of version 1, which does not say since when the shard is known
        seen = self._seen(now)
        if begins and not page.checkpoint_gone and self._in_time(seen, now):
            return False
        return not self._all_since(seen, now)

    def _in_time(self, since_ms: int | None, now: int) -> bool:
        """Whether a shard of which nothing was read is read soon enough after its last look, or after its row was made,
        where nothing else could tell: no record at its place, no time for which the stream keeps one."""
        known = self._least_ms is not None or self._kept().retention_ms is not None
        return not known and since_ms is not None and now - since_ms < CLOCKS_APART_MS

    def _surely_lost(self, trimmed: Trimmed, now: int) -> bool:
        """Whether the service's word for a loss stands against every look: it says that unread records are gone, or it
        has trimmed a record which it was still to keep, so that nothing can be concluded from how long it keeps any."""
        instant = self._place.timestamp_ms
        if instant is not None and self._all_since(instant, now):
            return False  # what a search for it passes is not wanted
        early = self._arrival_ms is not None and self._kept().all_since(self._arrival_ms, now)
        return trimmed.unread or (self._place.exact and early)

    def _all_since(self, since_ms: int | None, now: int) -> bool:
        if since_ms is None:
            return False
        young = self._least_ms is not None and now - since_ms < self._least_ms
        return young or self._kept().all_since(since_ms, now)

    def _seen(self, now: int) -> int | None:
        """When nothing of it was unread, as far as is known: a look at its tip, what was read of its parents, or the
        instant at which its reading begins."""
        consumer, lease, place = self._consumer, self._lease, self._place
        known = [self._look_ms]
        if consumer.interval is not None:
            known.append(consumer.interval.from_ms)
        elif place.exact:
            known.append(tip_seen(lease, now))
        if not place.exact:
            known.append(looked(lease.caught_up_ms, now) if consumer.interval is None else None)
            born = born_after(lease, self._above.lease, now)
            known.append(born.ms if born else None)
        known.append(place.timestamp_ms)  # what is older than its start is not wanted
        return max((ms for ms in known if ms is not None), default=None)

    def _read_up_to(self, now: int) -> int | None:
        """The time since which unread records arrived: the last record that was read, or the last look."""
        return max((ms for ms in (self._seen(now), self._arrival_ms) if ms is not None), default=None)

    def _from_ms(self, now: int) -> int | None:
        """The earliest time at which the first lost record arrived: with the last record that was read before it."""
        return self._arrival_ms if self._arrival_ms is not None else self._seen(now) or None

    def _open(self, first: str | None) -> bool:
        """Whether a gap was already reported at the place that is still crossed without a record."""
        return first is None and bool(self._found) and self._found[-1].after == self._place

    def _add(self, gap: Gap) -> None:
        if self._found and self._found[-1].after == gap.after:
            self._found.pop()  # seen once more
        self._found.append(gap := _closed(gap, gap.first_available, gap.to_ms))
        self._consumer.warn(
            f"GAP in shard {self._lease.shard_id} after {gap.after}: {gap.reason}; first available is "
            f"{gap.first_available}."
        )


def _ms(time: timedelta | None) -> int | None:
    return None if time is None else int(time.total_seconds() * 1000)


def _closed(gap: Gap, first: str | None, arrival: int | None) -> Gap:
    """A gap up to a record; its times do not run backwards, although arrival times may."""
    ends = arrival if arrival is None or gap.from_ms is None else max(arrival, gap.from_ms)
    return replace(gap, first_available=first, to_ms=ends)
