# SPDX-License-Identifier: Apache-2.0
"""Whether a run of an application would find something to do now: asked of its rows first, of the stream last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from shardbatch.core.application import Application
from shardbatch.core.expiry import kept_by
from shardbatch.core.interval import CLOCKS_APART_MS
from shardbatch.core.lease import Lease
from shardbatch.core.owner import Owner, ResetHolder
from shardbatch.core.planner import unknown_shards
from shardbatch.core.ports import Liveness, Page, Source, Verdict
from shardbatch.core.position import Position
from shardbatch.core.shortlist import shortlist
from shardbatch.core.wake import looks_due, places_of, standing
from shardbatch.core.watermark import over
from shardbatch.errors import SourceError
from shardbatch.run.consumer import Rows

#: Shards that are looked at together.
AT_ONCE = 8
#: How many answers without a record are followed on a shard; one that is still behind then has something to read.
MOST_PAGES = 20


@dataclass(frozen=True)
class Look:
    """What a look found: whether a run is wanted (``due``), why it is or is not, and where the application stands.

    ``to_look``: there is nothing to read, and a run is wanted to note that.
    """

    due: bool
    why: str
    places: str = ""
    to_look: bool = False


class MayWake(Protocol):
    """Whether a run may be woken for an application that stands at these places."""

    def __call__(self, places: str, *, to_look: bool = False) -> bool:
        """``to_look``: only to note that there is nothing."""
        ...


def look(rows: Rows | None, source: Source, liveness: Liveness, may_wake: MayWake) -> Look:
    """Look at an application and its stream. Nothing is changed, and no record is kept.

    :param rows: its rows; ``None`` if the lease store has no tables yet.
    :param may_wake: whether a run may be woken now. If not, the stream is not asked.
    :raises UnsupportedSchema: if its rows are not of this version.
    :raises StoreError: if the rows cannot be read.
    :raises SourceError: if the stream cannot be asked.
    :raises OwnerUnknown: if Airflow cannot say whether an owner is over.
    """
    application = None if rows is None else rows.application()
    if rows is None or application is None:
        return _unclaimed(source, may_wake)
    rows.require_version()
    leases = rows.leases()
    places = places_of(leases)
    if application.importing is not None:
        return Look(False, "Leases of another library are being taken over.", places)
    if not may_wake(places):
        return Look(False, "A run was woken already, and nothing is committed since.", places)
    found = _claimed(rows, application, leases, places, source, liveness)
    if found.to_look and not may_wake(places, to_look=True):
        return Look(False, "A run was woken already, to look.", places)
    return found


def _unclaimed(source: Source, may_wake: MayWake) -> Look:
    """Of an application without rows: its first run says where it begins."""
    if not may_wake(""):
        return Look(False, "A run was woken already, and none has claimed yet.")
    found = len(source.list_shards())
    return Look(bool(found), f"No run has claimed yet, and the stream has {found} shards.")


def _claimed(
    rows: Rows, application: Application, leases: list[Lease], places: str, source: Source, liveness: Liveness
) -> Look:
    now_ms = rows.now_ms()

    def silent(lease: Lease) -> bool:
        age_ms = now_ms - lease.updated_at_ms
        silence_ms = application.silence_ms(Owner.parse(lease.lease_owner or ""))
        return age_ms > silence_ms or age_ms < -CLOCKS_APART_MS

    stamps = {lease.batch_id for lease in leases if lease.batch_id is not None}
    stamped = {batch_id: rows.batch(batch_id) for batch_id in sorted(stamps)}
    start = application.root_start
    reached_ms = _reached([start, *(lease.checkpoint for lease in leases)], source, now_ms)
    found = standing(leases, stamped, _asked_once(liveness), silent, reached_ms)
    if found.held:
        return Look(False, f"At work: {shortlist(found.held)}.", places)
    if found.ready:
        return Look(True, f"To finish: {shortlist(found.ready)}.", places)
    unread = _first_unread(source, found.unread)
    if unread:
        return Look(True, f"Something to read in {unread}.", places)
    fresh = [] if start.ahead_of(reached_ms) else _without_rows(source, leases)
    if fresh:
        return Look(True, f"Shards without a lease: {shortlist(fresh)}.", places)
    due = looks_due(found.unread, kept_by(application), leases, now_ms)
    if due:
        text = f"Nothing to read. No run has looked for half of the stream's retention at {shortlist(due)}."
        return Look(True, text, places, to_look=True)
    return Look(False, "Nothing to read.", places)


def _asked_once(liveness: Liveness) -> Callable[[str], Verdict]:
    known: dict[str, Verdict] = {}

    def verdict(owner: str) -> Verdict:
        if owner not in known:
            known[owner] = Verdict.ACTIVE if ResetHolder.parse(owner) else liveness(owner)
        return known[owner]

    return verdict


def _reached(places: Iterable[Position], source: Source, now_ms: int) -> int:
    """How far the stream's clock has certainly come; it is asked only if one of these places may lie ahead of it."""
    if not any(place.ahead_of(now_ms - CLOCKS_APART_MS) for place in places):
        return now_ms
    there = source.clock_ms()
    return now_ms if there is None else there


def _first_unread(source: Source, leases: Sequence[Lease]) -> str | None:
    """A shard that has something to read.

    :raises SourceError: if none is known to, and one could not be asked.
    """
    failed: SourceError | None = None
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = {pool.submit(_has_unread, source, lease): lease.shard_id for lease in leases}
        try:
            for answer in as_completed(asked):
                try:
                    if answer.result():
                        return asked[answer]
                except SourceError as error:  # another shard may have something
                    failed = error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    if failed is not None:
        raise failed
    return None


def _has_unread(source: Source, lease: Lease) -> bool:
    """Whether there is a record or the end behind a lease's checkpoint. On an idle stream the record at
    the checkpoint expires too, so that this happened does not show that there are others."""
    answered = False
    pages: Iterator[Page] = source.read(lease.shard_id, lease.checkpoint)
    for page in islice(pages, MOST_PAGES):
        if page.records.num_rows or page.ended or page.oddities.dropped:
            return True
        if page.at_tip:
            return False
        answered = answered or not page.silent
    return answered


def _without_rows(source: Source, leases: Sequence[Lease]) -> list[str]:
    """Listed shards that the next claim adds. The children of a shard that is being read come with its end, so the
    listing is asked for only where a shard may be missing."""
    if source.capabilities.lineage and leases and not over(leases):
        return []
    return [shard.shard_id for generation in unknown_shards(source.list_shards(), leases) for shard in generation]
