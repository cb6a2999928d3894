# SPDX-License-Identifier: Apache-2.0
"""The rows that each table holds."""

from __future__ import annotations

from shardbatch.core.application import Application
from shardbatch.core.batch import Batch
from shardbatch.core.interval_output import IntervalOutput
from shardbatch.core.lease import Lease
from shardbatch.core.rows import Column, Row, Table, columns_of

_ROWS: tuple[type[Row], ...] = (Lease, Batch, Application, IntervalOutput)
_TYPES = {row.table.name: row for row in _ROWS}


def row_type(table: Table) -> type[Row]:
    """The class of a table's rows."""
    return _TYPES[table.name]


def columns_of_table(table: Table) -> tuple[Column, ...]:
    """The columns of a table beside those of its key."""
    return columns_of(row_type(table))
