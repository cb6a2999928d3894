# SPDX-License-Identifier: Apache-2.0
"""Where an application stands, written down: committed facts only, and no row is changed.

A token of another program can say a place for each shard and no more. What else the rows know, and what would make
another program read records twice or not at all, stands in the remarks beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import cast

from shardbatch.control.action import TRIES
from shardbatch.control.position_format import Exported, PositionFormat, Remark, Standing
from shardbatch.core import lease as leases
from shardbatch.core.application import Application
from shardbatch.core.batch import KEPT, Batch, BatchState
from shardbatch.core.beginnings import beginnings
from shardbatch.core.carried import Carried
from shardbatch.core.interval_output import IntervalOutput
from shardbatch.core.lease import Lease
from shardbatch.core.owner import ResetHolder
from shardbatch.core.ports import Source
from shardbatch.core.rows import BATCH, INTERVAL
from shardbatch.core.shard import Shard
from shardbatch.errors import ImportUnfinished, LeaseLost
from shardbatch.run.consumer import Rows, require_there
from shardbatch.run.enrol import check

_AGAIN, _GAP, _NOT_READ, _UNFINISHED = "read again", "gap", "not read", "unfinished"


def export_positions(rows: Rows, *, source: Source, form: PositionFormat) -> Exported:
    """Write down where an application stands.

    The stream is asked for its shards: one that has no row yet must not be missing.

    :raises ApplicationUnknown: if there is no such application.
    :raises ApplicationRemoved: if it was removed.
    :raises ImportUnfinished: if its leases are still being imported.
    :raises StreamRecreated: if the stream is another one than its checkpoints belong to.
    :raises LeaseLost: if a reset holds leases of it, or a run writes them all the while.
    :raises ConfigurationError: if the format has no word for this stream, or for a place.
    """
    identity = cache(source.identity)
    _require_whole(rows.expect_application(), form, identity)
    listing = source.list_shards()
    application, intervals, found, batches = _still(rows)
    _require_whole(application, form, identity)
    _require_no_reset(rows, found)
    standing = [_committed(row, batches, rows.now_ms()) for row in found]
    fresh = _fresh(rows, application, listing, standing)
    listed = frozenset(shard.shard_id for shard in listing)
    written = form.write(
        Standing(
            identity=application.stream_id,
            rows=[*standing, *fresh],
            listed=listed,
            application=application,
            fresh=frozenset(row.shard_id for row in fresh),
            intervals=intervals,
        ),
        source,
    )
    of_leases = [
        remark for remark in _of_leases(found, batches, listed) if not (form.complete and remark.result == _GAP)
    ]
    remarks = [*_of_batches(rows, batches, found), *of_leases, *written.remarks]
    return Exported(written.positions, tuple(remarks))


def _require_whole(application: Application, form: PositionFormat, identity: Callable[[], str]) -> None:
    """See that an application is all there, and reads a stream that the format has a word for."""
    require_there(application)
    if application.importing is not None:
        raise ImportUnfinished(f"Nothing of {application.namespace} can be exported: {application.importing}.")
    form.require_stream(application.stream_id)
    check(application, identity())


def _still(rows: Rows) -> tuple[Application, tuple[IntervalOutput, ...], list[Lease], dict[str, Batch | None]]:
    """The application, its intervals, all leases and the batches of their stamps, as they stood at one time: a list is
    not a snapshot, and of a commit in the middle of it a child might have moved and its parent not.

    :raises LeaseLost: if they never stand still.
    """
    before: object = None
    for _ in range(TRIES):
        application = rows.expect_application()
        intervals = tuple(cast("Iterator[IntervalOutput]", rows.store.list(INTERVAL, rows.namespace, None)))
        found = rows.leases()
        stamps = sorted({row.batch_id for row in found if row.batch_id is not None})
        batches = {batch_id: rows.batch(batch_id) for batch_id in stamps}
        now = (
            (application.stream_id, application.importing, Carried.of(application, intervals)),
            [(row.shard_id, str(row.checkpoint), row.completed, row.batch_id, row.lease_owner) for row in found],
            {batch_id: batch and batch.state for batch_id, batch in batches.items()},
        )
        if now == before:
            return application, intervals, found, batches
        before = now
    raise LeaseLost(
        f"The rows of {rows.namespace} were written all the while they were read.",
        remedy="Export them once the runs that are at work have ended.",
    )


def _require_no_reset(rows: Rows, found: Sequence[Lease]) -> None:
    for row in found:
        if ResetHolder.parse(row.lease_owner) is not None:
            raise LeaseLost(
                f"A reset of {rows.namespace} holds {row.shard_id} and has moved a part of its shards only.",
                remedy="Let it end. If it has died, run 'airflow shardbatch reset' again, which finishes it; then "
                "export.",
            )


def _committed(row: Lease, batches: Mapping[str, Batch | None], now_ms: int) -> Lease:
    """A lease as what is committed leaves it. The decision on a batch is in its row; that its leases follow is a matter
    of time (PROTOCOL B4, L5)."""
    batch = batches.get(row.batch_id) if row.batch_id is not None else None
    if batch is None or batch.state is not BatchState.COMMITTED:
        return row
    return leases.roll_forward(row, batch.batch_id, now_ms)


def _fresh(rows: Rows, application: Application, listing: Sequence[Shard], standing: Sequence[Lease]) -> list[Lease]:
    """The rows that the next claim would add."""
    now_ms, known = rows.now_ms(), {row.shard_id: row for row in standing}
    begins = beginnings(listing, known, application.root_start, now_ms, dict(application.start_places))
    return [
        leases.add(rows.namespace, "", shard, begins[shard.shard_id].place, 0, now_ms)
        for shard in listing
        if shard.shard_id not in known
    ]


def _of_batches(rows: Rows, stamped: Mapping[str, Batch | None], found: Sequence[Lease]) -> Iterator[Remark]:
    """What batches mean for who goes on elsewhere."""
    stamps = {row.batch_id for row in found}
    for batch in cast("Iterator[Batch]", rows.store.list(BATCH, rows.namespace, rows.scope)):
        name, number = batch.batch_id, batch.records
        if batch.state in (BatchState.FROZEN, BatchState.PARKED):
            text = (
                f"it is {batch.state.value} with {number} records, which are not in these positions: they are read "
                "again elsewhere, and they are committed here too, unless the batch is dropped"
            )
            yield Remark("batch", name, _AGAIN, text)
        elif batch.set_aside == KEPT:
            text = f"it was set aside: its {number} records are behind these positions, and no reader has seen them"
            yield Remark("batch", name, _NOT_READ, f"{text}; replay it here, or reset before you export")
        elif batch.state is BatchState.COMMITTED and name in stamps:
            text = "it is decided, and counts here; a run has still to tell its output roots, so let one end"
            yield Remark("batch", name, _UNFINISHED, text)


def _of_leases(found: Sequence[Lease], batches: Mapping[str, Batch | None], listed: frozenset[str]) -> Iterator[Remark]:
    """What leases know that positions cannot tell."""
    for row in found:
        batch = batches.get(row.batch_id) if row.batch_id is not None else None
        decided = batch is not None and batch.state is BatchState.COMMITTED
        if row.pending is not None and not decided:
            if row.batch_id is None and row.pending.records:
                text = f"{row.pending.records} records of it are landed and not committed: they are read again"
                yield Remark("lease", row.shard_id, _AGAIN, f"{text} elsewhere, and by the next run here")
            if row.pending.gaps:
                text = "records behind its place have expired unread, and the positions do not say so"
                yield Remark("lease", row.shard_id, _GAP, text)
        elif row.lease_owner and not decided:
            text = f"{row.lease_owner} is reading it: what it commits from now on is read again elsewhere"
            yield Remark("lease", row.shard_id, _AGAIN, text)
        if row.skipped and not decided:
            text = f"a reset skipped records of it that no batch tells yet: {row.skipped[-1].accepted}"
            yield Remark("lease", row.shard_id, _GAP, text)
        if row.caught_up_ms == leases.NEVER_MS and not row.completed and not row.checkpoint.exact:
            text = "it was never read, and its first records may have expired; the positions do not say so"
            yield Remark("lease", row.shard_id, _GAP, text)
        if row.shard_id not in listed and not row.completed and not (decided and row.pending and row.pending.ended):
            text = f"it has left the stream; what followed {row.checkpoint} is lost, and the positions do not say so"
            yield Remark("lease", row.shard_id, _GAP, text)
