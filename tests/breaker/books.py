# SPDX-License-Identifier: Apache-2.0
"""What has been committed, kept beside the store: of every shard its slices, of every record its batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from shardbatch.core.batch import Batch
from shardbatch.core.position import TRIM_HORIZON, Kind, Position, after, at_timestamp
from shardbatch.core.rows import Key
from shardbatch.core.slice import Gap, Slice
from tests.breaker.stream import Sent

Shard = tuple[str, str]  # scope and shard id


@dataclass
class Books:
    """Ranges and records are told apart by scope: the live application's is empty, an interval run has its own.

    ``committed`` has the slices of each shard in the order of their decisions, ``records`` the batch of each record;
    a reset of a shard begins both anew: ``targets`` is where to, ``before`` are the records that were committed till
    then, ``skipped`` those that it passed over unread. ``gaps`` are all gaps of committed slices of live shards, also
    those from before a reset. ``decided`` are the rows of committed batches, ``enrolled_ms`` is when a live shard got
    its row, ``counters`` what each lease's counter has been. ``parents`` are those of each shard; ``start`` is where
    the live application began.
    """

    committed: dict[Shard, list[Slice]] = field(default_factory=dict)
    records: dict[tuple[str, str], str] = field(default_factory=dict)
    decided: dict[str, Batch] = field(default_factory=dict)
    targets: dict[str, Position] = field(default_factory=dict)
    before: set[str] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)
    gaps: dict[str, list[Gap]] = field(default_factory=dict)
    enrolled_ms: dict[str, int] = field(default_factory=dict)
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    start: Position = TRIM_HORIZON
    counters: dict[Key, set[int]] = field(default_factory=dict)

    def commit(self, name: str, scope: str, slices: list[Slice], rows: list[str], batch_id: str) -> None:
        """Enter a batch: slices meet, and no record is in two batches."""
        for landed in slices:
            done = self.committed.setdefault((scope, landed.shard_id), [])
            if done:
                assert str(done[-1].until) == str(landed.after), f"{name}: slices of {landed.shard_id} do not meet"
                assert not done[-1].ended, f"{name}: {landed.shard_id} had ended"
            else:
                begins = not landed.after.exact or landed.after == self.targets.get(landed.shard_id)
                assert begins, f"{name}: its first slice of {landed.shard_id} begins in the middle"
            assert landed.after <= landed.until, f"{name}: a slice runs backwards"
            done.append(landed)
            if not scope:
                self.gaps.setdefault(landed.shard_id, []).extend(landed.gaps)
        assert len(rows) == len(set(rows)), f"{name}: a record is in it twice"
        for row in rows:
            assert (scope, row) not in self.records, f"{name}: {row} is in {self.records[scope, row]} too"
            self.records[scope, row] = batch_id

    def reset(self, shard_id: str, target: Position, sent: dict[str, Sent]) -> None:
        """A live shard goes to a position: what follows may be committed again."""
        unread = {
            name
            for name, record in sent.items()
            if record.shard_id == shard_id and ("", name) not in self.records and self.wanted(record)
        }
        self.committed.pop(("", shard_id), None)
        self.targets[shard_id] = target
        for record in sent.values():
            if record.shard_id == shard_id:
                record.behind = None
        for scope, row in [key for key in self.records if not key[0] and sent[key[1]].shard_id == shard_id]:
            del self.records[scope, row]
            self.before.add(row)
        self.skipped |= {name for name in unread - self.before if not self.wanted(sent[name])}

    def restart(self, shard_id: str) -> None:
        """Another stream is read from now on: what is left of this shard is nobody's."""
        self.committed.pop(("", shard_id), None)
        self.targets.pop(shard_id, None)

    def wanted(self, sent: Sent) -> bool:
        """Whether a record of the live application has to be committed since the last reset of its shard, or since the
        shard began: what arrived before the application's start is nobody's, and no reset passes it over."""
        target = self.begins(sent.shard_id)
        if target.timestamp_ms is not None and sent.arrival_ms < target.timestamp_ms:
            return False
        return not target.exact or sent.place > target

    def begins(self, shard_id: str) -> Position:
        """From where on a shard is to be read: a reset's target, or what its parents, all at an instant, leave it (T7),
        else its oldest record; a root from the application's start on."""
        if shard_id in self.targets:
            return self.targets[shard_id]
        instants = [self.begins(parent).timestamp_ms for parent in self.parents.get(shard_id, ())]
        if not instants:
            return self.start
        return TRIM_HORIZON if None in instants else at_timestamp(min(ms for ms in instants if ms is not None))

    def covered(self, sent: Sent, waiting: Sequence[Gap] = ()) -> bool:
        """Whether a committed slice of the live application, or what waits for the next one, says that this record was
        not read."""
        return any(_covers(gap, sent) for gap in (*self.gaps.get(sent.shard_id, ()), *waiting))


def _covers(gap: Gap, sent: Sent) -> bool:
    if gap.after >= sent.place:
        return False
    if gap.until is not None and gap.until.kind is Kind.AT_TIMESTAMP:
        return sent.arrival_ms < (gap.until.timestamp_ms or 0)
    if gap.until is not None:
        return sent.place <= gap.until
    return gap.first_available is None or sent.place < after(gap.first_available)
