# SPDX-License-Identifier: Apache-2.0
"""Clean-up as the breaker plays it (PROTOCOL A): between any two steps of others, without the courtesies that age
gives, dying anywhere, two at a time; and the laws that it may not break.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from shardbatch.control.clean_up import clean_up
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.cleaning import BatchFolder, SliceFolder, StartFolder
from shardbatch.core.decision import Decision
from shardbatch.core.lease import Lease
from shardbatch.core.owner import Owner
from shardbatch.core.rows import Key, Namespace, Row, Table
from tests.breaker.faults import SteppedLanding, SteppedStore, asked, called
from tests.breaker.process import Process
from tests.support.verbs import act

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.breaker.memory_landing import MemoryLanding
    from tests.breaker.world import World

#: A clean-up is no run of Airflow.
CLEANER = Owner("here", "cleaner", "gc", "")
#: How long batches are kept for a replay; of the first no time at all, so that age proves nothing.
KEPT_FOR = (timedelta(0), timedelta(0), timedelta(days=1))


class StrongStore(SteppedStore):
    """A clean-up reads rows as they stand: its lists and reads are strong."""

    def get(self, key: Key) -> Row | None:
        self.process.pause("strong")
        row: Row | None = self._store.get(key)
        return row

    def list(self, table: Table, namespace: Namespace, scope: str | None = "", **equal: str) -> Iterator[Row]:
        self.process.pause("strong")
        return iter(list(self._store.list(table, namespace, scope, **equal)))


class CleanedLanding(SteppedLanding):
    """A clean-up's way to the staging area."""

    def __init__(self, world: World, process: Process) -> None:
        super().__init__(world, process)
        self.cleaner = MemoryCleaner(world.landing, process)


class MemoryCleaner:
    """Lists and removes what stands in memory; others may come before each call, and between what goes in one."""

    def __init__(self, landing: MemoryLanding, process: Process) -> None:
        self._landing, self._process = landing, process

    def slices(self, namespace: Namespace) -> Sequence[SliceFolder]:
        found = called(self._process, lambda: list(self._landing.folders.items()))
        return [SliceFolder(path, *parts, files=1, bytes=1) for path, parts in found]

    def batches(self, namespace: Namespace) -> Sequence[BatchFolder]:
        def look() -> list[BatchFolder]:
            here = self._landing
            names = sorted({*here.manifests, *here.begun, *here.starts, *here.ends})
            return [BatchFolder(name, 1, 1, None, name in here.manifests) for name in names]

        found: list[BatchFolder] = called(self._process, look)
        return found

    def manifests(self, namespace: Namespace, batch_ids: Sequence[str]) -> Mapping[str, bytes | None]:
        found: dict[str, bytes | None] = called(
            self._process, lambda: {name: self._landing.manifests.get(name) for name in batch_ids}
        )
        return found

    def remove_slice(self, folder: SliceFolder) -> None:
        def remove() -> None:
            self._landing.folders.pop(folder.path, None)
            for path in [path for path in self._landing.files if path.startswith(folder.path + "/")]:
                self._landing.removed.add(path)
                del self._landing.files[path]

        called(self._process, remove)

    def remove_batch(self, namespace: Namespace, batch_id: str) -> None:
        for kind in (self._landing.starts, self._landing.begun, self._landing.ends, self._landing.manifests):
            called(self._process, kind.pop, batch_id, None)

    def starts(self, root: str, batch_id: str) -> Sequence[StartFolder]:
        place = self._landing.outputs._reach(root)

        def look() -> list[StartFolder]:
            written = [start_id for where, start_id in self._landing.written if where == place]
            return [StartFolder(batch_id, name, 1, 1) for name in written if self._landing.of_start[name] == batch_id]

        found: list[StartFolder] = called(self._process, look)
        return found

    def remove_start(self, root: str, folder: StartFolder) -> None:
        def remove() -> None:
            name = (self._landing.outputs._reach(root), folder.start_id)
            self._landing.written.pop(name, None)
            self._landing.removed_starts.add(name)

        called(self._process, remove)

    def decisions(self, root: str) -> Mapping[str, Decision]:
        found: dict[str, Decision] = called(
            self._process, lambda: self._landing.outputs.highest(self._landing.outputs._reach(root))
        )
        return found

    def sweep(self, root: str, *, dry_run: bool) -> int:
        return 0


def clean(world: World, kept_for: timedelta) -> Process:
    """A clean-up begins."""

    def body(process: Process) -> Any:
        return act(
            clean_up,
            StrongStore(world, process),
            world.namespace,
            actor="cleaner",
            reason="weekly",
            dry_run=False,
            liveness=partial(asked, world, process, "here"),
            landing=CleanedLanding(world, process),
            clock=process.clock(world.time, 0),
            archive_for=kept_for,
        )

    process = Process(f"gc.{len(world.processes)}", "", "gc", body, CLEANER)
    process.abandoned = True
    process.scope = None  # it writes in all of them
    world.processes.append(process)
    world.say(f"{process}: begins, keeps for {kept_for}")
    return process


def is_live(batch: Batch) -> bool:
    """Whether somebody may still work on it: its manifest and files are needed."""
    if batch.state is BatchState.COMMITTED:
        return batch.retired_ms is None
    return batch.state is not BatchState.VOID


class CleaningLaws:
    """No file that a live row names goes, no start that a reader sees, and no retired batch is worked on."""

    def __init__(self, world: World) -> None:
        self._world = world

    def look(self) -> None:
        """Judge what stands now."""
        landing = self._world.landing
        for row in self._world.rows.values():
            if isinstance(row, Lease) and row.pending is not None:
                gone = [file.path for file in row.pending.files if file.path not in landing.files]
                assert not gone, f"the lease of {row.shard_id} in {row.scope!r} names {gone}, which are removed"
            elif isinstance(row, Batch) and is_live(row):
                assert row.batch_id in landing.manifests, f"the manifest of {row.batch_id} is removed: {row.state}"
                files = self._world.manifest(row.batch_id).files
                gone = [file.path for file in files if file.path not in landing.files]
                assert not gone, f"batch {row.batch_id} ({row.state}) names {gone}, which are removed"
            if isinstance(row, Batch) and row.state is BatchState.COMMITTED:
                for start in row.starts:
                    places = {(landing.outputs.place(root), start.start_id) for root in start.outputs}
                    assert not places & landing.removed_starts, f"a start that the row of {row.batch_id} names is gone"
        for place in landing.outputs.markers:
            for batch_id, told in landing.outputs.highest(place).items():
                gone = [start_id for start_id, _ in told.starts if (place, start_id) in landing.removed_starts]
                assert not gone, f"{place} shows {gone} of {batch_id}, which is removed"

    def written(self, name: str, old: Batch | None, new: Batch) -> None:
        """Judge a write of a batch row."""
        if old is None or old.retired_ms is None:
            return
        assert new.retired_ms == old.retired_ms, f"{name}: a retired batch is taken back to life"
        aside = new.set_aside is not None and new.decided == new.attempt  # an interval's is taken back (B11)
        assert aside or (new.attempt, new.decided, new.owner) == (old.attempt, old.decided, old.owner), (
            f"{name}: a retired batch is worked on"
        )

    def nothing_is_left(self) -> None:
        """After clean-ups with nobody at work: what stands is what rows name."""
        landing, rows = self._world.landing, self._world.rows.values()
        live = [row for row in rows if isinstance(row, Batch) and is_live(row)]
        needed = {file.path for row in live for file in self._world.manifest(row.batch_id).files}
        needed |= {file.path for row in rows if isinstance(row, Lease) and row.pending for file in row.pending.files}
        folders = {path.rpartition("/")[0] for path in needed}
        # An interval run that was deleted holds its side leases for ever, and may land on them (A2).
        held = {(row.shard_id, row.tenure) for row in rows if isinstance(row, Lease) and row.scope and row.lease_owner}
        stray = {path for path, (shard_id, _, tenure) in landing.folders.items() if (shard_id, tenure) not in held}
        assert stray <= folders, f"slices are left: {sorted(stray - folders)}"
        stays = {row.batch_id for row in live}
        standing = {*landing.manifests, *landing.begun, *landing.starts, *landing.ends}
        assert standing <= stays, f"documents are left: {sorted(standing - stays)}"
        shown = {
            (place, start_id)
            for place in landing.outputs.markers
            for told in landing.outputs.highest(place).values()
            for start_id, _ in told.starts
        }
        for place, start_id in landing.written:
            if start_id not in landing.ended_starts:
                continue  # in which roots it wrote stands nowhere: it goes from those only that rows name
            batch_id = landing.of_start[start_id]
            assert batch_id in stays or (place, start_id) in shown, f"a start of {batch_id} is left in {place}"
