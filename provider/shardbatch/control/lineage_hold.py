# SPDX-License-Identifier: Apache-2.0
"""A reset takes all leases of a lineage before it changes any; the stamp of each is obeyed first (PROTOCOL D5)."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence

from shardbatch.control.action import FORCE, TRIES, Action, Done, unknown_why
from shardbatch.control.drop import discard, effect, free
from shardbatch.core import lease as leases
from shardbatch.core.batch import UNDECIDED, Batch, BatchState
from shardbatch.core.lease import Lease
from shardbatch.core.owner import ResetHolder
from shardbatch.core.ports import Verdict
from shardbatch.errors import OwnerUnknown, ShardbatchError
from shardbatch.run.settle import mark, roll_forward, void_absent

#: Which of all leases belong to what is reset.
Lineage = Callable[[Iterable[Lease]], Sequence[Lease]]


def obstacle(action: Action, lease: Lease) -> str:
    """Why a lease cannot be taken for a reset; empty if it can."""
    batch = action.batch(lease.batch_id) if lease.batch_id is not None else None
    if batch is not None and batch.state is BatchState.COMMITTED:
        if not batch.told or action.landing is not None:
            return ""
        return f"its batch {batch.batch_id} is committed, and the next claim moves it on first; or give staging"
    if batch is not None and batch.state is BatchState.VOID:
        return ""
    owner = (batch.owner if batch is not None else lease.lease_owner) or ""
    if action.force or ResetHolder.parse(owner) is not None:
        return ""
    try:
        verdict = action.verdict(owner)
    except OwnerUnknown as error:
        return unknown_why(error)
    if verdict is Verdict.OVER:
        return ""
    what = f"it is {batch.state.value} in batch {batch.batch_id} of" if batch is not None else "it is held by"
    if verdict is Verdict.ACTIVE:
        return f"{what} {owner}, which is at work; end that run first, or {FORCE}"
    return "{} {}; if that is over, {} it first, or {}".format(what, owner, "drop" if batch else "release", FORCE)


def robbed(action: Action, lease: Lease) -> str:
    """The text about an owner that loses a lease by force. The drop of a batch has its own text.

    Empty without force, and where the owner is over.
    """
    owner = lease.lease_owner
    if not action.force or lease.batch_id is not None or ResetHolder.parse(owner) is not None:
        return ""
    return "" if action.verdict(owner) is Verdict.OVER else f"; {action.fate(owner)}"


class LineageHold:
    """What one reset has taken. No other owner may take it until it is freed, given back, or taken by another reset."""

    def __init__(self, action: Action) -> None:
        self._action = action
        self._reset_id = secrets.token_hex(6)
        self.taken = str(ResetHolder(self._reset_id))
        self.rewound = str(ResetHolder(self._reset_id, rewound=True))
        self.rows: dict[str, Lease] = {}
        self.before: dict[str, Lease] = {}
        self.dropped: list[Done] = []

    def take(self, lineage: Lineage) -> Done | None:
        """Take all of the lineage, also leases that come meanwhile. If one cannot be taken, all are given back, and
        that one is the answer.

        :raises ShardbatchError: if a marker could not be written; all are given back.
        """
        try:
            return self._take_all(lineage)
        except ShardbatchError:
            self.give_back()
            raise

    def _take_all(self, lineage: Lineage) -> Done | None:
        while missing := [row for row in lineage(self._action.leases()) if row.shard_id not in self.rows]:
            for lease in missing:
                why = self._take(lease)
                if why:
                    self.give_back()
                    return self._action.told(lease, "left", why)
        return None

    def _take(self, seen: Lease) -> str:
        current: Lease | None = seen
        for _ in range(TRIES):
            if current is None:
                return ""
            why = obstacle(self._action, current)
            if why:
                return why
            if current.batch_id is not None and not self._settled(current):
                current = self._action.lease(seen.shard_id)
                continue
            held = leases.seize(current, self.taken, current.batch_id, self._action.now_ms())
            if self._action.store.replace(current, held):
                self.rows[seen.shard_id] = held
                self.before[seen.shard_id] = current
                return ""
            current = self._action.lease(seen.shard_id)
        return "its owner is alive and writes all the time"

    def _settled(self, lease: Lease) -> bool:
        """Whether the stamp is of a batch that is void now; a committed one is rolled forward."""
        assert lease.batch_id is not None
        batch = self._action.batch(lease.batch_id) or void_absent(self._action, lease.batch_id)
        if batch.state in UNDECIDED:
            batch = self._discard(batch)
        if batch.state is BatchState.COMMITTED:
            if self._action.landing is not None:
                mark(self._action.landing, batch)
            elif batch.told:
                return False  # it was decided just now: an obstacle
            roll_forward(self._action, batch, [lease])
            return False
        return True

    def _discard(self, batch: Batch) -> Batch:
        told = self._action.told(batch, "dropped", effect=effect(self._action, batch))
        void = discard(self._action, batch)
        if void.state is BatchState.VOID:
            self.dropped.append(told)
            free(self._action, void)
        return void

    def write(self, shard_id: str, change: Callable[[Lease], Lease | None]) -> bool:
        """Change a lease of this reset, ``None`` deletes it; false if another has it now."""
        current: Lease | None = self.rows[shard_id]
        while current is not None and current.lease_owner in (self.taken, self.rewound):
            changed = change(current)
            store = self._action.store
            if store.delete(current) if changed is None else store.replace(current, changed):
                if changed is None:
                    del self.rows[shard_id]
                else:
                    self.rows[shard_id] = changed
                return True
            current = self._action.lease(shard_id)
        return False

    def give_back(self) -> None:
        """Free what was taken and not rewritten; slices stay. Leases of a reset that died are given back to that reset:
        it may have rewritten half of a lineage, and no run may go on with that."""
        for shard_id in list(self.rows):
            self.write(shard_id, self._given_back)

    def _given_back(self, row: Lease) -> Lease:
        holder = self.before[row.shard_id].lease_owner
        if holder is not None and ResetHolder.parse(holder) is not None:
            return leases.seize(row, holder, None, self._action.now_ms())
        return leases.release(row, self._action.now_ms())
