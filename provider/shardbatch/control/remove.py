# SPDX-License-Identifier: Apache-2.0
"""Remove: an application goes, with its rows, its files in staging and what it registered with its stream (PROTOCOL X).

The application's row is closed first, and stays. From then on nothing is claimed, frozen or committed, even by a run
that had read rows before. What such a run still writes is in no batch, and the next removal removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from shardbatch.control.action import TRIES, Action, Done
from shardbatch.control.clean_guard import cleaned
from shardbatch.control.clean_up import Cleaned
from shardbatch.control.remove_look import Standing, late, look, obstacles, require_own
from shardbatch.core import batch as batches
from shardbatch.core.application import Application
from shardbatch.core.batch import DROPPED, KEPT, UNDECIDED, Batch, BatchState
from shardbatch.core.cleaning import CleanedLanding
from shardbatch.core.lease import Lease
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.registered import Registered
from shardbatch.core.rows import BATCH, SHARD_LEASE
from shardbatch.errors import ShardbatchError, StagingError
from shardbatch.run.batch_status import in_bytes
from shardbatch.run.consumer import first_count
from shardbatch.run.settle import mark, void_absent

#: What an answer calls the things that go.
KINDS = {
    "leases": "rows of shards: how far each was read",
    "batches": "rows of batches: what each was decided to be",
    "slices": "folders of landed records: no replay any more",
    "uploads": "uploads that were never completed",
    "documents": "folders of documents of batches",
}
_LATE = "it is written all the time by a run; end that, and call remove again"


def remove(
    action: Action, *, discard: bool = False, free_name: bool = False, registered: Registered | None = None
) -> tuple[Done, ...]:
    """Remove an application: its rows of every scope, its files in staging, and what it registered with its stream.

    What it committed stays in its output roots, and readers go on seeing it. Its own row stays and says that it was
    removed, and so do the numbers of its intervals. It is called again where it died, or where something came late.

    :param discard: also what is not finished: frozen and parked batches, batches kept for a replay, replays that are
        not decided, landed records, what a reset holds, and owners that this Airflow cannot judge. Default no.
    :param free_name: also remove the application's own row, so that a first claim may begin anew under its name. No
        run of it may be left anywhere. Default no.
    :param registered: what the application has registered with its stream; default: it cannot have anything.
    :raises ApplicationUnknown: if the store has nothing of it.
    :raises ConfigurationError: if the reason is empty, no staging is given, or a folder in staging shows that this is
        not the lease store of the runs.
    :raises StagingError: if staging cannot be listed.
    :raises UnsupportedSchema: if the application's rows are not of this version.
    """
    action.require_reason()
    landing = cleaned(action.landing)
    row, found = action.require_schema(), look(action, landing)
    if row is None and not found.leases and not found.batches:
        action.expect_application()
    require_own(landing, row, action, found)
    stops = [*obstacles(action, landing, found, discard=discard), *late(row, found, discard=discard)]
    removal = _Removal(action, landing, registered, free_name)
    if action.dry_run:
        return (*stops, *removal.preview(row, found))
    if stops:
        return tuple(stops)
    if row is not None and row.removed and found.empty and not free_name:
        return removal.again(found)
    fresh = _close(action, landing)
    found = look(action, landing)  # what a run did between the first look and that
    stops = obstacles(action, landing, found, discard=discard)
    if stops:
        if fresh:
            _reopen(action)
        return tuple(stops)
    return removal.run(found)


def _close(action: Action, landing: CleanedLanding) -> bool:
    """X1: the application's row says that it is removed; whether it said so by this call only."""
    while True:
        row = action.application()
        note = action.note()
        if row is None:  # of an application that has only read intervals
            made = Application(
                action.namespace,
                "",
                TRIM_HORIZON,
                first_count(),
                last_action=note,
                removed=note,
                removed_from=landing.uri,
            )
            if action.store.create(made):
                return True
        elif row.removed is not None:
            return False
        elif action.store.replace(row, row.closed(note, landing.uri)):
            return True


def _reopen(action: Action) -> None:
    """A run turned out to be at work, and nothing is gone yet."""
    note = replace(action, verb=replace(action.verb, past="did not remove")).note("what a run is at work on")
    row = action.application()
    while row is not None and row.removed is not None:
        done = action.store.replace(row, row.reopened(note)) if row.stream_id else action.store.delete(row)
        if done:
            return
        row = action.application()


@dataclass
class _Removal:
    action: Action
    landing: CleanedLanding
    registered: Registered | None
    free_name: bool
    counts: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    left: list[Done] = field(default_factory=list)

    def preview(self, row: Application | None, found: Standing) -> list[Done]:
        """What would go, and what stays."""
        self._count("leases", len(found.leases))
        self._count("batches", len(found.batches))
        for slices in found.slices:
            self._count("slices", 1, slices.files, slices.bytes)
            self._count("uploads", len(slices.uploads), 0, sum(upload.bytes for upload in slices.uploads))
        for documents in found.documents:
            self._count("documents", 1, documents.files, documents.bytes)
        consumer = self._consumer(lambda registered: registered.stands())
        already = row is not None and row.removed is not None and not self.counts
        if already and consumer is None and not self.free_name:
            return [self._already(), *self._intervals(found)]
        lines = [*self._lines("would remove"), *([consumer] if consumer else [])]
        return [*lines, *self._intervals(found), self._own_row("would remove")]

    def again(self, found: Standing) -> tuple[Done, ...]:
        """It was removed before, and nothing came since; but a run may have registered a consumer once more."""
        consumer = self._consumer(lambda registered: registered.take_away())
        return (*([consumer] if consumer else [self._already()]), *self._intervals(found))

    def run(self, found: Standing) -> tuple[Done, ...]:
        """All of it, in the order in which a removal that died can be done again."""
        for batch in found.batches:
            self._end(batch)
        if not self.left:
            known = {folder.batch_id for folder in found.documents} | {batch.batch_id for batch in found.batches}
            self._remove_slices()
            self._remove_documents(known)
        if not self.left:
            self._remove_leases()
        if not self.left:
            self._remove_batches()
        consumer = None if self.left else self._consumer(lambda registered: registered.take_away())
        gone = [*self._lines("removed"), *([consumer] if consumer else []), *self._intervals(found)]
        left = [*self.left, *(item for item in gone if item.result == "left")]
        if left:
            return (*(item for item in gone if item.result != "left"), *left)
        if self.free_name:
            self._forget()
        return (*gone, self._own_row("removed"))

    # ------------------------------------------------------------------ rows

    def _in(self, scope: str) -> Action:
        return replace(self.action, scope=scope)

    def _end(self, seen: Batch) -> None:
        """Nothing is decided of a batch any more, and each of its roots is told: B6, or the markers and B17."""
        action, current = self._in(seen.scope), cast("Batch | None", seen)
        for _ in range(TRIES):
            if current is None or current.state is BatchState.VOID:
                return
            try:
                if _may_be_untold(current):
                    mark(self.landing, current)
            except StagingError as error:
                self._leave("batches", current.batch_id, f"its decision cannot be told: {error}")
                return
            if current.retired_ms is not None:
                return
            changed = _ended(current, action)
            current = changed if action.store.replace(current, changed) else action.batch(seen.batch_id)
        self._leave("batches", seen.batch_id, _LATE)

    def _remove_leases(self) -> None:
        for _ in range(TRIES):
            rows = list(cast("Iterator[Lease]", self.action.store.list(SHARD_LEASE, self.action.namespace, None)))
            if not rows:
                return
            for row in rows:
                if row.batch_id is not None:  # as the batch of the stamp permits
                    action = self._in(row.scope)
                    self._end(action.batch(row.batch_id) or void_absent(action, row.batch_id))
                    if self.left:
                        return
                if self.action.store.delete(row):
                    self._count("leases", 1)
        self._leave("leases", str(self.action.namespace), _LATE)

    def _remove_batches(self) -> None:
        """Behind all files, so that none is ever there without a row (A10)."""
        for _ in range(TRIES):
            rows = list(cast("Iterator[Batch]", self.action.store.list(BATCH, self.action.namespace, None)))
            if not rows:
                return
            for row in rows:
                if row.state is not BatchState.VOID and row.retired_ms is None:  # a freeze made it just now
                    self._end(row)
                    self._remove_documents({row.batch_id})
                    continue
                if self.left:
                    return
                if self.action.store.delete(row):
                    self._count("batches", 1)
        self._leave("batches", str(self.action.namespace), _LATE)

    def _forget(self) -> None:
        """The application's row, last: nothing is left of it."""
        row = self.action.application()
        while row is not None and not self.action.store.delete(row):
            row = self.action.application()

    # ------------------------------------------------------------------ files

    def _remove_slices(self) -> None:
        cleaner = self.landing.cleaner
        for folder in cleaner.slices(self.action.namespace):
            try:
                cleaner.remove_slice(folder)
            except StagingError as error:
                self._leave("slices", folder.path, str(error))
                continue
            self._count("slices", 1, folder.files, folder.bytes)
            self._count("uploads", len(folder.uploads), 0, sum(upload.bytes for upload in folder.uploads))

    def _remove_documents(self, known: set[str]) -> None:
        """Those of batches that were looked at; a manifest without a row that came since may be another store's."""
        cleaner, namespace = self.landing.cleaner, self.action.namespace
        for folder in cleaner.batches(namespace):
            if folder.manifest and folder.batch_id not in known:
                continue
            try:
                cleaner.remove_batch(namespace, folder.batch_id)
            except StagingError as error:
                self._leave("documents", folder.batch_id, str(error))
                continue
            self._count("documents", 1, folder.files, folder.bytes)

    # ------------------------------------------------------------------ the stream

    def _consumer(self, ask: Callable[[Registered], bool]) -> Done | None:
        """What became of what is registered with the stream; ``None`` if there is nothing."""
        if self.registered is None:
            return None
        try:
            stood = ask(self.registered)
        except ShardbatchError as error:
            why = f"it may still be registered, which costs money: {error}"
            return Done("consumer", self.registered.name, "", "left", why)
        if not stood:
            return None
        effect = "the stream's consumer of this app_name; one of the same name in another store registers it again"
        result = "would remove" if self.action.dry_run else "removed"
        return Cleaned("consumer", self.registered.name, "", result, effect=effect, number=1)

    # ------------------------------------------------------------------ the answer

    def _count(self, kind: str, number: int, files: int = 0, size: int = 0) -> None:
        if number:
            before = self.counts.get(kind, (0, 0, 0))
            self.counts[kind] = (before[0] + number, before[1] + files, before[2] + size)

    def _leave(self, kind: str, name: str, why: str) -> None:
        self.left.append(Done(kind, name, "", "left", why))

    def _lines(self, result: str) -> Sequence[Done]:
        return [
            Cleaned(kind, f"{number:,}", "", result, effect=_effect(kind, files, size), number=number, bytes=size)
            for kind, (number, files, size) in ((kind, self.counts[kind]) for kind in KINDS if kind in self.counts)
        ]

    def _intervals(self, found: Standing) -> list[Done]:
        """Rows that stay: with a lower number a later run over an interval would stay hidden (H3)."""
        if not found.intervals:
            return []
        effect = "rows of intervals stay: readers go by their numbers"
        return [Cleaned("intervals", f"{found.intervals:,}", "", "kept", effect=effect, number=found.intervals)]

    def _own_row(self, result: str) -> Done:
        if self.free_name:
            effect = "its name is free: a first claim begins anew; what it committed stays in its output roots"
        else:
            effect = "its row stays and refuses its runs; what it committed stays in its output roots"
        return Cleaned("application", str(self.action.namespace), "", result, effect=effect, number=1)

    def _already(self) -> Done:
        return Done("application", str(self.action.namespace), "", "already", "it was removed before")


def _may_be_untold(batch: Batch) -> bool:
    """Whether a root may lack the marker of its last decision. All have it before a batch is retired (B17); only an
    interval's batch may be taken back afterwards (B11)."""
    return batch.state is BatchState.COMMITTED and (batch.retired_ms is None or batch.set_aside == DROPPED)


def _ended(batch: Batch, action: Action) -> Batch:
    """The next row of a batch on its way to never being worked on again."""
    if batch.state in UNDECIDED:
        return batches.discard(batch, action.note())
    if batch.set_aside == KEPT:
        return batches.drop(batch, action.note())
    return batches.retire(batch, action.note(), action.now_ms())


def _effect(kind: str, files: int, size: int) -> str:
    parts = [KINDS[kind], *([f"{files:,} files"] if files else []), *([in_bytes(size)] if size else [])]
    return "; ".join(parts)
