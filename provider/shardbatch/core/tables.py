# SPDX-License-Identifier: Apache-2.0
"""The rows that each table holds."""

from __future__ import annotations

from shardbatch.core.application import Application
from shardbatch.core.batch import Batch
from shardbatch.core.lease import Lease
from shardbatch.core.rows import APPLICATION, BATCH, SHARD_LEASE, Row, Table

_TYPES: dict[str, type[Row]] = {SHARD_LEASE.name: Lease, BATCH.name: Batch, APPLICATION.name: Application}


def row_type(table: Table) -> type[Row]:
    """The class of a table's rows."""
    return _TYPES[table.name]
