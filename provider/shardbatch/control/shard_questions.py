# SPDX-License-Identifier: Apache-2.0
"""What sensors ask of single shards: are they closed or completed, and is what follows them all there?"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from shardbatch.control.questions import Answer
from shardbatch.control.status import look_at
from shardbatch.control.stream_look import Listing, StreamLook
from shardbatch.core.application import Application
from shardbatch.core.choices import ShardEnd
from shardbatch.core.lease import Lease
from shardbatch.core.lineage_cover import descendants, parents_of, uncovered
from shardbatch.core.owner import ResetHolder
from shardbatch.core.ports import LeaseStore
from shardbatch.core.rows import Namespace
from shardbatch.core.shortlist import shortlist
from shardbatch.run.batch_status import utc
from shardbatch.run.enrol import check

SECOND_MS = 1000
LISTS = "'airflow shardbatch shards' lists those of the application."


@dataclass(frozen=True)
class ShardsEnded:
    """Have these shards ended? Either ``shard_ids``, or, at the first look, all that were open at ``open_at_ms``.

    ``fixed``: the first look was made, so each of them was known then. From then on the set stays: a later listing has
    fewer and fewer shards of that time, and of none at all everything is true.
    """

    shard_ids: tuple[str, ...] = ()
    open_at_ms: int | None = None
    state: str = ShardEnd.CLOSED
    fixed: bool = False

    def ask(self, store: LeaseStore, namespace: Namespace) -> Answer:
        """By the rows alone."""
        return self.ask_with(store, namespace, None)

    def ask_with(self, store: LeaseStore, namespace: Namespace, stream: StreamLook | None) -> Answer:
        """Look at the rows, and at a listing for what they do not say."""
        application, leases = look_at(store, namespace)
        view = _View(application, leases, stream)
        if not self.fixed:
            question = self._fix(view)
            if isinstance(question, Answer):
                return question
            return replace(question._asked(view), then=question)
        return self._asked(view)

    def _fix(self, view: _View) -> ShardsEnded | Answer:
        """The question with the set that is asked for from now on, or why that cannot be told."""
        names: Collection[str] = self.shard_ids
        if self.open_at_ms is not None:
            found = self._open_then(view, self.open_at_ms)
            if isinstance(found, Answer):
                return found
            names = found
        else:
            unknown = [name for name in names if not view.knows(name)]
            if unknown and view.stream is not None and not view.both_whole:
                return Answer(False, f"{shortlist(unknown)} wait for a complete listing: {view.torn}")
            if unknown:
                where = "by the application's rows" if view.stream is None else "by the application or by the stream"
                more = " A new shard has none yet: give the stream itself, not its name." if view.stream is None else ""
                return Answer(
                    False, f"{shortlist(unknown)}: not known {where}. Check the ids. {LISTS}{more}", never=True
                )
        return replace(self, shard_ids=tuple(sorted(names)), open_at_ms=None, fixed=True)

    def _open_then(self, view: _View, instant_ms: int) -> set[str] | Answer:
        if view.stream is None:
            text = "Only the name of the stream is known, so it cannot be asked which shards were open."
            return Answer(False, f"{text} Give the stream itself as stream=, or batch=.", never=True)
        now_ms = view.stream.clock_ms()
        if instant_ms >= now_ms + SECOND_MS:  # which is told in whole seconds
            text = f"open_at={utc(instant_ms)} lies ahead of the stream's clock, which says {utc(now_ms)}."
            return Answer(False, f"{text} Begin to wait after it, or give an earlier one.", never=True)
        listed, hole = view.listed, view.torn
        if hole:
            return Answer(False, f"The shards that were open wait for a complete listing: {hole}")
        then = view.stream.open_at(instant_ms)
        unread = {name for name, row in view.rows.items() if not row.completed}
        if then is not None:
            found = {shard.shard_id for shard in then}
            more = unread - set(listed)
        else:
            # It is unknown when shards were closed. Those that are over by now are closed, so only what the application
            # has not completed counts beside those that are open.
            found = {name for name, shard in listed.items() if not shard.closed}
            more = unread | {name for name in listed if name not in view.rows}
        if self.state == ShardEnd.COMPLETED:
            found |= more
        if not found:
            text = f"No shard was open at {utc(instant_ms)}: the stream is younger, or they have left it since."
            return Answer(False, f"{text} Give a later open_at, or shard_ids.", never=True)
        return found

    def _asked(self, view: _View) -> Answer:
        told = {"shards": list(self.shard_ids), "state": str(self.state)}
        left = self._left(view)
        if not left:
            return Answer(True, told=told)
        if self.state == ShardEnd.COMPLETED:
            rowless = [name for name in left if name not in view.rows]
            lost = [name for name in rowless if view.stream is None or view.gone(name)]
            if lost:
                why = "the stream has it no longer, so it was never read and never will be"
                if view.stream is None:
                    why = "only the name of the stream is known, so its listing cannot be asked"
                text = f"{shortlist(lost)}: no row of the application, and {why}. Leave it out. {LISTS}"
                return Answer(False, text, never=True, told=told)
            new = f" {shortlist(rowless)}: no row yet, which the next claim adds." if rowless else ""
            return Answer(False, f"Not completed yet: {shortlist(left)}.{new}", told=told)
        open_ = [name for name in left if not view.closed(name)]
        if not open_:
            return Answer(True, told=told)
        more = f" A listing was incomplete: {view.torn}" if view.torn else ""
        return Answer(False, f"Not closed yet: {shortlist(open_)}.{more}", told=told)

    def _left(self, view: _View) -> list[str]:
        """Those that have not ended by the rows."""
        over = view.completed if self.state == ShardEnd.COMPLETED else view.closed_by_rows
        return [name for name in self.shard_ids if not over(name)]

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "kind": "shards_ended",
            "shard_ids": list(self.shard_ids),
            "open_at_ms": self.open_at_ms,
            "state": str(self.state),
            "fixed": self.fixed,
        }


@dataclass(frozen=True)
class LineageComplete:
    """Are these shards completed, and are their children all enrolled?

    With ranges of keys: the rows of all their descendants cover their keys, and so do those that a complete listing
    shows. Without: they have children, or will never have one, and each child that rows or two listings name has a row.
    """

    parents: tuple[str, ...]

    def ask(self, store: LeaseStore, namespace: Namespace) -> Answer:
        """By the rows alone."""
        return self.ask_with(store, namespace, None)

    def ask_with(self, store: LeaseStore, namespace: Namespace, stream: StreamLook | None) -> Answer:
        """Look at the rows first; at listings only when the parents are completed, or one has no row."""
        application, leases = look_at(store, namespace)
        view = _View(application, leases, stream)
        told: dict[str, Any] = {"parents": list(self.parents)}
        if stream is None:
            text = "Only the name of the stream is known, so its listing cannot be asked for children."
            return Answer(False, f"{text} Give the stream itself as stream=, or batch=.", never=True)
        left = [name for name in self.parents if not view.completed(name)]
        rowless = [name for name in left if name not in view.rows]
        if left and not rowless:
            return Answer(False, f"Not completed yet: {shortlist(left)}.", told=told)
        capabilities = stream.capabilities()
        if not capabilities.lineage:
            return Answer(False, "The shards of this stream have no children.", never=True, told=told)
        lost = [name for name in rowless if view.gone(name)]
        if lost:
            text = f"{shortlist(lost)}: neither the application nor the stream has it."
            return Answer(False, f"{text} Check the ids. {LISTS}", never=True, told=told)
        if left:
            return Answer(False, f"Not completed yet: {shortlist(left)}.", told=told)
        if view.torn:
            return Answer(False, f"Waits for a complete listing: {view.torn}", told=told)
        lacking = self._by_keys(view) if capabilities.key_space is not None else self._by_names(view)
        told["children"] = sorted(
            name for name, row in view.rows.items() if set(row.parent_shard_ids) & {*self.parents}
        )
        return Answer(not lacking, " ".join(lacking), told=told)

    def _by_keys(self, view: _View) -> list[str]:
        """What is missing of the keys of each parent, in rows or in the listing."""
        parents, listed, lacking = parents_of(view.rows.values(), view.listed.values()), view.listed, []
        ranges = {name: shard.hash_range for name, shard in listed.items()}
        ranges.update((name, row.hash_range) for name, row in view.rows.items() if row.hash_range is not None)
        for name in self.parents:
            below, keys = descendants(name, parents), ranges.get(name)
            if keys is None:
                lacking.append(f"{name}: its keys are not known.")
                continue
            for where, there in (("row", view.rows), ("listed shard", listed)):
                found = uncovered(keys, (ranges.get(child) for child in below if child in there))
                if found:
                    lacking.append(f"{name}: no {where} that follows it has the keys {shortlist(found)}.")
        return lacking

    def _by_names(self, view: _View) -> list[str]:
        """The parents without a child, and the children without a row."""
        shards = {**view.listed, **view.listed_again}
        parents, lacking = parents_of(view.rows.values(), shards.values()), []
        for name in self.parents:
            children = {child for child, named in parents.items() if name in named}
            if not children and not (name in shards and shards[name].leaf):
                lacking.append(f"{name}: no child of it is listed yet.")
            new = sorted(child for child in children if child not in view.rows)
            if new:
                lacking.append(f"{name}: {shortlist(new)} have no row yet, which the next claim adds.")
        return lacking

    def to_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return {"kind": "lineage_complete", "parents": list(self.parents)}


class _View:
    """The rows of an application, and the listings of its stream; these are asked for when they are needed first.

    :raises StreamRecreated: at the first listing, if it is that of another stream than the application's.
    """

    def __init__(self, application: Application, leases: Iterable[Lease], stream: StreamLook | None) -> None:
        self.rows, self.stream = {lease.shard_id: lease for lease in leases}, stream
        self._application = application
        self._listings: list[Listing] = []
        self._parents: dict[int, set[str]] = {}

    def _listing(self, number: int) -> Listing:
        if self.stream is not None and not self._listings:
            check(self._application, self.stream.identity())
        while len(self._listings) <= number:
            self._listings.append(Listing(()) if self.stream is None else self.stream.listing())
        return self._listings[number]

    @cached_property
    def _row_parents(self) -> set[str]:
        return {parent for row in self.rows.values() for parent in row.parent_shard_ids}

    def _is_parent(self, name: str, number: int) -> bool:
        """Whether a shard of a listing names it as its parent."""
        if number not in self._parents:
            shards = self._listing(number).shards
            self._parents[number] = {parent for shard in shards for parent in shard.parent_shard_ids}
        return name in self._parents[number]

    @cached_property
    def listed(self) -> dict[str, Any]:
        """The shards of a listing, by their ids."""
        return {shard.shard_id: shard for shard in self._listing(0).shards}

    @cached_property
    def listed_again(self) -> dict[str, Any]:
        """Those of another listing, right behind it."""
        return {shard.shard_id: shard for shard in self._listing(1).shards}

    @property
    def torn(self) -> str:
        """What the listings that were made lack."""
        self._listing(0)
        return " ".join(dict.fromkeys(filter(None, (listing.torn for listing in self._listings))))

    @property
    def both_whole(self) -> bool:
        """Whether two listings in a row are complete."""
        self._listing(1)
        return not self.torn

    def knows(self, name: str) -> bool:
        """Whether it has a row, is listed, or another one names it as its parent."""
        if name in self.rows or name in self._row_parents:
            return True
        if name in self.listed or self._is_parent(name, 0):
            return True
        return name in self.listed_again or self._is_parent(name, 1)

    def gone(self, name: str) -> bool:
        """Whether two complete listings in a row lack it."""
        return name not in self.listed and self.both_whole and name not in self.listed_again

    def completed(self, name: str) -> bool:
        """Whether all of it is committed, and no reset is about to read it again."""
        row = self.rows.get(name)
        return row is not None and row.completed and ResetHolder.parse(row.lease_owner) is None

    def closed_by_rows(self, name: str) -> bool:
        """Whether the application has seen its end, or a child of it."""
        row = self.rows.get(name)
        ended = row is not None and (row.completed or (row.pending is not None and row.pending.ended))
        return ended or name in self._row_parents

    def closed(self, name: str) -> bool:
        """Whether it takes no more records: also where it was known, and is listed no more."""
        if self.stream is None or self.closed_by_rows(name):
            return self.closed_by_rows(name)
        if name in self.listed:
            return bool(self.listed[name].closed) or self._is_parent(name, 0)
        return self._is_parent(name, 0) or self.gone(name)
