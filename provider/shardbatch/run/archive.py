# SPDX-License-Identifier: Apache-2.0
"""The archive of an interval run: what committed batches hold of a time that the stream no longer has (PROTOCOL H9).

The race, step by step. A clean-up may retire a batch, and remove its slices, while an interval run copies from it:

1. The run reads the batch rows, then the manifests of those that are committed and not retired.
2. If a manifest or a file is missing then, the row of its batch is read again. If the batch is retired by now, its
   records are lacking, as if it had been retired from the beginning. Otherwise it is an error of staging.
3. What was copied before stands in slices of the run's own, which clean-up keeps as those of any run. A retry goes on
   behind them, by the rows as they are then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, cast

from shardbatch.core.archive_pieces import Archived, Piece, pieces
from shardbatch.core.archive_plan import Copy, History, Plan, lacking
from shardbatch.core.batch import DROPPED, Batch, BatchState
from shardbatch.core.expiry import Kept
from shardbatch.core.interval import CLOCKS_APART_MS, MARGIN_MS, Interval
from shardbatch.core.lease import Lease
from shardbatch.core.manifest import Manifest, digest
from shardbatch.core.position import Position, after
from shardbatch.core.rows import BATCH
from shardbatch.core.shard import Shard
from shardbatch.core.slice import LandedFile
from shardbatch.errors import GapFound, ManifestChanged, StagingError
from shardbatch.run.consumer import Consumer, Rows
from shardbatch.run.staging_place import stands_in

if TYPE_CHECKING:
    import pyarrow as pa

#: Batches whose records arrived so close to the interval are looked at first.
NEAR_MS = 2 * MARGIN_MS
#: A page that is copied has about so many rows and bytes at most.
ROWS, BYTES = 1000, 4 << 20


class Archive:
    """What the live application has of an interval, as of one look at its rows. Manifests are read when they are
    needed: first those of batches whose records arrived about then."""

    def __init__(self, consumer: Consumer, interval: Interval, kept: Kept, resets: int) -> None:
        self.interval = interval
        self.kept = kept
        self._consumer = consumer
        self._resets = resets
        self._live = Rows(namespace=consumer.namespace, store=consumer.store, clock=consumer.clock)
        self._slices: dict[str, list[Archived]] = {}
        self._pieces: dict[str, list[Piece]] = {}
        self._loaded: set[str] = set()
        #: Shards are read by several threads; one looks at rows and manifests at a time.
        self._lock = threading.RLock()

    def no_records(self) -> pa.RecordBatch:
        """A page's columns without a row."""
        return self._consumer.landing.no_records()

    def is_here(self, batch: Batch) -> bool:
        """Whether a batch stands in this run's staging folder."""
        return stands_in(self._consumer.landing, batch)

    @property
    def now_ms(self) -> int:
        """The worker's clock."""
        return self._consumer.now_ms()

    @cached_property
    def batches(self) -> list[Batch]:
        """The live application's batches, oldest first."""
        rows = self._consumer.store.list(BATCH, self._consumer.namespace, "")
        return sorted(cast("Iterable[Batch]", rows), key=lambda batch: batch.batch_id)

    @cached_property
    def leases(self) -> dict[str, Lease]:
        """Its leases, by shard."""
        return {lease.shard_id: lease for lease in self._live.leases()}

    def shards(self) -> list[Shard]:
        """The shards that may have records of the interval, by rows and manifests."""
        with self._lock:
            return [self._shard(name) for name in self._names]

    @cached_property
    def _names(self) -> list[str]:
        """Never by all manifests: a parent that is listed by a read must have been listed by its claim."""
        self._load(self._near)
        names = dict.fromkeys(self._slices)
        names.update(dict.fromkeys(self._children()))
        for lease in self.leases.values():
            arrived_ms = lease.checkpoint_arrival_ms
            if not lease.completed or arrived_ms is None or arrived_ms >= self.interval.from_ms - MARGIN_MS:
                names[lease.shard_id] = None
        return list(names)

    def children(self, shard_id: str) -> list[Shard]:
        """The children of a shard, as far as rows and manifests name them."""
        with self._lock:
            named = [name for item in self._slices.get(shard_id, ()) for name in item.slice.children]
            named += [lease.shard_id for lease in self.leases.values() if shard_id in lease.parent_shard_ids]
            return [self._shard(name) for name in dict.fromkeys(named)]

    def plan(self, shard_id: str, start: Position) -> Plan:
        """How the records of a shard come together, from where its reading begins or goes on.

        :raises StagingError: if a manifest is missing or changed, and its batch is not retired.
        """
        with self._lock:
            _ = self._names  # before other manifests are read
            plan = self._plan(shard_id, start)
            if lacking(plan):
                self._load(lambda batch: True)
                plan = self._plan(shard_id, start)
            return plan

    def copy(self, step: Copy) -> Iterator[pa.RecordBatch]:
        """The records of one step, in order.

        :raises GapFound: if the batch was retired meanwhile.
        :raises StagingError: if a file of it is missing or broken, and it is not.
        """
        landed = step.archived.slice
        each = landed.raw_bytes // max(1, landed.records)
        rows = max(1, min(ROWS, BYTES // max(1, each)))
        for file in landed.files:
            for found in self._unless_retired(step.archived.batch_id, self._consumer.landing.records(file, rows)):
                first, last = _up_to(found, step.lo), _up_to(found, step.hi)
                if first < last:
                    yield found.slice(first, last - first)

    # ------------------------------------------------------------------ rows and manifests

    def _load(self, wanted: Callable[[Batch], bool]) -> None:
        chosen = [batch for batch in self.batches if batch.batch_id not in self._loaded and _usable(batch)]
        chosen = [batch for batch in chosen if wanted(batch) and self.is_here(batch)]
        if not chosen:
            return
        names = [batch.batch_id for batch in chosen]
        contents = self._consumer.landing.read_manifests(self._consumer.namespace, names)
        for batch in chosen:
            manifest = self._manifest(batch, contents.get(batch.batch_id))
            self._loaded.add(batch.batch_id)
            for entry in manifest.slices if manifest is not None else ():
                item = Archived(batch.batch_id, batch.created_at_ms, entry.slice)
                self._slices.setdefault(entry.slice.shard_id, []).append(item)
        self._pieces.clear()

    def _near(self, batch: Batch) -> bool:
        """Whether its records arrived about the interval; without a time, it was frozen after the interval began."""
        least, greatest = batch.min_arrival_ms, batch.max_arrival_ms
        if least is None or greatest is None:
            return batch.created_at_ms >= self.interval.from_ms - CLOCKS_APART_MS
        return greatest >= self.interval.from_ms - NEAR_MS and least <= self.interval.to_ms + NEAR_MS

    def _manifest(self, batch: Batch, content: bytes | None) -> Manifest | None:
        """What a batch has; ``None`` if it was retired meanwhile."""
        if content is None:
            if self._is_retired(batch.batch_id):
                return None
            raise StagingError(
                f"The manifest of batch {batch.batch_id}, from which an interval is copied, is not in staging.",
                remedy="Restore it from a backup of staging. The batch is not retired, so something else removed it.",
            )
        if batch.manifest_digest is not None and digest(content) != batch.manifest_digest:
            raise ManifestChanged(
                f"The manifest of batch {batch.batch_id}, from which an interval is copied, is not the one that was "
                "frozen.",
                uri=batch.manifest_uri,
            )
        return Manifest.loads(content)

    def _is_retired(self, batch_id: str) -> bool:
        row = self._live.batch(batch_id)
        return row is None or row.retired_ms is not None

    def _unless_retired(self, batch_id: str, records: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from records
        except StagingError as error:
            if not self._is_retired(batch_id):
                raise
            raise GapFound(
                f"Batch {batch_id} was retired while its slices were copied.",
                remedy="Nothing of this shard is lost in silence: the next try says what can still be had.",
                retryable=True,
            ) from error

    # ------------------------------------------------------------------ shards

    def _plan(self, shard_id: str, start: Position) -> Plan:
        slices = self._slices.get(shard_id, [])
        if shard_id not in self._pieces:
            self._pieces[shard_id] = pieces(slices, self._first)
        lease, born_ms, died_ms = self.leases.get(shard_id), self._born_ms(shard_id), self._died_ms(shard_id)
        history = History(self.kept, lease, born_ms, died_ms, self._began_ms, slices)
        return Plan(history, self.interval, start, self._pieces[shard_id], self._consumer.now_ms())

    @cached_property
    def _began_ms(self) -> int | None:
        made = min((batch.created_at_ms for batch in self.batches if batch.created_at_ms), default=None)
        return None if self._resets else made

    def _born_ms(self, shard_id: str) -> int | None:
        """An instant after which all records of a shard arrived: those of its parents came before."""
        found: list[int | None] = []
        for parent in self._shard(shard_id).parent_shard_ids:
            lease = self.leases.get(parent)
            found.append(None if lease is None else lease.checkpoint_arrival_ms)
            for item in self._slices.get(parent, ()):
                found += [item.slice.last_arrival_ms, item.slice.tip_ms]
        return max((ms for ms in found if ms is not None), default=None)

    def _died_ms(self, shard_id: str) -> int | None:
        """An instant before which all records of a shard arrived: those of its children came after."""
        found: list[int | None] = []
        for child in self.children(shard_id):
            lease = self.leases.get(child.shard_id)
            found.append(None if lease is None else lease.checkpoint_arrival_ms)
            found += [item.slice.first_arrival_ms for item in self._slices.get(child.shard_id, ())]
        return min((ms for ms in found if ms is not None), default=None)

    def _shard(self, shard_id: str) -> Shard:
        lease = self.leases.get(shard_id)
        if lease is not None:
            return Shard(shard_id, lease.parent_shard_ids, lease.hash_range, closed=True)
        parents = [parent for parent, items in self._slices.items() if any(shard_id in i.slice.children for i in items)]
        return Shard(shard_id, tuple(sorted(parents)), closed=True)

    def _children(self) -> list[str]:
        return [name for items in self._slices.values() for item in items for name in item.slice.children]

    def _first(self, file: LandedFile) -> Position:
        """The place of a file's first record."""
        batch_id = next(i.batch_id for items in self._slices.values() for i in items if file in i.slice.files)
        found = next(self._unless_retired(batch_id, self._consumer.landing.records(file, 1)))
        number, sub = _numbers(found, 0)
        return after(str(number), sub)


def _usable(batch: Batch) -> bool:
    """Whether its slices stay: it is committed, not retired, and not dropped."""
    return batch.state is BatchState.COMMITTED and batch.retired_ms is None and batch.set_aside != DROPPED


def _numbers(records: pa.RecordBatch, row: int) -> tuple[int, int]:
    number = records.column("sequence_number")[row].as_py()
    return int(number), records.column("sub_sequence_number")[row].as_py() or 0


def _up_to(records: pa.RecordBatch, place: tuple[int, int, int]) -> int:
    """How many rows stand up to a place; records stand in the order of their places."""
    low, high = 0, records.num_rows
    while low < high:
        middle = (low + high) // 2
        stands_behind = (0, *_numbers(records, middle)) > place
        low, high = (low, middle) if stands_behind else (middle + 1, high)
    return low
