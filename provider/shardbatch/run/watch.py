# SPDX-License-Identifier: Apache-2.0
"""Watches what other owners hold: whether their rows change, and how long records have waited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from shardbatch.core.application import Application
from shardbatch.core.batch import Batch
from shardbatch.core.interval import CLOCKS_APART_MS
from shardbatch.core.lease import Lease
from shardbatch.core.looks import MOST_TIMES, Looks
from shardbatch.core.owner import Owner, ResetHolder
from shardbatch.core.planner import Plan
from shardbatch.core.shortlist import shortlist
from shardbatch.errors import SourceError
from shardbatch.run.consumer import Consumer
from shardbatch.run.settle import Stamped
from shardbatch.run.signs_of_life import Watched, watch

#: How many held shards are asked for their oldest waiting record.
PEEKED_SHARDS = 3
#: What a look on is for.
WHY = "whether they are alive"
#: How many answers without a record are followed, on each of them.
PEEKED_PAGES = 20


def stood_still(
    consumer: Consumer,
    foreign: Sequence[Lease],
    application: Application,
    *,
    all_of_them: bool,
    looks: Looks | None = None,
) -> set[str]:
    """The shards whose counter did not change for ``lease_duration`` on one monotonic clock (PROTOCOL E3, T8).

    An owner renews as often as its own group's ``lease_duration`` requires; the longer of both times counts. Watching
    costs the run that time. So unless the run has nothing else to do, it watches only leases whose row looks old, or
    lies in the future: then its writer's clock was wrong, and the row would look young until that time has come. The
    age of a row by two machines' clocks decides only which rows are watched.

    :param looks: what earlier passes of this claim saw; default: it waits and watches.
    :raises LookAgain: to be called again when the time has passed.
    """
    suspects = {
        lease.shard_id: Suspect(lease, _silence(consumer, application, lease.lease_owner), lease.updated_at_ms)
        for lease in foreign
    }
    return _watch(consumer, suspects, "leases of other deployments", looks, all_of_them=all_of_them)


def abandoned(
    consumer: Consumer,
    frozen: Sequence[Batch],
    application: Application | None,
    *,
    all_of_them: bool,
    looks: Looks | None = None,
) -> list[Batch]:
    """The batches whose row did not change for that time, oldest first; they are watched as leases are."""
    suspects = {
        batch.batch_id: Suspect(
            batch, _silence(consumer, application, batch.owner), batch.attempt_seen_ms or batch.created_at_ms
        )
        for batch in frozen
    }
    still = _watch(consumer, suspects, "batches of runs that are gone", looks, all_of_them=all_of_them)
    return sorted((batch for batch in frozen if batch.batch_id in still), key=lambda batch: batch.batch_id)


@dataclass(frozen=True)
class Suspect(Watched):
    """A row of another owner, and when it was written last by its writer's clock."""

    written_ms: int


def _watch(
    consumer: Consumer, suspects: dict[str, Suspect], what: str, looks: Looks | None, *, all_of_them: bool
) -> set[str]:
    """The names of the rows whose counter did not change. The time that earlier passes watched counts too."""
    if not all_of_them:
        now = consumer.now_ms()
        suspects = {name: one for name, one in suspects.items() if _may_be_old(one, now)}
    if not suspects:
        return set()
    longest = max(one.silence for one in suspects.values())
    if looks is not None:
        if looks.times >= MOST_TIMES or any(map(looks.knows, suspects)):
            return {n for n, one in suspects.items() if looks.stood_still(n, one.row.counter, one.silence)}
        away = looks.go_away({name: one.row.counter for name, one in suspects.items()}, longest)
        if away is not None:
            consumer.say(f"Looking again at {len(suspects)} {what} after {longest:.0f} s, to see {WHY}.")
            raise away
    consumer.say(f"Watching {len(suspects)} {what} for {longest:.0f} s to see {WHY}.")
    return watch(consumer.store, consumer.clock, suspects)


def _may_be_old(one: Suspect, now_ms: int) -> bool:
    return now_ms - one.written_ms > one.silence * 1000 or one.written_ms > now_ms + CLOCKS_APART_MS


def _silence(consumer: Consumer, application: Application | None, owner: str | None) -> float:
    """The longest time in seconds between two signs of life of a live owner."""
    own = consumer.options.lease_duration.total_seconds()
    return own if application is None else max(own, application.silence_ms(Owner.parse(owner or "")) / 1000)


def waiting_ms(consumer: Consumer, held: Sequence[Lease]) -> int | None:
    """How long the oldest record of the held shards has waited, or ``None`` if none waits.

    The stream is asked about the shards that were read longest ago, because an old checkpoint alone proves nothing for
    a quiet shard.
    """
    oldest: list[int] = []
    for lease in sorted(held, key=lambda item: item.checkpoint_arrival_ms or 0)[:PEEKED_SHARDS]:
        pages = consumer.source.read(lease.shard_id, lease.checkpoint)
        for page in islice(pages, PEEKED_PAGES):
            if page.records.num_rows:
                oldest += [time.value // 1000 for time in page.records.column("arrival_time").drop_null()[:1]]
            if page.records.num_rows or page.ended or page.at_tip:
                break
    return consumer.now_ms() - min(oldest) if oldest else None


def untaken(consumer: Consumer, found: Plan, stamped: Stamped) -> SourceError:
    """The error for an interval if no shard of it can be taken: no later run would read it."""
    why = [described(consumer, lease, stamped) for lease in (*found.takeable, *found.held)]
    why += [f"{lease.shard_id} waits for its parents" for lease in found.waiting]
    return SourceError(
        f"Of the {len(why)} open shards of the interval none can be taken now: {shortlist(why)}.",
        remedy="A retry looks again. Should a batch hold them, see 'airflow shardbatch batches'.",
    )


def described(consumer: Consumer, lease: Lease, stamped: Stamped) -> str:
    """The holder of a lease, and the time since its row changed."""
    age = max(0, consumer.now_ms() - lease.updated_at_ms) // 1000
    if lease.batch_id is not None:
        batch = stamped.get(lease.batch_id)
        state = batch.state.value if batch else "being frozen"
        holder = batch.owner if batch else lease.lease_owner
        return "{} in batch {} ({}) of {}, row changed {} s ago".format(
            lease.shard_id, lease.batch_id, state, holder or "no owner", age
        )
    if ResetHolder.parse(lease.lease_owner):
        text = "{} held by a reset, row changed {} s ago; if it died, run 'airflow shardbatch reset' again"
        return text.format(lease.shard_id, age)
    return f"{lease.shard_id} leased by {lease.lease_owner}, row changed {age} s ago"
