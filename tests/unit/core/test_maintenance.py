# SPDX-License-Identifier: Apache-2.0
"""Which rows may go, and which are missing, by the other rows alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardbatch.core import lease as leases
from shardbatch.core.lease import Lease
from shardbatch.core.maintenance import missed, obsolete
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, Position, after, at_timestamp
from shardbatch.core.rows import Namespace
from shardbatch.core.shard import Shard

FIVE, SEVEN = after("5"), after("7")


def row(shard_id: str, *parents: str, at: Position = TRIM_HORIZON, count: int = 7) -> Lease:
    fresh = leases.add(Namespace("etl", "orders"), "", Shard(shard_id, parents), at, count, 0)
    return replace(fresh, completed=at == SHARD_END)


def gone(rows: list[Lease], listed: str = "") -> list[str]:
    return [lease.shard_id for lease in obsolete(rows, set(listed), lambda lease: lease.lease_count == 7)]


@pytest.mark.parametrize(
    ("rows", "listed", "expected"),
    [
        pytest.param([row("a", "p", at=FIVE), row("b", "p", at=SEVEN)], "ab", ["p"], id="children begun"),
        pytest.param([row("a", "p", at=FIVE), row("b", "p")], "ab", [], id="a child at its oldest record"),
        pytest.param([row("a", "p", at=FIVE), row("b", "p", at=at_timestamp(1))], "ab", [], id="a child at an instant"),
        pytest.param([row("a", "p", at=after("5", 0, 1))], "a", [], id="a child that is searched for an instant"),
        pytest.param([], "ab", [], id="no child has a row"),
        pytest.param([row("a", "p", at=FIVE)], "pa", [], id="listed still"),
        pytest.param([row("a", "p", at=SHARD_END)], "a", ["p"], id="child completed"),
    ],
)
def test_a_completed_row_goes_once_its_children_are_begun_and_the_stream_has_it_no_more(
    rows: list[Lease], listed: str, expected: list[str]
) -> None:
    assert gone([row("p", at=SHARD_END), *rows], listed) == expected  # K-38, KV-16


def test_a_row_goes_after_those_of_its_parents(  # K-38: own parent row present -> keep
) -> None:
    young = row("g", at=SHARD_END, count=8)
    chain = [row("p", "g", at=SHARD_END), row("c", "p", at=SHARD_END), row("d", "c", at=FIVE)]
    assert gone([young, *chain]) == []
    assert gone([replace(young, lease_count=7), *reversed(chain)]) == ["g", "p", "c"]
    assert gone([replace(young, completed=False, checkpoint=FIVE), *chain]) == []


def test_a_row_that_somebody_holds_or_a_batch_names_stays() -> None:
    child = row("c", "p", at=FIVE)
    held = replace(row("p", at=SHARD_END), lease_owner="reset/1")
    stamped = replace(row("p", at=SHARD_END), batch_id="b-1")
    assert gone([held, child]) == gone([stamped, child]) == []


def shards(*names: str) -> list[Shard]:
    """``c<ab``: shard c, child of a and b."""
    found = [name.partition("<") for name in names]
    return [Shard(shard_id, tuple(parents)) for shard_id, _, parents in found]


@pytest.mark.parametrize(
    ("rows", "fresh", "listed", "expected"),
    [
        pytest.param([], ["a", "b"], "ab", [], id="the first claim"),
        pytest.param([row("c", "p")], ["p"], "pc", [], id="a first claim that died half-way"),
        pytest.param([row("p", at=SHARD_END)], ["c<p", "d<p"], "pcd", [], id="children of a reshard"),
        pytest.param([row("p", at=FIVE)], ["c<p", "g<c"], "pcg", [], id="two generations of a reshard"),
        pytest.param([row("a", at=FIVE)], ["b"], "ab", ["b"], id="a root, beside one at work"),
        pytest.param([row("p", at=SHARD_END), row("c", "p", at=FIVE)], ["d<p"], "pcd", ["d"], id="one of two siblings"),
        pytest.param([row("c", "p", at=FIVE)], ["p"], "pc", ["p"], id="the parent of a child at work"),
        pytest.param([row("a", at=FIVE)], ["c<p"], "ac", ["c"], id="a child of nobody known"),
        pytest.param([row("a"), row("b")], ["c"], "abc", [], id="nothing was ever committed"),
    ],
)
def test_a_shard_that_had_a_row_is_told_from_a_new_one(
    rows: list[Lease], fresh: list[str], listed: str, expected: list[str]
) -> None:
    assert missed(shards(*fresh), set(listed), rows) == expected  # R48
