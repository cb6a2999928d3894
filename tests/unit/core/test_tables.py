# SPDX-License-Identifier: Apache-2.0
"""Which rows stand in which table."""

from __future__ import annotations

import pytest

from shardbatch.core.application import Application
from shardbatch.core.batch import Batch
from shardbatch.core.interval_output import IntervalOutput
from shardbatch.core.lease import Lease
from shardbatch.core.rows import APPLICATION, BATCH, INTERVAL, SHARD_LEASE, TABLES, Row, Table
from shardbatch.core.tables import row_type

EXPECTED: list[tuple[Table, type[Row]]] = [
    (SHARD_LEASE, Lease),
    (BATCH, Batch),
    (APPLICATION, Application),
    (INTERVAL, IntervalOutput),
]


@pytest.mark.parametrize(("table", "row"), EXPECTED, ids=lambda item: getattr(item, "name", ""))
def test_each_table_holds_its_rows(table: Table, row: type[Row]) -> None:
    assert row_type(table) is row


def test_no_table_is_without_rows() -> None:
    assert [table for table, _ in EXPECTED] == list(TABLES)
