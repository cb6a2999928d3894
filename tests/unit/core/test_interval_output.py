# SPDX-License-Identifier: Apache-2.0
"""The row of an interval's outputs: its key, and what a later batch of the interval adds."""

from __future__ import annotations

from shardbatch.core.interval_output import IntervalOutput, key_of
from shardbatch.core.rows import Namespace

NAMESPACE = Namespace("etl", "orders")


def test_rows_come_in_the_order_of_time() -> None:
    spans = [(9, 10), (10, 11), (999, 1_000), (1_000, 1_001), (1_800_000_000_000, 1_800_000_000_001)]
    keys = [key_of(NAMESPACE, span).values for span in spans]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(spans)


def test_a_later_batch_raises_the_number_and_names_all_roots() -> None:
    row = IntervalOutput(NAMESPACE, (1, 2), 7, 1, ("out",))
    later = row.widened(2, ("out", "rejects"))
    assert (later.key, later.counter) == (row.key, 8)
    assert (later.number, later.roots) == (2, ("out", "rejects"))


def test_a_row_without_a_number_is_of_an_interval_that_nothing_was_decided_for() -> None:
    columns = {**key_of(NAMESPACE, (1, 2)).columns(), "row_count": 3, "number": None, "roots": None}
    assert IntervalOutput.from_columns(columns) == IntervalOutput(NAMESPACE, (1, 2), 3)
