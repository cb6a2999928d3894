# SPDX-License-Identifier: Apache-2.0
"""Whether a run of the live application would find something to claim (PROTOCOL D6). It changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shardbatch.control.questions import Answer
from shardbatch.control.stream_look import StreamLook
from shardbatch.core import lease as leases
from shardbatch.core.application import Application
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.beginnings import beginnings
from shardbatch.core.interval import CLOCKS_APART_MS
from shardbatch.core.lease import Lease
from shardbatch.core.owner import Owner, ResetHolder
from shardbatch.core.planner import Plan, plan, unknown_shards
from shardbatch.core.ports import SYSTEM_CLOCK, Clock, LeaseStore, Liveness, Verdict
from shardbatch.core.position import Kind, Position
from shardbatch.core.rows import Namespace
from shardbatch.core.shard import Shard
from shardbatch.errors import OwnerUnknown, StoreNotFound
from shardbatch.run.consumer import Rows

NOTHING = "Nothing to claim: all that can be taken now is read."


def all_at_work(owner: str) -> Verdict:
    """No owner is over."""
    return Verdict.ACTIVE


@dataclass(frozen=True)
class Claimable:
    """Is there something to claim? Its answer may be yes although the claim then finds nothing, since that watches rows
    whose owners may be dead, and another run may be faster.

    ``deployment`` is the id of this Airflow, ``lease_duration_ms`` the claimer's. ``me`` is the owner that claims, if
    it is known; ``liveness`` says whether other owners are over.
    """

    deployment: str
    lease_duration_ms: int
    me: str = field(default="", compare=False)
    liveness: Liveness = field(default=all_at_work, compare=False)
    clock: Clock = field(default=SYSTEM_CLOCK, compare=False)

    def ask(self, store: LeaseStore, namespace: Namespace) -> Answer:
        """Look at the rows only: what can be taken counts as unread."""
        return self.ask_with(store, namespace, None)

    def ask_with(self, store: LeaseStore, namespace: Namespace, stream: StreamLook | None) -> Answer:
        """Look at the rows, then at the shards that can be taken.

        :raises StoreError: if the store cannot be asked.
        :raises SourceError: if the stream cannot be asked, and nothing else is there to claim.
        :raises UnsupportedSchema: if the rows are of a version that this one does not read.
        """
        try:
            found = self._found(Rows(namespace=namespace, store=store, clock=self.clock), stream)
        except StoreNotFound:
            found = "Nothing was claimed yet."
        return Answer(bool(found), found or NOTHING, told={"why": found})

    def to_json(self) -> dict[str, Any]:
        """As plain JSON: the same for all runs, so that they share what is looked at."""
        return {"deployment": self.deployment, "lease_duration_ms": self.lease_duration_ms}

    def _found(self, rows: Rows, stream: StreamLook | None) -> str:
        """What there is to claim, or nothing."""
        application = rows.application()
        if application is None:
            return "Nothing was claimed yet."
        if application.importing is not None:
            return "An import is not finished."  # the claim refuses, and says how to go on
        found = rows.leases()
        if self.me and (rows.has_batch(self.me) or any(lease.lease_owner == self.me for lease in found)):
            return "This run has leases or a batch already."
        judge = _Judge(self, application)
        stamped = {name: rows.batch(name) for name in sorted({row.batch_id for row in found if row.batch_id})}
        for batch in stamped.values():
            if batch is not None and batch.state is BatchState.FROZEN and judge.may_adopt(batch):
                return f"Batch {batch.batch_id} of {batch.owner or 'no owner'} can be adopted."
        settled = []
        for lease in found:
            batch = stamped.get(lease.batch_id or "")
            if lease.batch_id is not None and batch is not None and batch.state is BatchState.COMMITTED:
                settled.append(leases.roll_forward(lease, lease.batch_id, rows.now_ms()))
                continue
            if lease.batch_id is not None and (batch is None or batch.state is BatchState.VOID) and judge.takes(lease):
                return f"{lease.shard_id} carries batch {lease.batch_id}, which was given up."
            settled.append(lease)
        return self._unread(rows.now_ms(), application, settled, judge, stream)

    def _unread(
        self, now_ms: int, application: Application, rows: list[Lease], judge: _Judge, stream: StreamLook | None
    ) -> str:
        """The first shard that can be taken and has something unread, or nothing."""
        listing = () if stream is None else stream.listing().shards
        listed = {shard.shard_id for shard in listing}
        known = {lease.shard_id: lease for lease in rows}
        begins = beginnings(listing, known, application.start_position, now_ms, dict(application.start_places))
        places = [application.start_position, *(row.checkpoint for row in rows if not row.completed)]
        places += [begin.place for begin in begins.values()]
        reached_ms = _reached(now_ms, places, stream)
        found: Plan = plan(rows, listed, judge.takes, self.me, (), reached_ms, now_ms=now_ms)
        for lease in found.takeable:
            if lease.pending is not None:
                return f"{lease.shard_id} has records that were landed and are in no batch."
        unread: dict[str, Position] = {lease.shard_id: lease.checkpoint for lease in found.takeable}
        for shard in (shard for generation in unknown_shards(listing, rows) for shard in generation):
            place = begins[shard.shard_id].place
            if _may_begin(shard, listed, known) and not place.ahead_of(reached_ms):
                unread[shard.shard_id] = place
        if not unread:
            return ""
        name = next(iter(unread)) if stream is None else stream.unread(unread)
        return "" if name is None else f"{name} may have records that are not read."


class _Judge:
    """Which rows of others may be taken, as far as one look can tell."""

    def __init__(self, question: Claimable, application: Application) -> None:
        self._question = question
        self._application = application
        self._known: dict[str, Verdict] = {}

    def takes(self, lease: Lease) -> bool:
        """Whether a lease may be taken, or may turn out to stand still (PROTOCOL E1 to E3)."""
        return self._free(lease.lease_owner or "", lease.updated_at_ms, (Verdict.FOREIGN, Verdict.GONE))

    def may_adopt(self, batch: Batch) -> bool:
        """Whether a frozen batch may be adopted, or may turn out to stand still (PROTOCOL B3, E5)."""
        return self._free(batch.owner, batch.attempt_seen_ms or batch.created_at_ms, (Verdict.GONE,))

    def _free(self, owner: str, written_ms: int, watched: tuple[Verdict, ...]) -> bool:
        verdict = self._verdict(owner)
        if verdict is Verdict.OVER:
            return True
        now_ms = self._question.clock.now_ms()
        silence_ms = max(self._question.lease_duration_ms, self._application.silence_ms(Owner.parse(owner)))
        # A row from the future was written by a clock that was wrong: its age is unknown.
        old = now_ms - written_ms > silence_ms or written_ms > now_ms + CLOCKS_APART_MS
        return verdict in watched and old

    def _verdict(self, owner: str) -> Verdict:
        if not owner or owner == self._question.me:
            return Verdict.OVER
        if owner not in self._known:
            self._known[owner] = self._asked(owner)
        return self._known[owner]

    def _asked(self, owner: str) -> Verdict:
        if ResetHolder.parse(owner):
            return Verdict.ACTIVE
        try:
            return self._question.liveness(owner)
        except OwnerUnknown:  # no answer is none: it keeps what it has
            return Verdict.ACTIVE


def _may_begin(shard: Shard, listed: set[str], rows: Mapping[str, Lease]) -> bool:
    """Whether a shard without a row can be read now: each parent that is known is completed."""
    known = [name for name in shard.parent_shard_ids if name in listed or name in rows]
    return all(name in rows and rows[name].completed for name in known)


def _reached(now_ms: int, places: list[Position], stream: StreamLook | None) -> int:
    """How far the stream's clock has come; it is asked only if one of the places may lie ahead of it."""
    instants = [place.timestamp_ms or 0 for place in places if place.kind is Kind.AT_TIMESTAMP]
    if stream is None or max(instants, default=0) <= now_ms - CLOCKS_APART_MS:
        return now_ms
    return stream.clock_ms()
