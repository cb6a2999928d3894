# SPDX-License-Identifier: Apache-2.0
"""The leases that one read task holds: its readers write them, one thread keeps them alive, lost ones are given up.

The race, step by step. A read takes minutes, and its lease may go to another run while it reads:

1. The renewal thread and the reader of a shard both write the lease's row. They take turns (``Held._lock``), each over
   the row as the other left it: else each would fail the other's compare-and-set.
2. If a write finds another counter, the row is read again. It is still ours only if owner, tenure, checkpoint and stamp
   are as they were (``Held._mine``). Anything else means that it is lost, for good: the reader stops at its next page.
3. A slice is stored by the same compare-and-set. So what was read counts only if the lease was held all the time from
   the checkpoint to that write. Files of a read that lost are named by no row, and nothing reads them.
4. Another try of the same task has the same owner. It may land its slice first: then that slice stands, and ours is
   dropped, because the checkpoint and the pending slice show that it was first.
5. While the store is silent, no sign of life is written, and after ``lease_duration`` others may take the lease
   (``signs_of_life.py``). This process cannot see that. So it goes by its own clock: after the same time it stops
   reading (``silent_s``), without being told. If a renewal succeeds before the reader has looked, the row is still
   ours, and the read goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from shardbatch.core import lease as leases
from shardbatch.core.lease import Lease
from shardbatch.core.shard import Shard
from shardbatch.core.slice import Slice
from shardbatch.core.stop import Stop
from shardbatch.errors import StoreError
from shardbatch.masking import masked
from shardbatch.run.consumer import Consumer


class Held:
    """One lease of this owner. Readers and the renewal write it one at a time."""

    def __init__(self, consumer: Consumer, owner: str, lease: Lease) -> None:
        self._consumer = consumer
        self._owner = owner
        self._lock = threading.Lock()
        self.row = lease
        #: Seconds without a sign of life, once they are so many that another owner may have the lease.
        self.silent_s: float | None = None
        self.lost = False
        self.gone = False
        #: What the end of the shard named, once this task has read it.
        self.children: tuple[Shard, ...] = ()
        self.leaf = False
        #: What cut its read short; the slice so far is landed all the same.
        self.cut: Exception | None = None
        #: Why its read went no further, once it was read.
        self.stop: Stop | None = None

    @property
    def lost(self) -> bool:
        """Whether another owner has it.

        :raises StoreError: if the lease store has not answered for so long that another owner may have taken it.
        """
        if self.silent_s is not None:
            raise StoreError(
                f"The lease of {self.shard_id} showed no sign of life for {self.silent_s:.0f} s, since the lease store "
                "did not take any; its read is given up."
            )
        return self._lost

    @lost.setter
    def lost(self, lost: bool) -> None:
        self._lost = lost

    @property
    def shard_id(self) -> str:
        """The shard of the lease."""
        return self.row.shard_id

    def write(self, change: Callable[[Lease], Lease | None]) -> bool:
        """Apply a transition while the lease belongs to this owner, is unstamped and has the checkpoint that was read
        from. Returns whether it was written.

        If ``change`` returns ``None`` for the current row, nothing is written. After a lost race ``row`` is the row
        found.
        """
        with self._lock:
            while not self._lost:  # also after a silence: the store may be back
                changed = change(self.row)
                if changed is None:
                    return False
                if self._consumer.store.replace(self.row, changed):
                    self.row = changed
                    return True
                found = self._consumer.lease(self.shard_id)
                self.gone = found is None
                self.lost = found is None or not self._mine(found)
                self.row = found or self.row
            return False

    def _mine(self, found: Lease) -> bool:
        """Whether what was read after the checkpoint still follows it: the owner may be another try of this task, which
        claimed again, after a reset perhaps. What was read before that, clean-up may have removed."""
        if found.tenure != self.row.tenure:
            return False
        same = (found.checkpoint, found.completed) == (self.row.checkpoint, self.row.completed)
        return same and found.lease_owner == self._owner and found.batch_id is None

    def land(self, landed: Slice, begun: Slice | None = None) -> bool:
        """L3, or L9 after a slice that was begun, unless another try of this task was first. Returns whether this call
        stored the slice on the row."""
        me, now, uri = self._owner, self._consumer.now_ms, self._consumer.landing.uri

        def change(row: Lease) -> Lease | None:
            if row.pending != begun:
                return None
            if begun is not None:
                return leases.extend(row, me, begun, landed, now())
            return leases.land(row, me, landed, now(), uri)

        return self.write(change)

    def give_back(self, caught_up_ms: int | None, tip_ms: int | None = None) -> None:
        """L7 after an empty read, unless another try of this task landed a slice."""
        now = self._consumer.now_ms
        self.write(lambda row: None if row.pending else leases.release(row, now(), caught_up_ms, tip_ms=tip_ms))

    def renew(self) -> None:
        """Show a sign of life, unless the lease was given back."""
        me, now = self._owner, self._consumer.now_ms
        self.write(lambda row: leases.renew(row, me, now()) if row.lease_owner == me else None)


class Renewal:
    """Renews the leases of a read task, three times in every ``lease_duration``.

    If a lease could not be renewed for a whole ``lease_duration``, it is no longer read.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._longest = consumer.options.lease_duration.total_seconds()
        self._interval = consumer.options.lease_duration.total_seconds() / 3
        self._consumer = consumer
        self._heard: dict[str, float] = {}
        self._held: dict[str, Held] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def add(self, held: Held) -> None:
        """Renew this lease too, even after its slice is landed, because freeze comes later."""
        with self._lock:
            self._held[held.shard_id] = held
            self._heard[held.shard_id] = self._consumer.clock.monotonic()

    @contextmanager
    def running(self) -> Iterator[Renewal]:
        """Renew in a thread of its own while the block runs."""
        thread = threading.Thread(target=self._run, name="shardbatch-renewal", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            with self._lock:
                current: list[Held] = list(self._held.values())
            for held in current:
                try:
                    held.renew()
                    held.silent_s = None
                    self._heard[held.shard_id] = self._consumer.clock.monotonic()
                except Exception as error:  # noqa: BLE001 - the others must go on being renewed
                    self._consumer.warn(
                        f"Could not renew the lease of {held.shard_id}: {masked(str(error))}; trying again."
                    )
                    self._tell_silence(current)

    def _tell_silence(self, current: list[Held]) -> None:
        """End the reads whose leases others may have taken. A store that does not answer makes each try long, so leases
        whose turn has not come are checked too."""
        for held in current:
            silent = self._consumer.clock.monotonic() - self._heard[held.shard_id]
            if silent > self._longest:
                held.silent_s = silent
