# SPDX-License-Identifier: Apache-2.0
"""What must stay true (PROTOCOL L, B, I), looked at after every step, write by write.

``Laws.look`` judges each write of the lease store by the row before and after, then what readers of the sink see and
which applications run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from shardbatch.core.batch import DROPPED, Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.rows import SHARD_LEASE, Key
from shardbatch.core.slice import Gap, Slice
from shardbatch.errors import NothingFinished
from shardbatch.run import Committed
from shardbatch.run.attempt import over
from shardbatch.run.continuity import LEFT
from tests.breaker.books import Books
from tests.breaker.cleaning import CleaningLaws
from tests.breaker.lease_laws import LeaseLaws
from tests.breaker.losses import has_left
from tests.breaker.reader_laws import ReaderLaws
from tests.breaker.truth import ended_well
from tests.breaker.watermark_laws import WatermarkLaws
from tests.breaker.world import ATTEMPT_GRACE, World

if TYPE_CHECKING:
    from tests.breaker.applications import Application
    from tests.breaker.process import Process
    from tests.breaker.world import Written

FROZEN, COMMITTED, PARKED, VOID = BatchState.FROZEN, BatchState.COMMITTED, BatchState.PARKED, BatchState.VOID
#: What a batch row may become.
STEPS = {
    None: (FROZEN, VOID),
    FROZEN: (FROZEN, COMMITTED, PARKED, VOID),
    PARKED: (PARKED, FROZEN, COMMITTED, VOID),
    COMMITTED: (COMMITTED,),
    VOID: (VOID,),  # an attempt may yet be closed
}


@dataclass
class Laws:
    """``given_up`` are attempts whose end was given up by their grace, ``alive_ms`` is when a batch last showed life,
    ``decisions`` how often a commit said that it decided a batch. Once a law is ``broken``, nothing more is judged.
    """

    world: World
    books: Books = field(default_factory=Books)
    given_up: set[tuple[str, int]] = field(default_factory=set)
    decisions: dict[str, int] = field(default_factory=dict)
    alive_ms: dict[str, int] = field(default_factory=dict)
    seen: int = 0
    markers: int = -1
    removed: int = 0
    broken: bool = False

    def __post_init__(self) -> None:
        self.readers = ReaderLaws(self.world, self.books)
        self.cleaning = CleaningLaws(self.world)
        self.watermarks = WatermarkLaws(self.world, self.books)

    def look(self) -> None:
        """Judge what was written since the last look."""
        with self._judging():
            self._look()

    @contextmanager
    def _judging(self) -> Iterator[None]:
        try:
            yield
        except AssertionError:
            self.broken = True
            raise

    def _look(self) -> None:
        news = self.world.journal[self.seen :]
        self.seen += len(news)
        leases = LeaseLaws(self.world, self.books)
        for written in news:
            if written.key.table is SHARD_LEASE:
                leases.look(written)
            elif isinstance(written.new, Batch):
                assert written.old is None or isinstance(written.old, Batch)
                self._batch(written, written.old, written.new)
        markers = sum(map(len, self.world.landing.outputs.markers.values()))
        removed = len(self.world.landing.removed) + len(self.world.landing.removed_starts)
        if news or markers != self.markers or removed != self.removed:
            self.markers, self.removed = markers, removed
            self.readers.look()
            self.cleaning.look()
            self.watermarks.look()
        self._applications()

    # batches

    def _batch(self, written: Written, old: Batch | None, new: Batch) -> None:
        name = f"batch {new.batch_id} by {written.process}"
        before = old.state if old else None
        assert new.state in STEPS[before], f"{name}: from {before} to {new.state}"
        self.cleaning.written(name, old, new)
        if old is not None:
            assert new.attempt >= old.attempt, f"{name}: its attempts go back"
            assert new.decided >= old.decided, f"{name}: an older attempt is decided"
            assert new.manifest_digest == old.manifest_digest, f"{name}: its manifest was changed"
            if new.attempt > old.attempt and written.process.task == "freeze":
                assert new.owner == written.process.owner, f"{name}: an attempt of a batch that belongs to {new.owner}"
            taken_back = (
                new.set_aside == DROPPED and new.decided == new.attempt
            )  # nothing runs in such an attempt (B11)
            if new.attempt > old.attempt and not taken_back and not over(old):
                self._grace(name, old, written.process)
        if old is None or new.attempt_seen_ms != old.attempt_seen_ms or new.attempt_ref != old.attempt_ref:
            self.alive_ms[new.batch_id] = self.world.time.ms
        if new.state is FROZEN and before is not FROZEN:
            self._frozen(name, new)
        if new.state is COMMITTED:
            if old is not None and before is not COMMITTED:
                mine = written.process.task != "commit" or old.owner == written.process.owner
                assert mine, f"{name}: it belongs to {old.owner}"
                self._committed(name, new)
            self.readers.decided(name, written.process, old, new)
            self.books.decided[new.batch_id] = new

    def _grace(self, name: str, old: Batch, process: Process) -> None:
        """The attempt before was not closed: it was ended as its row stood then, or given up after its grace."""
        if process.ended == (old.batch_id, old.row_count):
            return
        silent = timedelta(milliseconds=self.world.time.ms - self.alive_ms[old.batch_id])
        recorded = old.spark_application[0]
        assert silent >= ATTEMPT_GRACE, f"{name}: attempt {recorded} showed life {silent} ago, another was opened"
        self.given_up.add((old.batch_id, recorded))

    def _frozen(self, name: str, batch: Batch) -> None:
        """B1: every lease of a frozen batch carries its stamp and the slice that stands in the manifest."""
        assert len(self.world.records(batch.batch_id)) == batch.records, f"{name}: its files do not hold its records"
        for entry in self.world.manifest(batch.batch_id).slices:
            row = self.world.rows.get(Key(SHARD_LEASE, self.world.namespace, (batch.scope, entry.slice.shard_id)))
            assert isinstance(row, Lease), f"{name}: a lease is not there"
            assert row.batch_id == batch.batch_id, f"{name}: a lease lacks its stamp"
            assert row.pending == entry.slice, f"{name}: its manifest differs from a lease"

    def _committed(self, name: str, batch: Batch) -> None:
        manifest = self.world.manifest(batch.batch_id)
        slices = [entry.slice for entry in manifest.slices]
        depth = {entry.slice.shard_id: entry.shard_generation for entry in manifest.slices}
        for shard_id, generation in depth.items():
            above = [depth[parent] for parent in self.world.stream.shards[shard_id].parents if parent in depth]
            assert generation == max(above, default=-1) + 1, f"{name}: the generation of {shard_id} is no order"
        if batch.scope:
            assert all(entry.ended for entry in slices), f"{name}: half an interval"
        rows = self.world.records(batch.batch_id)
        assert len(rows) == batch.records, f"{name}: miscounted"
        self.books.commit(name, batch.scope, slices, rows, batch.batch_id)
        for landed in slices:
            for gap in landed.gaps:
                self._counted(name, landed.shard_id, gap)
            left = any(gap.reason == LEFT for gap in landed.gaps)
            gone = has_left(self.world, landed.shard_id)
            assert gone or not left, f"{name}: {landed.shard_id} is there, and is said to have left the stream"
        if not batch.scope:
            for entry in slices:
                self._after_parents(name, entry)
        for landed in slices:
            self._parents(name, batch.scope, landed.shard_id)

    def _counted(self, name: str, shard_id: str, gap: Gap) -> None:
        """A gap has as many records as the service said, to its end."""
        if gap.records is not None and gap.first_available is not None:
            lost = self.world.stream.lost(shard_id, gap.after, gap.first_available)
            assert gap.records == len(lost), f"{name}: {len(lost)} records are lost of {shard_id} after {gap.after}"

    def _after_parents(self, name: str, landed: Slice) -> None:
        """Records are committed after all those of the shards that theirs comes from, but for what a reset passed
        over."""
        stream, books = self.world.stream, self.books
        oldest = max(stream.now_ms - stream.retention_ms(), self.world.begin_ms())
        for parent in stream.shards[landed.shard_id].parents if landed.records else ():
            if stream.shards[parent].gone:
                continue
            left = [str(i.place) for i in stream.shards[parent].items if i.arrival_ms >= oldest]
            left = [name for name in left if ("", name) not in books.records and books.wanted(stream.sent[name])]
            assert not left, f"{name}: {landed.shard_id} came before {len(left)} records of {parent}"

    def _parents(self, name: str, scope: str, shard_id: str) -> None:
        """No child before its parents: what the retention left of those that are known has to be over."""
        for parent in self.world.stream.shards[shard_id].parents:
            known = Key(SHARD_LEASE, self.world.namespace, (scope, parent)) in self.world.rows
            if known or not self.world.stream.shards[parent].gone:
                done = self.books.committed.get((scope, parent), ())
                assert any(part.ended for part in done), f"{name}: {shard_id} before its parent {parent}"

    # the applications

    def _applications(self) -> None:
        """Two attempts of a batch never run at once, unless the older one's end was given up by its grace."""
        running = [a for a in self.world.cluster.applications if a.state == "running" and a.recorded]
        for one in running:
            for two in running:
                if one.batch_id == two.batch_id and one.attempt < two.attempt:
                    known = (one.batch_id, one.attempt) in self.given_up or self._tried_again(one)
                    assert known, f"{one.name} and {two.name} run at once"

    def _tried_again(self, application: Application) -> bool:
        """Whether the attempt has had several tries: the row names the application of the last one only."""
        return len(self.world.tries.get((application.batch_id, application.attempt), ())) > 1

    # answers

    def answered(self, process: Process) -> None:
        """Judge what a commit says and leaves: a cleared run that is a success has its attempt recorded."""
        if process.task == "commit":
            with self._judging():
                self._answered(process)

    def _answered(self, process: Process) -> None:
        answer = process.result
        if isinstance(process.error, NothingFinished):
            self._refused(process)
        if not isinstance(answer, Committed) or answer.batch_id is None:
            return
        self.decisions[answer.batch_id] = self.decisions.get(answer.batch_id, 0) + answer.newly
        assert self.decisions[answer.batch_id] <= 1, "a batch was decided twice"
        batch = self.books.decided[answer.batch_id]
        if answer.attempt > answer.decided and answer.records:
            same = self.readers.truth[answer.batch_id][answer.decided] == process.last_wanted
            assert same, f"{process}: a replay changes nothing, and should"
        if batch.decided == answer.decided:
            self.readers.green(batch)

    def _refused(self, process: Process) -> None:
        assert process.bound is not None
        batch = self.books.decided.get(process.bound[0])
        aside = batch is not None and batch.set_aside is not None
        assert aside or not ended_well(self.world, process), f"{process} refuses what ended well: {process.error}"
