# SPDX-License-Identifier: Apache-2.0
"""Lineage graphs of KCL's own tests under our rule: every listed shard gets a row, the oldest come first (K-12, KV-5).

KCL makes rows for some ancestors only and finds the others as parents end: what it makes is what we may take at once.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from random import Random

import pytest

from shardbatch.core import lease as leases
from shardbatch.core.lease import Lease
from shardbatch.core.planner import plan, unknown_shards
from shardbatch.core.position import SHARD_END, TRIM_HORIZON
from shardbatch.core.rows import Namespace
from shardbatch.core.shard import Shard

ME = "here/dag/run/group/incremental"


def graph(text: str, still_open: str) -> list[Shard]:
    """``6<0,1``: shard 6, merged from 0 and 1."""
    found = [item.partition("<") for item in text.split()]
    opened = still_open.split()
    return [Shard(n, tuple(p.split(",")) if p else (), closed=n not in opened) for n, _, p in found]


GRAPHS = {
    "A": graph("0 1 2 3 4 5 6<0,1 7<2,3 8<6,7 9<5 10<5", "4 8 9 10"),
    "B": graph("0 1 2<0,1 3<2 4<2 5<3,4 6<5 7<5 8<6,7 9<8 10<8", "9 10"),
    "C": graph("0 1 2 3 4<0 5<0 6<2,3 7<4 8<4 9<5 10<5", "1 6 7 8 9 10"),
}
ROOTS = {"A": {"0", "1", "2", "3", "4", "5"}, "B": {"0", "1"}, "C": {"0", "1", "2", "3"}}


def row(shard: Shard) -> Lease:
    return leases.add(Namespace("etl", "orders"), "", shard, TRIM_HORIZON, 7, 0)


def claimed(listing: list[Shard], rows: list[Lease]) -> tuple[list[Lease], set[str]]:
    """All rows after a claim, and the shards that it may take."""
    made = [row(shard) for generation in unknown_shards(listing, rows) for shard in generation]
    found = plan(rows + made, {shard.shard_id for shard in listing}, lambda lease: True, ME, now_ms=0)
    return rows + made, {lease.shard_id for lease in found.takeable}


@pytest.mark.parametrize(
    ("name", "existing", "kcl"),
    [
        ("A", "", "0 1 2 3 4 5"),
        ("A", "3 4 5", "0 1 2"),
        ("A", "4 5 7", "0 1"),
        ("A", "2 6", "3 4 5"),
        ("A", "4 9 10", "0 1 2 3"),
        ("A", "4 5 6 7", ""),
        ("A", "0 1 2 3 4 5 6 7", ""),
        ("A", "0 1 4 7 9 10", ""),
        ("B", "", "0 1"),
        ("B", "6", "0 1"),
        ("B", "5", ""),
        ("B", "0 1 2 3 4 5", ""),
        ("C", "9 10", "0 1 2 3"),
    ],
)
def test_what_kcl_would_make_a_lease_for_may_be_taken_and_the_rest_waits_for_it(
    name: str, existing: str, kcl: str
) -> None:
    listing = GRAPHS[name]
    rows = [row(shard) for shard in listing if shard.shard_id in existing.split()]
    every, takeable = claimed(listing, rows)
    assert sorted(lease.shard_id for lease in every) == sorted(shard.shard_id for shard in listing)
    assert takeable == ROOTS[name]
    assert set(kcl.split()) <= takeable


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_whatever_rows_there_are_and_in_whatever_order_shards_are_listed_all_are_read_once_after_their_parents(
    name: str,
) -> None:
    listing, draw = list(GRAPHS[name]), Random(5)  # K-8, K-14
    parents = {shard.shard_id: shard.parent_shard_ids for shard in listing}
    for existing in (some for size in range(0, len(listing) + 1, 2) for some in combinations(listing, size)):
        if draw.random() > 0.1:
            continue
        draw.shuffle(listing)
        rows, takeable = claimed(listing, [row(shard) for shard in existing])
        read: list[str] = []
        while takeable:
            read += sorted(takeable)
            done = [replace(r, completed=True, checkpoint=SHARD_END) if r.shard_id in takeable else r for r in rows]
            rows, takeable = claimed(listing, done)
        assert sorted(read) == sorted(parents)
        assert all(read.index(parent) < read.index(child) for child in read for parent in parents[child])


@pytest.mark.parametrize(
    ("listing", "existing", "takeable"),
    [
        pytest.param("U C<P1,P2 P2", "U", "U P2", id="one parent trimmed, the other not read"),
        pytest.param("U C<P1,P2", "U", "U C", id="both parents trimmed"),
        pytest.param("U P1 P2 C<P1,P2", "U P1", "U P1 P2", id="one of two parents has a row"),
    ],
)
def test_beside_a_shard_of_another_lineage(listing: str, existing: str, takeable: str) -> None:
    shards = graph(listing, "U C")
    rows = [row(shard) for shard in shards if shard.shard_id in existing.split()]
    assert claimed(shards, rows)[1] == set(takeable.split())


def test_a_child_of_an_open_parent_gets_its_row_from_the_next_listing() -> None:
    torn = graph("U P C<P", "U P C")
    rows, takeable = claimed(torn, [row(torn[0])])
    assert ([lease.shard_id for lease in rows], takeable) == (["U", "P"], {"U", "P"})
    assert [lease.shard_id for lease in claimed(graph("U P C<P", "U C"), rows)[0]] == ["U", "P", "C"]
