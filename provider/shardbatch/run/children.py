# SPDX-License-Identifier: Apache-2.0
"""The children of a shard that a read task has read to its end: the same run reads them next (PROTOCOL F)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from shardbatch.core import lease as leases
from shardbatch.core.beginnings import beginning
from shardbatch.core.expiry import born_after
from shardbatch.core.lease import Lease
from shardbatch.core.planner import ready_child
from shardbatch.core.ports import Page, Verdict
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.shard import Shard
from shardbatch.core.shortlist import shortlist
from shardbatch.core.slice import Slice
from shardbatch.errors import InvalidAnswer
from shardbatch.run.consumer import Consumer, Verdicts, first_count
from shardbatch.run.hold import Held
from shardbatch.run.instants import reached
from shardbatch.run.listing import list_shards, look_again


class Children:
    """Takes children for one read task. One listing serves all shards of the task whose children it contains."""

    def __init__(self, consumer: Consumer, owner: str, group: str) -> None:
        self._consumer = consumer
        self._owner = owner
        self._group = group
        self._listing: dict[str, Shard] = {}
        self._gone: set[str] = set()
        self._verdicts = Verdicts(consumer, owner)

    def take(self, held: Held, landed: Slice, seen: Collection[str]) -> list[Lease]:
        """The leases of an ended shard's children, except those ``seen``, whose parents this owner has all finished.

        :raises SourceError: if the stream's listing is needed and cannot be had, for an interval also if it is torn.
        """
        children = {shard.shard_id: shard for shard in self._unlisted(held.shard_id)}
        named = held.children or (() if held.leaf else self._listed(held.shard_id, landed))
        children.update((shard.shard_id, shard) for shard in named)
        ready: list[Lease] = []
        for shard_id in sorted(children.keys() - set(seen)):
            taken = self._take(children[shard_id])
            if taken is not None:
                ready.append(taken)
        return ready

    def enrol(self, parent: str, end: Page) -> Page:
        """The end of a shard as it may be landed: of an interval's it names the children, and each of them has a row.

        Freeze waits for every row, and for nothing else. So no child is forgotten, whatever happens to this task after
        the parent is landed. A child may lack a row that existed at the claim, since a listing may be old.

        :raises SourceError: if the end names none and the listing cannot be had, or has none either.
        """
        if self._consumer.interval is None or end.gone or end.leaf:
            return end
        children = end.children or tuple(
            shard for shard in list_shards(self._consumer) if parent in shard.parent_shard_ids
        )
        if not children:
            text = "Shard {} has ended, and neither its end nor the stream's listing names a child of it."
            raise InvalidAnswer(text.format(parent), remedy="Nothing is lost: a retry asks again.")
        for child in children:
            if self._consumer.lease(child.shard_id) is None:
                self._added(child, {name: self._consumer.lease(name) for name in child.parent_shard_ids})
        return replace(end, children=children)

    def _listed(self, parent: str, landed: Slice) -> list[Shard]:
        """Children as the stream lists them."""

        def found() -> list[Shard]:
            shards = self._listing.values()
            return [shard for shard in shards if parent in shard.parent_shard_ids or shard.shard_id in landed.children]

        if not found() or not self._listing.keys() >= set(landed.children):
            self._listing = {shard.shard_id: shard for shard in self._consumer.source.list_shards()}
        return found()

    def _unlisted(self, parent: str) -> list[Shard]:
        """Children of an interval's shard that have a row and have left the listing: no later run would read them."""
        if self._consumer.interval is None:
            return []
        rows = [row for row in self._consumer.leases() if parent in row.parent_shard_ids]
        return [Shard(row.shard_id, row.parent_shard_ids, closed=True) for row in rows]

    def _over(self, owner: str) -> bool:
        """Whether a lease may be taken from this owner (E2): the read goes on after what that owner landed."""
        return self._verdicts(owner) is Verdict.OVER

    def _take(self, child: Shard) -> Lease | None:
        parents = {parent: self._consumer.lease(parent) for parent in child.parent_shard_ids}
        if not self._are_gone({parent for parent, row in parents.items() if row is None}, child):
            return None
        if not ready_child(child, parents, self._owner):
            return None
        row = self._consumer.lease(child.shard_id) or self._added(child, parents)
        if row is None or row.completed or row.batch_id is not None:
            return None
        if row.lease_owner == self._owner:
            return row if row.read_group == self._group else None
        if row.lease_owner is not None and not self._over(row.lease_owner):
            return None
        if row.pending is None and row.checkpoint.ahead_of(reached(self._consumer, [row.checkpoint])):
            return None
        taken = leases.take(row, self._owner, self._group, self._consumer.now_ms())
        if not self._consumer.store.replace(row, taken):
            return None
        self._consumer.say(f"Shard {child.shard_id} follows its parents in this run.")
        return taken

    def _are_gone(self, parents: set[str], child: Shard) -> bool:
        """Whether these parents, which have no row, are gone from the stream: a listing may lack one that has records.
        A parent that is listed is younger than the claim, and the next claim gives it a row."""
        if any(parent in self._listing for parent in parents):
            return False
        doubted = parents - self._gone
        if doubted:
            first = self._consumer.source.list_shards()
            both, whole = look_again(self._consumer, first)
            self._listing = {shard.shard_id: shard for shard in both}
            if not parents.isdisjoint(self._listing):
                return False
            if not whole:
                self._doubt(doubted, child)
                return False
            self._gone |= doubted
        return True

    def _doubt(self, parents: set[str], child: Shard) -> None:
        text = "Shard {} is left to the next run: the stream's listing is incomplete, and lacks its parent {}."
        told = text.format(child.shard_id, shortlist(sorted(parents)))
        if self._consumer.interval is not None:  # it has no next run
            raise InvalidAnswer(told)
        self._consumer.warn(told)

    def _added(self, child: Shard, parents: Mapping[str, Lease | None]) -> Lease | None:
        """The row of a child that is younger than the claim. This task may be late too, so the row records the child's
        age as a claim would. The rows of an interval do not, because they record no earlier looks."""
        consumer = self._consumer
        born = born_after(child, consumer.lease, consumer.now_ms()) if consumer.interval is None else None
        rows = {name: row for name, row in parents.items() if row is not None}
        begins = beginning(child, rows, {}, TRIM_HORIZON, consumer.now_ms())
        fresh = leases.add(
            consumer.namespace,
            consumer.scope,
            child,
            begins.place,
            first_count(),
            consumer.now_ms(),
            born.ms if born else None,
            begins.skipped,
        )
        return fresh if consumer.store.create(fresh) else consumer.lease(child.shard_id)
