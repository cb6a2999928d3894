# SPDX-License-Identifier: Apache-2.0
"""What becomes of shards that a token of Bloop names: nothing lost in silence, nothing read twice."""

from __future__ import annotations

from typing import Any

import pytest

from shardbatch.bloop.reading import plan_token
from shardbatch.bloop.token import Token
from shardbatch.core.position import TRIM_HORIZON, Position, after, at_timestamp
from shardbatch.core.shard import Shard
from shardbatch.core.taken import Taken
from shardbatch.errors import InvalidStream
from tests.support.tokens import ARN, listing, token

NOW = at_timestamp(1_800_000_000_000)
TREE = "P A(P) B(P)"


def plan(value: dict[str, Any], shards: list[Shard], start: Position | None = None, arn: str = ARN) -> dict[str, Taken]:
    found = plan_token(Token.parse(value), arn, shards, start, lambda: NOW)
    return {taken.shard.shard_id: taken for taken in found}


def places(found: dict[str, Taken]) -> dict[str, str]:
    return {name: "gap, " * taken.unseen + str(taken.position) for name, taken in found.items() if not taken.refused}


def test_a_token_at_its_beginning_is_read_from_the_oldest_shards_on() -> None:  # BV-1
    found = plan(token("P", "P| A(P) B(P)"), listing(TREE))
    assert places(found) == {"P": "TRIM_HORIZON", "A": "TRIM_HORIZON", "B": "TRIM_HORIZON"}
    assert "what has expired since the token was written is not known" in found["P"].meaning


def test_the_children_of_a_shard_that_has_records_left_wait_for_it() -> None:  # BV-1, B-20
    found = plan(token("A B P", "A|(P) B|(P) P>1"), listing(TREE))
    assert places(found) == {"P": "1", "A": "TRIM_HORIZON", "B": "TRIM_HORIZON"}
    assert list(found)[-1] == "P"  # F5: it comes last
    assert found["A"].shard.parent_shard_ids == ("P",)
    assert "active beside a shard that it descends from: it waits" in found["A"].meaning
    assert found["P"].meaning == "after 1, as the token has it"


def test_a_child_that_was_read_beside_its_parent_goes_on_where_it_stands() -> None:  # B-20, B-24
    found = plan(token("A B P", "A>10(P) B@20(P) P>1"), listing(TREE))
    assert places(found) == {"P": "1", "A": "10", "B": "19"}
    assert "goes on at 20" in found["B"].meaning


def test_a_child_that_is_not_active_begins_at_its_oldest_record_wherever_the_token_has_it() -> None:  # B-8
    found = plan(token("P", "P>1 A>10(P) B!(P)"), listing(TREE))
    assert places(found) == {"P": "1", "A": "TRIM_HORIZON", "B": "TRIM_HORIZON"}
    assert "after_sequence 10, and not active" in found["A"].meaning


def test_what_is_above_the_active_shards_is_behind_bloop() -> None:
    found = plan(token("A B", "A>10(P) B@20(P)"), listing(TREE))
    assert places(found) == {"P": "SHARD_END", "A": "10", "B": "19"}
    assert "Bloop has read it" in found["P"].meaning
    found = plan(token("A B", "P A!(P) B>20(P)"), listing(TREE))
    assert places(found)["P"] == "SHARD_END"


def test_a_record_that_is_named_is_read() -> None:  # B-15, B-21
    assert places(plan(token("A", "A@0"), listing("A"))) == {"A": "TRIM_HORIZON"}
    assert places(plan(token("A", "A@100"), listing("A"))) == {"A": "99"}
    assert str(plan(token("A", "A@000100"), listing("A"))["A"].position) == "000099"


# shards that came, and shards that are gone


def test_shards_that_the_token_does_not_have_are_read_from_their_oldest_record() -> None:
    found = plan(token("P", "P>1"), listing("P A(P) B(P) C(A)"))
    assert places(found) == {"P": "1", "A": "TRIM_HORIZON", "B": "TRIM_HORIZON", "C": "TRIM_HORIZON"}
    assert "the token does not have it" in found["A"].meaning


def test_a_sibling_that_bloop_never_found_is_read() -> None:
    found = plan(token("A", "A>10(P)"), listing(TREE))
    assert places(found) == {"P": "SHARD_END", "A": "10", "B": "TRIM_HORIZON"}


def test_a_child_that_bloop_never_found_below_a_shard_that_it_has_ended_is_read() -> None:
    found = plan(token("B", "R P(R) B>20(R)"), listing("R P(R) B(R) A(P)"))
    assert places(found) == {"R": "SHARD_END", "P": "SHARD_END", "A": "TRIM_HORIZON", "B": "20"}


def test_a_shard_that_left_the_stream_becomes_a_gap_and_its_children_take_its_place() -> None:  # B-17, B-18
    found = plan(token("P", "P>1 A(P) B(P)"), listing("A(P) B(P)"))
    assert places(found) == {"P": "1", "A": "gap, TRIM_HORIZON", "B": "gap, TRIM_HORIZON"}
    assert "left the stream: what followed becomes a gap" in found["P"].meaning
    assert "its parents have left the stream" in found["A"].meaning
    assert found["P"].shard.closed


def test_a_chain_of_shards_that_left_is_pruned_down_to_what_is_there() -> None:  # BV-5, B-17
    found = plan(token("0", "0| 1(0) 2(0) 3(2)"), listing("2(0) 3(2) 4(3) 5(3)"))
    assert places(found) == {
        "0": "TRIM_HORIZON",
        "1": "TRIM_HORIZON",
        "2": "gap, TRIM_HORIZON",
        "3": "TRIM_HORIZON",
        "4": "TRIM_HORIZON",
        "5": "TRIM_HORIZON",
    }
    assert "it has left the stream: all of it becomes a gap" in found["0"].meaning
    assert "it has left the stream" in found["1"].meaning


def test_a_root_whose_parent_the_token_names_and_that_is_gone_may_have_lost_records() -> None:  # BV-5
    found = plan(token("A", "A|(P) B(A)"), listing("A(P) B(A)"))
    assert places(found) == {"A": "gap, TRIM_HORIZON", "B": "TRIM_HORIZON"}


def test_a_root_whose_parent_was_gone_before_bloop_began_has_no_gap() -> None:
    assert places(plan(token("A", "A|"), listing("A(P)"))) == {"A": "TRIM_HORIZON"}


def test_the_child_of_a_shard_that_left_is_found_by_the_listing_alone() -> None:
    assert places(plan(token("P", "P>1"), listing("A(P)"))) == {"P": "1", "A": "gap, TRIM_HORIZON"}


def test_a_shard_whose_line_to_the_token_is_broken_may_have_lost_records() -> None:
    """P is gone, and so is what came between it and B, which no listing and no token names any more."""
    found = plan(token("P Q", "P>1 Q>5"), listing("B(A) Q C(Q)"))
    assert places(found) == {"P": "1", "B": "gap, TRIM_HORIZON", "Q": "5", "C": "TRIM_HORIZON"}
    assert places(plan(token("Q", "Q>5"), listing("B(A) Q")))["B"] == "TRIM_HORIZON"


def test_what_is_behind_bloop_and_has_left_the_stream_needs_no_row() -> None:
    assert places(plan(token("A", "P A>10(P)"), listing("A(P)"))) == {"A": "10"}


# latest


def test_latest_is_the_present_instant_and_says_what_is_not_read() -> None:  # B-16
    found = plan(token("A B", "A! B>5"), listing("A B"))
    assert places(found) == {"A": str(NOW), "B": "5"}
    assert (found["A"].chosen, found["B"].chosen) == (True, False)
    assert "IS NOT READ" in found["A"].meaning


def test_latest_of_a_shard_that_has_ended_is_its_end() -> None:  # B-16
    found = plan(token("P", "P!"), listing(TREE))
    assert places(found) == {"P": "SHARD_END", "A": "TRIM_HORIZON", "B": "TRIM_HORIZON"}
    assert "IS NOT READ" in found["P"].meaning


@pytest.mark.parametrize("start", [TRIM_HORIZON, at_timestamp(5_000)])
def test_a_start_takes_the_place_of_latest(start: Position) -> None:
    found = plan(token("P", "P!"), listing(TREE), start)
    assert found["P"].position == start
    assert found["P"].chosen
    found = plan(token("P", "P! A(P)"), listing("A(P)"), start)
    assert "it has left the stream" in found["P"].meaning


def test_latest_below_an_active_shard_is_its_oldest_record() -> None:  # B-20
    assert places(plan(token("P A", "P>1 A!(P)"), listing("P A(P)"))) == {"P": "1", "A": "TRIM_HORIZON"}


# what is mended, and told


def test_what_was_mended_in_a_token_is_told() -> None:
    found = plan(token("A B P", "P A!(P) B!(P) P>1"), listing(TREE))  # B-14
    assert places(found) == {"P": "SHARD_END", "A": str(NOW), "B": str(NOW)}
    assert "a second place of it, from before Bloop was moved" in found["P"].meaning
    found = plan(token("A A", "A>1"), listing("A"))
    assert "active more than once" in found["A"].meaning


def test_an_open_shard_that_no_run_would_read_is_refused() -> None:
    found = plan(token("A", "A>1 B>2"), listing("A B"))
    assert "no run would read on there: take a new token" in found["B"].refused
    assert not found["A"].refused
    assert not plan(token("A", "A>1 B>2"), listing("A B", closed="B"))["B"].refused


# other streams


def test_the_token_of_another_stream_is_refused() -> None:  # B-19
    with pytest.raises(InvalidStream, match="and this one is arn:other"):
        plan(token("A", "A>1"), listing("A"), arn="arn:other")


@pytest.mark.parametrize("value", [token("Z", "Z|"), token("", ""), token("Z", "Y Z>1(Y)")])
def test_a_token_of_which_no_shard_is_known_is_refused(value: dict[str, Any]) -> None:  # BV-5, B-17
    with pytest.raises(InvalidStream, match="No shard of the token"):
        plan(value, listing(TREE))


def test_a_shard_with_another_parent_is_of_another_stream() -> None:
    with pytest.raises(InvalidStream, match="A is a child of Q, and in this stream of P"):
        plan(token("A", "A>1(Q)"), listing(TREE))


def test_a_token_that_turns_the_lineage_of_the_stream_round_is_of_another_stream() -> None:
    with pytest.raises(InvalidStream, match="circle"):
        plan(token("A", "A>1 P(A)"), listing("P A(P)"))


def test_the_place_of_no_shard_is_behind_that_of_the_token() -> None:
    assert plan(token("A", "A@7"), listing("A"))["A"].position == after("6")
