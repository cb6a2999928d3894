# SPDX-License-Identifier: Apache-2.0
"""Clean-up: what staging and output roots hold that can never be used any more is removed (PROTOCOL A).

The order of looks is what makes it safe: folders, then leases, then batches with their manifests, then it removes.
Before the last look, batches whose archive time is over are retired (B17), which no attempt survives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import cast

from shardbatch.control.action import Action, Done, Stays
from shardbatch.control.clean_guard import cleaned, require_own_rows
from shardbatch.control.clean_outputs import Outputs
from shardbatch.control.set_aside import move_on
from shardbatch.core import batch as batches
from shardbatch.core.archive import ARCHIVE_FOR, DRAWN_FOR, HISTORY_FOR, YOUNG
from shardbatch.core.batch import DROPPED, KEPT, Batch, BatchState
from shardbatch.core.cleaning import BatchFolder, CleanedLanding, SliceFolder, unused
from shardbatch.core.lease import Lease
from shardbatch.core.manifest import Manifest, digest
from shardbatch.core.rows import BATCH, SHARD_LEASE
from shardbatch.errors import ShardbatchError, StagingError, UnsupportedSchema
from shardbatch.run.batch_status import in_bytes
from shardbatch.run.settle import mark, void_absent
from shardbatch.run.staging_place import stands_in


@dataclass(frozen=True)
class Cleaned(Done):
    """What became of all things of one ``kind``: how many, and of how many bytes. What is ``left`` stands by itself."""

    number: int = 0
    bytes: int = 0


def clean_up(action: Action, *, archive_for: timedelta = ARCHIVE_FOR) -> tuple[Cleaned, ...]:
    """Retire the batches whose archive time is over, and remove what nothing can use any more.

    It may be called at any time, by several at once and beside runs. What died is done by the next one.

    :param archive_for: how long the slices of a committed batch are kept after its last decision or attempt.
    :raises ConfigurationError: if the application is not there, the reason is empty, no staging is given, or a folder
        in staging shows that this is not the lease store of the runs.
    :raises StagingError: if staging cannot be listed.
    :raises UnsupportedSchema: if the application's rows are not of this version.
    """
    action.begin()
    action.require_version()
    sweep = _Sweep(action, cleaned(action.landing), archive_for)
    sweep.run()
    return sweep.answer()


#: What an answer calls the things that go, and of what it counts bytes.
KINDS = {
    "archive": "batches whose archive time is over: no replay any more",
    "slices": "folders of reads that no lease and no batch names",
    "uploads": "uploads that were never completed",
    "documents": "folders of documents of retired and void batches",
    "starts": "start folders that no reader sees",
    "markers": "markers and sums that a later sum covers",
    "rows": "rows of batches that never commit",
}


@dataclass
class _Sweep:
    action: Action
    landing: CleanedLanding
    archive_for: timedelta
    retired: set[str] = field(default_factory=set)
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    left: list[Cleaned] = field(default_factory=list)
    noted: bool = False

    def run(self) -> None:
        """All of it, in the order that makes it safe."""
        action, cleaner = self.action, self.landing.cleaner
        documents, slices = cleaner.batches(action.namespace), cleaner.slices(action.namespace)
        leases = list(cast("Iterator[Lease]", action.store.list(SHARD_LEASE, action.namespace, None)))
        before = self._batches()
        require_own_rows(self.landing, action.namespace, documents, slices, leases, before)
        for batch in before:
            self._retire(batch)
        rows = sorted(self._batches(), key=lambda batch: batch.state is not BatchState.VOID)
        found = {batch.batch_id: batch for batch in rows}  # of two scopes' rows of one id the one that may be live
        named = self._named(rows)
        if named is not None:
            self._remove_slices(unused(slices, leases, named))
        outputs = Outputs(action, self.landing, list(found.values()), self)
        listed = {folder.batch_id for folder in documents}
        standing = listed - {folder.batch_id for folder in documents if self._clean_batch(folder, found, outputs)}
        for batch in found.values():
            if batch.batch_id not in listed and batch.scope and batch.set_aside == DROPPED and self.is_over(batch):
                outputs.clear(batch)  # it was taken back after its documents went
        outputs.sweep()
        carried = {lease.batch_id for lease in leases if lease.batch_id is not None}
        for batch in found.values():
            if batch.batch_id not in standing | carried:
                self._forget(batch)

    def answer(self) -> tuple[Cleaned, ...]:
        """A line for each kind of things, and one for each that was left."""
        verb, done = self.action.verb, []
        for kind, (number, size) in self.counts.items():
            result = f"would {verb.would}" if self.action.dry_run else verb.past
            if kind == "archive":
                result = "would retire" if self.action.dry_run else "retired"
            done.append(Cleaned(kind, f"{number:,}", "", result, effect=_effect(kind, size), number=number, bytes=size))
        nothing = Cleaned("application", str(self.action.namespace), "", "already", "there is nothing to remove")
        return (*done, *self.left) or (nothing,)

    # ------------------------------------------------------------------ for the parts

    def begin(self) -> None:
        """Before anything is changed, it is noted on the application's row."""
        if not self.noted:
            self.noted = True
            self.action.record("what is not used any more")

    def count(self, kind: str, number: int = 1, size: int = 0) -> None:
        """So many of a kind went, or would go."""
        if number:
            before = self.counts.get(kind, (0, 0))
            self.counts[kind] = (before[0] + number, before[1] + size)

    def leave(self, kind: str, name: str, why: str) -> None:
        """One that ought to go and stays, and why."""
        self.left.append(Cleaned(kind, name, "", "left", why))

    def is_young(self, newest_ms: int | None, than: timedelta = YOUNG) -> bool:
        """Whether something was written so recently that its writer may be at work; that is a courtesy."""
        return newest_ms is not None and self.action.now_ms() - newest_ms < than.total_seconds() * 1000

    def is_over(self, batch: Batch) -> bool:
        """Whether it is never worked on again: it is void or retired, or this preview would retire it."""
        return batch.state is BatchState.VOID or batch.retired_ms is not None or batch.batch_id in self.retired

    # ------------------------------------------------------------------ rows

    def _batches(self) -> list[Batch]:
        return list(cast("Iterator[Batch]", self.action.store.list(BATCH, self.action.namespace, None)))

    def _retire(self, seen: Batch) -> None:
        """B17, behind the markers and the checkpoints of its decision."""
        if not self._is_due(seen):
            return
        at_work = "a replay of it is at work; end that run, or wait for it"
        why = self.action.left_to(seen.owner, at_work) if seen.attempt > seen.decided else ""
        if why:
            self.leave("archive", seen.batch_id, why)
            return
        if not self.action.dry_run:
            self.begin()
            try:
                mark(self.landing, seen)
            except StagingError as error:
                self.leave("archive", seen.batch_id, f"its decision cannot be told: {error}")
                return
            move_on(replace(self.action, scope=seen.scope), seen)

        def stays(batch: Batch) -> Stays | None:
            return None if batch.row_count == seen.row_count else Stays("it was changed just now")

        done, _ = self.action.change(
            seen, stays, lambda batch: batches.retire(batch, self.action.note(), self.action.now_ms())
        )
        if done.result != "left":  # else the next clean-up sees what became of it
            self.retired.add(seen.batch_id)
            self.count("archive", 1, seen.bytes)

    def _is_due(self, batch: Batch) -> bool:
        kept = batch.state is not BatchState.COMMITTED or batch.set_aside == KEPT or batch.retired_ms is not None
        return not kept and self.action.now_ms() - batch.last_used_ms >= self.archive_for.total_seconds() * 1000

    def _forget(self, batch: Batch) -> None:
        """The row of a void batch of which nothing is left; no freeze makes a batch of an id so old (D2h)."""
        age = self.action.now_ms() - batch.last_used_ms
        if batch.state is not BatchState.VOID or age < HISTORY_FOR.total_seconds() * 1000:
            return
        if not stands_in(self.landing, batch):
            return
        if not self.action.dry_run:
            self.begin()
            if not self.action.store.delete(batch):
                return
        self.count("rows")

    # ------------------------------------------------------------------ slices

    def _named(self, found: Sequence[Batch]) -> list[str] | None:
        """The files that live batches name; ``None`` if a manifest does not say, so that no slice can be judged."""
        live = [b for b in found if b.state is not BatchState.VOID and not self.is_over(b)]
        contents = self.landing.cleaner.manifests(self.action.namespace, [batch.batch_id for batch in live])
        named: list[str] = []
        for batch in live:
            content = contents[batch.batch_id]
            if content is not None and digest(content) == batch.manifest_digest:
                try:
                    named += [file.path for file in Manifest.loads(content).files]
                except UnsupportedSchema as error:
                    self.leave("slices", batch.batch_id, f"no slice is removed: {error}")
                    return None
            elif content is not None or stands_in(self.landing, batch):
                what = "is missing" if content is None else "is not the one that was frozen"
                self.leave("slices", batch.batch_id, f"its manifest {what}, so no slice is removed: restore it")
                return None
        return named

    def _remove_slices(self, dead: Sequence[SliceFolder]) -> None:
        for folder in dead:
            if self.is_young(folder.newest_ms):
                continue
            if self.removed("slices", folder.path, partial(self.landing.cleaner.remove_slice, folder)):
                self.count("slices", 1, folder.bytes)
                self.count("uploads", len(folder.uploads), sum(upload.bytes for upload in folder.uploads))

    # ------------------------------------------------------------------ documents of batches

    def _clean_batch(self, folder: BatchFolder, found: dict[str, Batch], outputs: Outputs) -> bool:
        """Whether the folder of a batch that is never worked on again is removed now, with its starts, or would be."""
        batch = found.get(folder.batch_id)
        if batch is None and not folder.manifest:
            # A freeze that is so slow draws another id (D2h).
            if folder.newest_ms is None or self.is_young(folder.newest_ms, 2 * DRAWN_FOR):
                return False
        else:
            batch = batch or self._given_up(folder)
            if batch is None or not self.is_over(batch) or self.is_young(folder.newest_ms):
                return False
            if not outputs.clear(batch):
                return False
        cleaner, namespace = self.landing.cleaner, self.action.namespace
        if not self.removed("documents", folder.batch_id, lambda: cleaner.remove_batch(namespace, folder.batch_id)):
            return False
        self.count("documents", 1, folder.bytes)
        return True

    def _given_up(self, folder: BatchFolder) -> Batch | None:
        """B2: the row of a batch that its freeze never made, void from now on; or the row that came first."""
        if self.is_young(folder.newest_ms):
            return None
        namespace, batch_id = self.action.namespace, folder.batch_id
        content = self.landing.cleaner.manifests(namespace, [batch_id])[batch_id]
        if content is None:
            return None  # another clean-up removes it
        try:
            manifest = Manifest.loads(content)
        except (ValueError, KeyError, TypeError, ShardbatchError) as error:
            self.leave("documents", batch_id, f"its manifest cannot be read: {error}")
            return None
        if manifest.batch_id != batch_id:
            self.leave("documents", batch_id, f"its manifest is that of batch {manifest.batch_id}: restore its own")
            return None
        if self.action.dry_run:
            return batches.void(namespace, manifest.scope, batch_id, 1, self.action.now_ms())
        self.begin()
        return void_absent(replace(self.action, scope=manifest.scope), batch_id)

    def removed(self, kind: str, name: str, remove: Callable[[], None]) -> bool:
        """Whether something is removed now, or would be; why not is in the answer."""
        if self.action.dry_run:
            return True
        self.begin()
        try:
            remove()
        except StagingError as error:
            self.leave(kind, name, str(error))
            return False
        return True


def _effect(kind: str, size: int) -> str:
    return f"{KINDS[kind]}; {in_bytes(size)}" if size else KINDS[kind]
