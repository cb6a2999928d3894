# SPDX-License-Identifier: Apache-2.0
"""What must stay true (DESIGN section 7, PROTOCOL B, C, I), looked at after every step, write by write.

``Laws.look`` judges each write of the lease store by the row before and after, then what readers of the sink see.
Ranges, batches and records are told apart by scope: the live application's is empty, an interval run has its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from shardbatch.consumer import Committed
from shardbatch.consumer.attempt import over
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.position import after
from shardbatch.core.rows import SHARD_LEASE, Key
from shardbatch.core.slice import Slice
from tests.breaker.world import ATTEMPT_GRACE, World, Written

if TYPE_CHECKING:
    from tests.breaker.applications import Application
    from tests.breaker.process import Process
    from tests.breaker.world import Run

FROZEN, COMMITTED, PARKED, VOID = BatchState.FROZEN, BatchState.COMMITTED, BatchState.PARKED, BatchState.VOID
#: What a batch row may become.
STEPS = {
    None: (FROZEN, VOID),
    FROZEN: (FROZEN, COMMITTED, PARKED, VOID),
    PARKED: (PARKED, FROZEN, COMMITTED, VOID),
    COMMITTED: (COMMITTED,),
    VOID: (),
}
Shard = tuple[str, str]  # scope and shard id


@dataclass
class Laws:
    """``committed`` has the slices of each shard in the order of their decisions, ``records`` the batch of each record.

    ``given_up`` are attempts whose end was given up by their grace, ``decisions`` how often a commit said that it
    decided a batch; ``enrolled_ms`` is when a live shard got its row, ``alive_ms`` when an attempt last showed life.
    """

    world: World
    committed: dict[Shard, list[Slice]] = field(default_factory=dict)
    records: dict[tuple[str, str], str] = field(default_factory=dict)
    given_up: set[tuple[str, int]] = field(default_factory=set)
    decisions: dict[str, int] = field(default_factory=dict)
    decided: dict[str, Batch] = field(default_factory=dict)
    alive_ms: dict[str, int] = field(default_factory=dict)
    seen: int = 0
    markers: int = -1
    enrolled_ms: dict[str, int] = field(default_factory=dict)

    def look(self) -> None:
        """Judge what was written since the last look."""
        news = self.world.journal[self.seen :]
        self.seen += len(news)
        for written in news:
            if written.key.table is SHARD_LEASE:
                self._lease(written)
            elif isinstance(written.new, Batch):
                assert written.old is None or isinstance(written.old, Batch)
                self._batch(written, written.old, written.new)
        if news or len(self.world.landing.markers) != self.markers:
            self.markers = len(self.world.landing.markers)
            self._readers()
        self._applications()

    # leases

    def _lease(self, written: Written) -> None:
        old, new = written.old, written.new
        assert old is None or isinstance(old, Lease)
        if new is None:
            assert written.key.values[0], f"{written.process} deleted a live lease"
            return
        assert isinstance(new, Lease)
        shard = written.key.values[0], new.shard_id
        assert new.pending is None or new.pending.after == new.checkpoint, "a slice does not begin at the checkpoint"
        if old is None:
            assert not new.checkpoint.exact, "a new lease begins in the middle"
            if not shard[0]:
                self.enrolled_ms[new.shard_id] = self.world.time.ms
            return
        assert new.lease_count > old.lease_count, "a counter does not rise"
        moved = (new.checkpoint, new.completed) != (old.checkpoint, old.completed)
        if moved or (old.pending is not None and new.pending is None):
            self._rolled(shard, old, new)
        if old.pending is not None and new.pending is not None:
            assert new.pending == old.pending, "a pending slice was replaced"
        if old.batch_id is not None and new.batch_id == old.batch_id:
            assert (new.lease_owner, new.pending) == (old.lease_owner, old.pending), "a stamped lease was changed"
        if new.batch_id is not None:
            assert old.batch_id in (None, new.batch_id), "a stamp was replaced"
            assert new.pending is not None, "a lease without a slice was stamped"

    def _rolled(self, shard: Shard, old: Lease, new: Lease) -> None:
        """Only the end of a committed slice moves a checkpoint, and only that takes a slice from a lease."""
        pending = old.pending
        assert pending is not None, "a checkpoint moved without a slice"
        assert pending in self.committed.get(shard, ()), "a lease was rolled forward by a slice that is not committed"
        assert (new.checkpoint, new.completed) == (pending.until, pending.ended), "rolled forward elsewhere"
        assert old.checkpoint <= new.checkpoint, "a checkpoint moved back"

    # batches

    def _batch(self, written: Written, old: Batch | None, new: Batch) -> None:
        name = f"batch {new.batch_id} by {written.process}"
        before = old.state if old else None
        assert new.state in STEPS[before], f"{name}: from {before} to {new.state}"
        if old is not None:
            assert new.attempt >= old.attempt, f"{name}: its attempts go back"
            assert new.decided >= old.decided, f"{name}: an older attempt is decided"
            assert new.manifest_digest == old.manifest_digest, f"{name}: its manifest was changed"
            if new.attempt > old.attempt and not over(old):
                self._grace(name, old, written.process)
        if old is None or new.attempt_seen_ms != old.attempt_seen_ms or new.attempt_ref != old.attempt_ref:
            self.alive_ms[new.batch_id] = self.world.time.ms
        if new.state is FROZEN and (old is None or old.state is not FROZEN):
            self._frozen(name, new)
        if new.state is COMMITTED:
            if old is not None and before is not COMMITTED:
                mine = written.process.task != "commit" or old.owner == written.process.owner
                assert mine, f"{name}: it belongs to {old.owner}"
                self._committed(name, new)
            self._start(name, new)
            self.decided[new.batch_id] = new

    def _grace(self, name: str, old: Batch, process: Process) -> None:
        """The attempt before was not closed: it was ended as its row stood then, or given up after its grace."""
        if process.ended == (old.batch_id, old.row_count):
            return
        silent = timedelta(milliseconds=self.world.time.ms - self.alive_ms[old.batch_id])
        assert silent >= ATTEMPT_GRACE, f"{name}: attempt {old.attempt} showed life {silent} ago, another was opened"
        self.given_up.add((old.batch_id, old.attempt))

    def _frozen(self, name: str, batch: Batch) -> None:
        """B1: every lease of a frozen batch carries its stamp and the slice that stands in the manifest."""
        for entry in self.world.manifest(batch.batch_id).slices:
            row = self.world.rows.get(Key(SHARD_LEASE, self.world.namespace, (batch.scope, entry.slice.shard_id)))
            assert isinstance(row, Lease), f"{name}: a lease is not there"
            assert row.batch_id == batch.batch_id, f"{name}: a lease lacks its stamp"
            assert row.pending == entry.slice, f"{name}: its manifest differs from a lease"

    def _committed(self, name: str, batch: Batch) -> None:
        entries = [entry.slice for entry in self.world.manifest(batch.batch_id).slices]
        for landed in entries:
            done = self.committed.setdefault((batch.scope, landed.shard_id), [])
            if done:
                assert done[-1].until == landed.after, f"{name}: slices of {landed.shard_id} do not meet"
                assert not done[-1].ended, f"{name}: {landed.shard_id} had ended"
            else:
                assert not landed.after.exact, f"{name}: its first slice of {landed.shard_id} begins in the middle"
            assert landed.after <= landed.until, f"{name}: a slice runs backwards"
            done.append(landed)
        for row in self.world.records(batch.batch_id):
            held = self.records.setdefault((batch.scope, row), batch.batch_id)
            assert held == batch.batch_id, f"{name}: record {row} is in {held} too"
            self.records[batch.scope, row] = held
        rows = self.world.records(batch.batch_id)
        assert len(rows) == len(set(rows)) == batch.records, f"{name}: a record twice, or miscounted"
        for landed in entries:
            self._parents(name, batch.scope, landed.shard_id)

    def _parents(self, name: str, scope: str, shard_id: str) -> None:
        """No child before its parents: what an interval or the retention left of them has to be over."""
        for parent in self.world.stream.shards[shard_id].parents:
            known = Key(SHARD_LEASE, self.world.namespace, (scope, parent)) in self.world.rows
            if known or not self.world.stream.shards[parent].gone:
                done = self.committed.get((scope, parent), ())
                assert any(part.ended for part in done), f"{name}: {shard_id} before its parent {parent}"

    def _start(self, name: str, batch: Batch) -> None:
        """S1: what is recorded is a finished start of the attempt that is decided, and it holds the whole batch."""
        if not batch.start:
            assert not batch.records, f"{name}: committed without a finished start"
            return
        finished = self.world.landing.starts.get(batch.batch_id, [])
        for start in batch.start:
            assert start in finished, f"{name}: {start} is not finished"
            assert start.attempt == batch.decided, f"{name}: {start} is of another attempt"
            out = self.world.landing.outputs[batch.batch_id, start.start_id]
            assert out == self.world.records(batch.batch_id), f"{name}: the recorded start is not the batch"

    # the sink and the applications

    def _readers(self) -> None:
        """Readers by marker see committed batches as they are (S8), and every batch whose leases have moved (S9)."""
        published = self.world.landing.published()
        for batch_id, rows in published.items():
            assert batch_id in self.decided, "published before the decision"
            assert rows == self.world.records(batch_id), "readers see something else than the batch"
        stamps = {row.batch_id for row in self.world.rows.values() if isinstance(row, Lease)}
        for batch_id, batch in self.decided.items():
            assert not batch.start or batch_id in stamps or batch_id in published, "leases moved before the marker"

    def _applications(self) -> None:
        """Two attempts of a batch never run at once, unless the older one's end was given up by its grace."""
        running = [a for a in self.world.applications if a.state == "running" and a.recorded]
        for one in running:
            for two in running:
                if one.batch_id == two.batch_id and one.attempt < two.attempt:
                    known = (one.batch_id, one.attempt) in self.given_up or self._tried_again(one)
                    assert known, f"{one.name} and {two.name} run at once"

    def _tried_again(self, application: Application) -> bool:
        """Whether the attempt has had several tries: the row names the application of the last one only."""
        return len(self.world.tries.get((application.batch_id, application.attempt), ())) > 1

    # answers and ends

    def answered(self, process: Process, run: Run) -> None:
        """Judge what a commit that went well says and leaves (S5)."""
        answer = process.result
        if process.task != "commit" or not isinstance(answer, Committed) or answer.batch_id is None:
            return
        self.decisions[answer.batch_id] = self.decisions.get(answer.batch_id, 0) + answer.newly
        assert self.decisions[answer.batch_id] <= 1, "a batch was decided twice"
        batch = self.decided[answer.batch_id]
        assert not batch.start or any(b == answer.batch_id for b, _ in self.world.landing.markers), "no marker"

    def covered(self, number: int, shard_id: str) -> bool:
        """Whether a committed slice of the live application says that this record expired unread."""
        for landed in self.committed.get(("", shard_id), ()):
            gap = landed.gap
            if gap is not None and gap.after < after(str(number)) and number < int(gap.first_available or number + 1):
                return True
        return False
