# SPDX-License-Identifier: Apache-2.0
"""The checks between interval runs and the live application before a decision: which run is last, and what may join."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.interval import MARGIN_MS
from shardbatch.core.interval_output import IntervalOutput, key_of
from shardbatch.core.lease import Lease
from shardbatch.core.manifest import Manifest
from shardbatch.core.position import SHARD_END, Kind, after
from shardbatch.core.slice import Slice
from shardbatch.errors import ConfigurationError, ReplayRefused
from shardbatch.run.consumer import Consumer, Rows, first_count
from shardbatch.run.settle import one_each


def interval_row(rows: Rows, interval: tuple[int, int]) -> IntervalOutput | None:
    """The current row of an interval's outputs."""
    return cast("IntervalOutput | None", rows.store.get(key_of(rows.namespace, interval)))


def highest_numbers(
    batches: Iterable[Batch], known: dict[tuple[int, int], int] | None = None
) -> dict[tuple[int, int], int]:
    """For each interval the number that readers use: the highest that was decided, with output or without.

    ``known`` are the numbers of other batches; these are added to them.
    """
    found = {} if known is None else known
    for batch in batches:
        if batch.interval is not None and batch.state is BatchState.COMMITTED:
            found[batch.interval] = max(found.get(batch.interval, 0), batch.number)
    return found


def how_to_read(root: str, batch: Batch) -> str:
    """The call that shows a batch's output below a root."""
    interval = "" if batch.interval is None or batch.joins else f", interval={batch.interval}"
    return f"read_committed(spark, {root!r}{interval})"


def require_latest(consumer: Consumer, batch: Batch) -> None:
    """Check that no later run over its interval has a number: readers would not see a new decision of this batch.

    :raises ReplayRefused: if one has.
    """
    if batch.scope and batch.interval is None and batch.records:
        raise ReplayRefused(
            f"Batch {batch.batch_id} of an interval run was frozen by version 0.1.0, which did not write its bounds "
            "down: readers would take it for a live one.",
            remedy="Drop it with 'airflow shardbatch drop --batch', and start a new run over the interval.",
        )
    if batch.interval is not None and batch.number:
        _require_latest(batch, interval_row(consumer, batch.interval))


def _require_latest(batch: Batch, row: IntervalOutput | None) -> None:
    if row is not None and batch.number and batch.number < row.number:
        raise ReplayRefused(
            f"A later run over the interval of batch {batch.batch_id} has decided, or was about to.",
            remedy="Start a new run over the interval; 'airflow shardbatch batches' lists those that there were.",
        )


def roots_before(consumer: Consumer, batch: Batch) -> tuple[str, ...]:
    """The roots of all runs over its interval so far, which also get a marker of its decision."""
    row = interval_row(consumer, batch.interval) if batch.interval is not None else None
    return row.roots if row is not None else ()


def draw_number(consumer: Consumer, batch: Batch, roots: Sequence[str]) -> tuple[int, tuple[str, ...]]:
    """The number of an interval's decision, and the roots that get its marker: its own and those of earlier runs.

    The number is drawn before the decision. If two runs over one interval decide at the same time, one has the higher
    number, whichever writes first. A batch keeps its number, so its replay does not replace the output of a later run.

    :raises ReplayRefused: if a later run over the same interval has drawn one.
    """
    if batch.interval is None:
        return 0, tuple(roots)
    while True:
        row = interval_row(consumer, batch.interval)
        _require_latest(batch, row)
        known = row or IntervalOutput(batch.namespace, batch.interval, first_count())
        number = batch.number or known.number + 1
        widened = known.widened(max(number, known.number), one_each(consumer.landing, [*known.roots, *roots]))
        if consumer.store.replace(row, widened) if row is not None else consumer.store.create(widened):
            return number, widened.roots


def require_apart(consumer: Consumer, batch: Batch) -> None:
    """Check that an interval that joins what live readers see has no records that they already see (H4).

    Its bounds are put on the application's row by compare-and-set, so that of two overlapping intervals one is refused.
    The comparison with the live application uses the first position that each lease ever had, not what is committed so
    far, because a live run may be at work. It is made twice: first, so that a refused interval leaves no bounds behind;
    then again, because a reset may have lowered a position meanwhile.

    :raises ConfigurationError: if it overlaps.
    """
    if batch.interval is None or not batch.joins:
        return
    slices = _slices(consumer, batch)
    _require_before_live(consumer, batch, slices)
    if _reserve(consumer, batch, batch.interval):
        _require_before_live(consumer, batch, slices)


def _reserve(consumer: Consumer, batch: Batch, interval: tuple[int, int]) -> bool:
    """Put the bounds on the application's row; false if they are already there."""
    start, end = interval
    while True:
        row = consumer.application()
        if row is None:
            raise _overlaps(batch, "it has not claimed yet, so it is unknown where it will begin")
        if interval in row.shown_intervals:
            return False
        others = [other for other in row.shown_intervals if other[0] < end and start < other[1]]
        if others:
            raise _overlaps(batch, "those of the interval from {} to {} (ms)".format(*others[0]))
        if consumer.store.replace(row, row.showing(interval)):
            return True


def _slices(consumer: Consumer, batch: Batch) -> list[Slice]:
    """The shards of which it has records, by its manifest: the side leases of a batch that was set aside are gone."""
    content = consumer.landing.read_manifest(batch.namespace, batch.batch_id)
    return [entry.slice for entry in Manifest.loads(content).slices if entry.slice.records]


def _require_before_live(consumer: Consumer, batch: Batch, slices: Sequence[Slice]) -> None:
    live = {lease.shard_id: lease for lease in replace(consumer, scope="").leases()}
    for entry in slices:
        lease = live.get(entry.shard_id)
        if lease is None or not _before(entry, lease, cast("tuple[int, int]", batch.interval)[1]):
            raise _overlaps(batch, f"shard {entry.shard_id} from its first position on")


def _before(entry: Slice, live: Lease, end_ms: int) -> bool:
    """Whether every record in a slice of an interval lies before every record that the live application ever reads.

    Between records that were sent as one it is unknown, so a record at the live application's first place counts as
    its own.
    """
    begins = live.begins
    if begins is None:
        return False
    if begins.kind is Kind.AT_TIMESTAMP:
        return end_ms + MARGIN_MS <= (begins.timestamp_ms or 0)
    if begins == SHARD_END:
        return True
    return begins.exact and entry.last is not None and after(entry.last) < after(begins.sequence_number or "0")


def _overlaps(batch: Batch, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"Batch {batch.batch_id} of an interval would join what live readers see, but they may have its records "
        f"already: {what}.",
        remedy='Leave out Outputs(intervals="join"): then readers name the interval to see its output. Only what '
        "arrived before the application's start can join.",
    )
