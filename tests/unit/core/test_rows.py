# SPDX-License-Identifier: Apache-2.0
"""Rows: what they keep, and what their names may be."""

from __future__ import annotations

import pytest

from shardbatch.core.application import Application, Group
from shardbatch.core.batch import Batch, BatchState
from shardbatch.core.interval_output import IntervalOutput
from shardbatch.core.lease import Lease
from shardbatch.core.position import TRIM_HORIZON, after
from shardbatch.core.rows import Namespace
from shardbatch.core.shard import KeyRange
from shardbatch.core.slice import Gap, LandedFile, Oddities, Slice
from shardbatch.core.start import Start

NAMESPACE = Namespace("etl", "orders")
SLICE = Slice(
    "s", TRIM_HORIZON, after("9"), False, (LandedFile("p/0", 2, 30),), 2, 10, "9", 1, 2, 5, 6, ("c",),
    (Gap(after("3")), Gap(after("5"), "7", 8, 9, "why", "ann", after("6"))), Oddities(1, 2, 3), 1, 2,
)  # fmt: skip


@pytest.mark.parametrize(
    "row",
    [
        Lease(
            NAMESPACE, "sc", "s", "me", 3, after("5", 2), True, ("p", "q"), KeyRange(1, 2), "x", "001", SLICE,
            7, 8, 9, 10, begins=after("4"), skipped=(Gap(after("1"), until=after("2")),),
        ),
        Lease(NAMESPACE, "", "s", None, 3, TRIM_HORIZON),
        Batch(
            NAMESPACE, "", "x", "me", 5, BatchState.COMMITTED, 2, "1:app", 3, 1, "own",
            (Start("s1", 2, "transform", ("out",)),), 2, "u", "d", 4, 5, 6, 7, 8, "note", dropped=9,
            roots=("out", "rejects"), min_arrival_ms=1, max_arrival_ms=2, shared=True, joins=True, from_ms=3, to_ms=4,
            number=5, claims=("c1", "c2"), event="run/0/7", event_ms=6,
        ),
        IntervalOutput(NAMESPACE, (3, 1_800_000_000_000), 7, 2, ("out",)),
        Application(
            NAMESPACE, "arn@1", TRIM_HORIZON, 3, deployments=("a", "b"),
            claimed_by=(Group("a", "dag", "orders", 7), Group("b", "dag", "", 8)), last_action="z",
            retention_ms=9, gone_before_ms=8, longest_retention_ms=10, shown_intervals=((1, 2), (3, 4)),
            start_places=(("s", after("7")),),
        ),
    ],
)  # fmt: skip
def test_a_row_survives_its_columns(row: Lease | Batch | Application) -> None:
    columns = {**row.key.columns(), **row.columns()}
    assert type(row).from_columns(columns) == row
    assert type(row).from_columns({**columns, "a_later_column": 1}) == row


@pytest.mark.parametrize("name", ["a/b", "", " a", "a\n"])
def test_a_name_that_would_leave_its_namespace_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="printable text without a slash"):
        Namespace(name, "orders")
