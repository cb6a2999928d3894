# SPDX-License-Identifier: Apache-2.0
"""Measures what the rows of an application say of its state, and what a commit decided."""

from __future__ import annotations

from collections.abc import Sequence

from shardbatch.core import metrics
from shardbatch.core.application import Application
from shardbatch.core.batch import UNDECIDED, Batch
from shardbatch.core.lease import Lease
from shardbatch.core.watermark import watermark
from shardbatch.run.consumer import Consumer
from shardbatch.run.expiry import expirations
from shardbatch.run.settle import Stamped


def measure_state(
    consumer: Consumer, application: Application | None, rows: Sequence[Lease], stamped: Stamped | None
) -> None:
    """Measure how far the application is behind, what it may lose, and what it waits for.

    Nothing for the run of an interval, whose rows say nothing of the live application.

    :param stamped: the batches that stamp the rows; ``None``: they are not known.
    """
    if consumer.interval is not None or application is None:
        return
    now_ms, measure = consumer.now_ms(), consumer.measure
    mark = watermark(application, rows).ms
    if mark is not None:
        measure(metrics.BEHIND, max(0, now_ms - mark))
    expires = expirations(application, rows, now_ms).values()
    if expires:
        measure(metrics.UNTIL_LOSS, max(0, min(expires) - now_ms))
    if stamped is not None:
        begun = [batch.created_at_ms for batch in stamped.values() if batch is not None and batch.state in UNDECIDED]
        measure(metrics.OLDEST_BATCH, max(0, now_ms - min(begun, default=now_ms)))
    measure(metrics.WAITING_SHARDS, sum(row.waits_for_gap for row in rows))


def measure_commit(consumer: Consumer, batch: Batch) -> None:
    """Measure a batch that was just decided for the first time."""
    measure = consumer.measure
    measure(metrics.COMMITTED_BATCHES, 1)
    measure(metrics.COMMITTED_RECORDS, batch.records)
    measure(metrics.COMMITTED_BYTES, batch.bytes)
    measure(metrics.GAPS, batch.gaps)
    measure(metrics.DROPPED, batch.dropped)
    measure(metrics.BATCH_AGE, max(0, (batch.committed_at_ms or 0) - batch.created_at_ms))


def measure_lag(consumer: Consumer, lag_ms: int | None) -> None:
    """Measure how far behind the tip the shards of a batch were; nothing if it is unknown, or for an interval's."""
    if lag_ms is not None and consumer.interval is None:
        consumer.measure(metrics.LAG, lag_ms)
