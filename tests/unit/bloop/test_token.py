# SPDX-License-Identifier: Apache-2.0
"""Tokens of Bloop: read whole or refused, and written as Bloop writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shardbatch.bloop.token import Token
from shardbatch.errors import InvalidToken
from tests.support.tokens import ARN, token

#: What Bloop says of BV-1 at its beginning, and after the first record.
BEGUN = token("P", "P| A(P) B(P)")
POPPED = token("A B P", "A|(P) B|(P) P>1")


@pytest.mark.parametrize("value", [BEGUN, POPPED, token("A B", "A@10(P) B!(P)"), token("Z", "Z>9")])
def test_a_token_is_read_and_written_as_it_stands(value: dict[str, Any]) -> None:  # B-15, BV-1
    assert Token.parse(value).to_json() == value
    assert json.loads(json.dumps(Token.parse(value).to_json())) == value
    assert all(None not in shard.values() for shard in Token.parse(value).to_json()["shards"])


def test_the_order_of_shards_does_not_matter() -> None:  # B-17
    turned = {**POPPED, "shards": POPPED["shards"][::-1]}
    assert set(Token.parse(turned).shards) == set(Token.parse(POPPED).shards)


@pytest.mark.parametrize("word", ["TRIM_HORIZON", "Trim_Horizon", "trim_horizon"])
def test_a_place_in_any_letters_is_the_same_place(word: str) -> None:  # B-11
    value = {"stream_arn": ARN, "active": ["A"], "shards": [{"shard_id": "A", "iterator_type": word}]}
    assert Token.parse(value).shards[0].iterator_type == "trim_horizon"


def test_null_means_the_same_as_absent() -> None:
    value = {
        "stream_arn": ARN,
        "active": ["A"],
        "shards": [{"shard_id": "A", "iterator_type": None, "sequence_number": None, "parent": None}],
    }
    assert Token.parse(value).to_json() == token("A", "A")


def test_a_shard_that_is_named_twice_alike_is_one() -> None:  # B-20
    found = Token.parse(token("R P A A", "R(0) P>1(R) A|(P) P>1(R)"))
    assert [shard.shard_id for shard in found.shards] == ["R", "P", "A"]
    assert (found.active, found.stale, found.doubled) == (("R", "P", "A"), (), ("A",))


@pytest.mark.parametrize(
    ("active", "shards", "left", "place"),
    [
        ("A B P", "P A!(P) B!(P) P>1", ["A", "B"], "no place"),  # moved to the latest end
        ("P P", "P| A(P) B(P) P>1", ["P"], "trim_horizon"),  # moved to the oldest
    ],
)
def test_a_place_from_before_a_move_is_told_and_not_used(active: str, shards: str, left: list[str], place: str) -> None:
    found = Token.parse(token(active, shards))  # B-14
    assert (list(found.active), found.stale, found.doubled) == (left, ("P",), ())
    assert str(next(shard for shard in found.shards if shard.shard_id == "P")) == place


A = {"shard_id": "A"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"stream_arn": None}, "stream_arn is not a text"),
        ({"stream_arn": ""}, "stream_arn is not a text"),
        ({"active": "A"}, "active is not a list"),
        ({"active": [7]}, "not a text"),
        ({"active": None}, "active is not a list"),
        ({"shards": {}}, "shards is not a list"),
        ({"shards": ["A"]}, r"shards\[0\] is not an object"),
        ({"active": ["Z"], "shards": []}, "active names Z, which shards does not have"),  # BV-5
        ({"active": ["A", "Z"]}, "active names Z"),  # B-19
        ({"shards": [{}]}, r"shards\[0\] has no shard_id"),
        ({"shards": [{**A, "iterator_type": "head"}]}, "'head', and not one of trim_horizon"),
        ({"shards": [{**A, "iterator_type": 5}]}, "iterator_type .* is not a text"),
        ({"shards": [{**A, "iterator_type": "at_sequence"}]}, "its sequence_number is None"),
        ({"shards": [{**A, "iterator_type": "after_sequence", "sequence_number": "1x"}]}, "'1x'"),
        ({"shards": [{**A, "iterator_type": "after_sequence", "sequence_number": 12}]}, "is not a text"),
        ({"shards": [{**A, "iterator_type": "latest", "sequence_number": "1"}]}, "has a sequence_number"),
        ({"shards": [{**A, "sequence_number": "1"}]}, "has a sequence_number"),
        ({"shards": [{**A, "stream_arn": ARN}]}, "stream_arn in shards"),
        ({"shards": [{**A, "parent": "B"}, {"shard_id": "B", "parent": "A"}]}, "circle"),
        ({"roots": []}, "there is roots, which Bloop does not write"),
    ],
)
def test_what_is_no_token_is_refused_and_says_where(change: dict[str, Any], words: str) -> None:
    value = {"stream_arn": ARN, "active": ["A"], "shards": [A], **change}
    with pytest.raises(InvalidToken, match=words):
        Token.parse(value)


@pytest.mark.parametrize("value", [[], None, "trim_horizon", 5])
def test_what_is_no_object_is_refused(value: Any) -> None:
    with pytest.raises(InvalidToken, match="not an object"):
        Token.parse(value)
