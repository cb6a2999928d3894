# SPDX-License-Identifier: Apache-2.0
"""What comes from a shard, and which of its keys have a shard that follows."""

from __future__ import annotations

import pytest

from shardbatch.core.lease import Lease
from shardbatch.core.lineage_cover import descendants, parents_of, uncovered
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.rows import Namespace
from shardbatch.core.shard import KeyRange, Shard


def test_descendants_of_all_generations_are_found_by_rows_and_listing_together() -> None:
    """The middle of a lineage may be in the listing only, or in the rows only."""
    row = Lease(Namespace("etl", "orders"), "", "child", None, 1, TRIM_HORIZON, parent_shard_ids=("old",))
    listed = [Shard("grandchild", ("child", "other")), Shard("other"), Shard("last", ("grandchild",))]
    parents = parents_of([row], listed)
    assert descendants("old", parents) == {"child", "grandchild", "last"}
    assert descendants("other", parents) == {"grandchild", "last"}
    assert descendants("last", parents) == set()


def test_a_parent_that_only_one_of_both_names_counts() -> None:
    row = Lease(Namespace("etl", "orders"), "", "child", None, 1, TRIM_HORIZON, parent_shard_ids=("a",))
    assert parents_of([row], [Shard("child", ("b",))]) == {"child": ("a", "b")}


@pytest.mark.parametrize(
    ("ranges", "left"),
    [
        ([], ["10-19"]),
        (["0-99"], []),
        (["10-14", "15-19"], []),
        (["0-12", "17-30"], ["13-16"]),
        (["0-9", "20-29"], ["10-19"]),
        (["15-25"], ["10-14"]),
        (["12-12"], ["10-11", "13-19"]),
    ],
)
def test_only_the_parents_own_keys_count(ranges: list[str], left: list[str]) -> None:
    found = uncovered(KeyRange(10, 19), [None, *map(KeyRange.parse, ranges)])
    assert [str(part) for part in found] == left
