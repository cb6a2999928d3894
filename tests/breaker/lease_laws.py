# SPDX-License-Identifier: Apache-2.0
"""What must hold for every write of a lease (PROTOCOL L): only its batch's row moves a stamped one, only a committed
slice moves a checkpoint, and only a reset moves one back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.owner import ResetHolder
from shardbatch.core.position import TRIM_HORIZON, at_timestamp
from shardbatch.core.rows import BATCH, Key
from shardbatch.core.slice import Slice
from tests.breaker.losses import replaced

if TYPE_CHECKING:
    from tests.breaker.books import Books
    from tests.breaker.world import World, Written


class LeaseLaws:
    """Judges one write by the row before and after."""

    def __init__(self, world: World, books: Books) -> None:
        self._world, self._books = world, books

    def look(self, written: Written) -> None:
        old, new = written.old, written.new
        assert old is None or isinstance(old, Lease)
        if new is None:
            if not written.key.values[0]:
                assert old is not None
                judge = self._restarted if written.process.task == "restart" else self._removed
                judge(old, f"{written.process} deleted a live lease")
            return
        assert isinstance(new, Lease)
        assert new.pending is None or new.pending.after == new.checkpoint, "a slice does not begin at the checkpoint"
        if old is None:
            self._added(written, new)
        self._books.counters[new.key].add(new.lease_count)
        if old is None:
            return
        assert new.lease_count > old.lease_count, "a counter does not rise"
        self._place(old, new)
        self._stamp(old, new)
        self._tenure(old, new)
        if old.pending is not None and new.pending is not None:
            same = unaccepted(old.pending) == unaccepted(new.pending)
            assert same or read_on(old, new), "a pending slice was replaced"

    def _added(self, written: Written, new: Lease) -> None:
        assert not new.checkpoint.exact, "a new lease begins in the middle"
        used = self._books.counters.setdefault(new.key, set())
        unused = new.lease_count not in used or (new.scope and self._resent(written, new))
        assert unused, "a new lease has a counter that its key had before (L1)"
        if not new.scope:
            self._books.enrolled_ms[new.shard_id] = self._world.time.ms
            self._books.parents[new.shard_id] = new.parent_shard_ids
            self._books.start = at_timestamp(self._world.begin_ms()) if self._world.begin_ms() else TRIM_HORIZON

    def _resent(self, written: Written, new: Lease) -> bool:
        """Whether it is a row that this process made before: its answer was lost, and it is sent again."""
        made = (other for other in self._world.journal if other is not written and other.old is None)
        return any(other.process is written.process and other.new == new for other in made)

    def _restarted(self, old: Lease, what: str) -> None:
        """A live row goes for good when the table has another stream, and a reset has it (D7)."""
        assert replaced(self._world) is not None, f"{what} of the stream that is read"
        assert ResetHolder.parse(old.lease_owner) is not None, f"{what} that it had not taken"
        assert old.batch_id is None, f"{what} that is stamped"
        self._books.restart(old.shard_id)

    def _removed(self, old: Lease, what: str) -> None:
        """A live row goes when its shard has left the stream and what came after it has begun (L13)."""
        assert old.completed, f"{what} that is not completed"
        assert (old.lease_owner, old.batch_id) == (None, None), f"{what} that is held"
        assert self._world.stream.shards[old.shard_id].gone, f"{what} whose shard is there"
        leases = [row for row in self._world.rows.values() if isinstance(row, Lease) and not row.scope]
        children = [row for row in leases if old.shard_id in row.parent_shard_ids]
        assert children, f"{what} without a child"
        for row in children:
            reset = ResetHolder.parse(row.lease_owner) is not None or row.shard_id in self._books.targets
            begun = row.checkpoint.exact and not row.checkpoint.searching
            assert row.completed or begun or reset, f"{what} before its child {row.shard_id} was read"

    def _place(self, old: Lease, new: Lease) -> None:
        """Checkpoint and completed change, and a slice goes, by L5 and L8 only."""
        moved = (new.checkpoint, new.completed) != (old.checkpoint, old.completed)
        lost = old.pending is not None and new.pending is None
        holder = ResetHolder.parse(new.lease_owner)
        if holder is not None and holder.rewound and not new.scope:
            before = ResetHolder.parse(old.lease_owner)
            assert before is not None, "a reset rewrote a lease that it had not taken"
            if not before.rewound:
                self._books.reset(new.shard_id, new.checkpoint, self._world.stream.sent)
            return
        if not moved and not lost:
            return
        pending = old.pending
        assert pending is not None, "a checkpoint moved without a slice"
        done = self._books.committed.get((old.scope, old.shard_id), ())
        assert pending in done, "a lease was rolled forward by a slice that is not committed"
        assert (new.checkpoint, new.completed) == (pending.until, pending.ended), "a lease was rolled forward elsewhere"
        assert old.checkpoint <= new.checkpoint, "a checkpoint moved back"

    def _tenure(self, old: Lease, new: Lease) -> None:
        """A tenure begins with the counter of its row, and only what was read in it lands (L3)."""
        assert new.tenure in (old.tenure, new.lease_count), "a tenure is no counter of its row"
        free = new.lease_owner is None or ResetHolder.parse(new.lease_owner) is not None
        assert free or new.lease_owner == old.lease_owner or new.tenure == new.lease_count, "a lease kept its tenure"
        before = old.pending.files if old.pending is not None else ()
        for file in new.pending.files if new.pending is not None else ():
            landed = file in before or f"-t{new.tenure}-" in file.path
            assert landed, f"{file.path} was read before the lease was taken last"

    def _stamp(self, old: Lease, new: Lease) -> None:
        if new.batch_id is not None:
            assert old.batch_id in (None, new.batch_id), "a stamp was replaced"
            assert new.pending is not None, "a lease without a slice was stamped"
        if old.batch_id is None:
            return
        if new.batch_id is not None:
            assert (new.lease_owner, new.pending) == (old.lease_owner, old.pending), "a stamped lease was changed"
            return
        batch = self._world.rows.get(Key(BATCH, self._world.namespace, (old.scope, old.batch_id)))
        assert isinstance(batch, Batch), "a stamp went whose batch has no row (B2)"
        rolled = new.pending is None and new.lease_owner is None
        assert batch.state is (BatchState.COMMITTED if rolled else BatchState.VOID), f"a stamp went of {batch.state}"


def read_on(old: Lease, new: Lease) -> bool:
    """Whether an interval's slice that had been cut short has more behind it now, by the hand of its owner (L9)."""
    before, after = old.pending, new.pending
    assert before is not None
    assert after is not None
    if not old.scope or before.ended or old.batch_id is not None or new.batch_id is not None:
        return False
    held = old.lease_owner == new.lease_owner and before.after == after.after and before.until <= after.until
    return held and before.files == after.files[: len(before.files)] and before.records <= after.records


def unaccepted(landed: Slice) -> Slice:
    """The slice without what a person adds to its gaps."""
    return replace(landed, gaps=tuple(replace(gap, accepted=None) for gap in landed.gaps))
