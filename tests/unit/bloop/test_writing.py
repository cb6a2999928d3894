# SPDX-License-Identifier: Apache-2.0
"""The token that says where an application stands: never a later place, and what is less exact is said."""

from __future__ import annotations

from typing import Any

import pytest

from shardbatch.bloop.token import Token
from shardbatch.bloop.writing import write_token
from shardbatch.control.place_look import Seen
from shardbatch.core import lease as leases
from shardbatch.core.lease import Lease
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, Position, after, at_timestamp
from shardbatch.core.rows import Namespace
from shardbatch.core.shard import Shard
from tests.support.tokens import ARN, token


def row(name: str, place: Position, *parents: str, begins: Position = TRIM_HORIZON) -> Lease:
    made = leases.add_imported(Namespace("etl", "orders"), Shard(name, parents), place, 1, 0, "")
    return Lease(**{**vars(made), "begins": begins})


def write(*rows: Lease, gone: str = "", seen: Seen | None = None) -> tuple[dict[str, Any], dict[str, str]]:
    """The token, and of each shard that has a remark its kind."""
    listed = {lease.shard_id for lease in rows} - set(gone.split())
    found, remarks = write_token(ARN, rows, listed, lambda shard_id, place: seen or Seen())
    assert Token.parse(found.to_json()) == found
    assert all(remark.text for remark in remarks)
    return found.to_json(), {remark.name: remark.result for remark in remarks}


def test_a_shard_in_the_middle_of_its_lineage() -> None:  # BV-1, B-15
    rows = row("P", after("1")), row("A", TRIM_HORIZON, "P"), row("B", TRIM_HORIZON, "P")
    assert write(*rows) == (token("P", "P>1 A(P) B(P)"), {})
    rows = row("P", TRIM_HORIZON), row("A", TRIM_HORIZON, "P"), row("B", TRIM_HORIZON, "P")
    assert write(*rows) == (token("P", "P| A(P) B(P)"), {})


def test_a_shard_that_is_read_to_its_end_is_not_in_the_token() -> None:
    rows = row("P", SHARD_END), row("A", after("10"), "P"), row("B", TRIM_HORIZON, "P")
    assert write(*rows) == (token("A B", "A>10(P) B|(P)"), {})


def test_a_shard_that_is_read_to_its_end_and_has_no_child_yet_is_in_it_at_its_end() -> None:
    """Bloop looks for children of the shards of a token only: a child that is listed later would never be found."""
    assert write(row("P", SHARD_END), row("Q", after("5"))) == (token("P Q", "P! Q>5"), {})
    assert write(row("P", SHARD_END), row("Q", after("5")), gone="P") == (token("Q", "Q>5"), {})


def test_a_parent_without_a_row_is_not_named() -> None:
    assert write(row("A", after("10"), "P"))[0] == token("A", "A>10")


@pytest.mark.parametrize("place", [at_timestamp(5_000), after("7", 0, 5_000)])
def test_an_instant_is_said_as_an_earlier_place_and_told(place: Position) -> None:  # F8
    entry = "A>7" if place.exact else "A|"
    assert write(row("A", place)) == (token("A", entry), {"A": "read too"})
    rows = row("P", after("1")), row("A", place, "P")
    assert write(*rows) == (token("P", "P>1 A(P)"), {"A": "read too"})


@pytest.mark.parametrize("place", [after("10"), SHARD_END])
def test_what_bloop_reads_again_below_an_unfinished_shard_is_told(place: Position) -> None:
    rows = row("P", after("1")), row("A", place, "P"), row("C", TRIM_HORIZON, "A")
    assert write(*rows) == (token("P", "P>1 A(P) C(A)"), {"A": "read again"})


def test_the_integer_before_a_record_is_written_as_that_record() -> None:  # B-21
    lease = row("A", after("99"), begins=after("99"))
    assert write(lease, seen=Seen("100")) == (token("A", "A@100"), {})
    assert write(lease, seen=Seen("105")) == (token("A", "A>99"), {})
    assert write(lease, seen=Seen()) == (token("A", "A>99"), {})
    read = row("A", after("99"), begins=after("98"))
    assert write(read, seen=Seen("100")) == (token("A", "A>99"), {})


def test_a_place_whose_record_has_expired_is_the_oldest_record_and_told() -> None:  # B-18
    for begins in (after("99"), after("98")):
        lease = row("A", after("99"), begins=begins)
        assert write(lease, seen=Seen("105", trimmed=True)) == (token("A", "A|"), {"A": "gap"})


def test_parents_come_before_their_children() -> None:
    rows = row("a", TRIM_HORIZON, "z"), row("z", after("1"), "m"), row("m", SHARD_END), row("b", TRIM_HORIZON, "a")
    assert [shard["shard_id"] for shard in write(*rows)[0]["shards"]] == ["z", "a", "b"]
