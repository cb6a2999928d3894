# SPDX-License-Identifier: Apache-2.0
"""The rows that each table holds."""

from __future__ import annotations

from shardbatch.core.application import Application
from shardbatch.core.batch import Batch
from shardbatch.core.interval_output import IntervalOutput
from shardbatch.core.lease import Lease
from shardbatch.core.rows import APPLICATION, BATCH, INTERVAL, SHARD_LEASE, Row, Table

_TYPES: dict[str, type[Row]] = {
    SHARD_LEASE.name: Lease,
    BATCH.name: Batch,
    APPLICATION.name: Application,
    INTERVAL.name: IntervalOutput,
}


def row_type(table: Table) -> type[Row]:
    """The class of a table's rows."""
    return _TYPES[table.name]
