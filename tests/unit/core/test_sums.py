# SPDX-License-Identifier: Apache-2.0
"""Sums and tokens: what counts of the decisions that a root tells, and what a reader has seen of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardbatch.core.decision import Decision
from shardbatch.core.sums import Entry, Sum, Token, Told, merged, sum_name, sum_number
from shardbatch.errors import ConfigurationError, UnsupportedSchema
from tests.support.roots import decision

HOUR = 3_600_000
NINE = (9 * HOUR, 10 * HOUR)


def told(*decisions: Decision, taken: int | None = None, number: int = 0) -> Told:
    return Told({one.batch_id: Entry(one, taken) for one in decisions}, number)


def ids(decisions: list[Decision]) -> list[str]:
    return [one.batch_id for one in decisions]


@st.composite
def decisions(draw: st.DrawFn) -> Decision:
    times = st.none() | st.integers(0, 10**13)
    return Decision(
        draw(st.text(min_size=1, max_size=4)),
        draw(st.integers(0, 5)),
        tuple(draw(st.lists(st.tuples(st.text(max_size=3), st.integers(1, 9)), max_size=2))),
        draw(st.sampled_from(["", "etl/orders", "etl/rejects"])),
        draw(st.none() | st.tuples(st.integers(0, 5), st.integers(6, 9))),
        draw(st.integers(0, 3)),
        draw(st.booleans()),
        draw(times),
        draw(times),
        draw(times),
        tuple(draw(st.lists(st.sampled_from(["/a", "s3://b/ä"]), max_size=2, unique=True))),
    )


@given(st.lists(decisions(), max_size=6, unique_by=lambda one: one.batch_id), st.integers(1, 9))
def test_a_sum_comes_back_as_it_was(found: list[Decision], number: int) -> None:
    one = Sum(number, ("1-a.json",), tuple(Entry(d, number) for d in sorted(found, key=lambda d: d.batch_id)))

    assert Sum.loads(number, one.dumps()) == one


def test_what_a_later_version_adds_to_an_entry_is_passed_over_and_a_later_form_refused() -> None:
    value = json.loads(Sum(1, (), (Entry(decision("a"), 1),)).dumps())
    value["entries"][0].append("more")
    value["more"] = 1
    assert Sum.loads(1, json.dumps(value).encode()).entries == (Entry(decision("a"), 1),)

    value["version"] = 3
    with pytest.raises(UnsupportedSchema, match="newer shardbatch"):
        Sum.loads(1, json.dumps(value).encode())


def test_a_sums_name_tells_its_number() -> None:
    assert sum_number(sum_name(12, "ab3")) == 12
    assert [sum_number(name) for name in ("a.1.json", ".1-a.json", "1-a.json.tmp", "-a.json", "1-.json")] == [None] * 5


@given(st.data())
def test_the_highest_decision_counts_in_whatever_order_and_number_it_is_told(data: st.DataObject) -> None:
    every = [decision(batch_id, decided) for batch_id in "abc" for decided in (1, 2, 10)]
    markers = data.draw(st.lists(st.sampled_from(every), max_size=8))
    sums = [
        Sum(number, (), tuple(Entry(one, number) for one in data.draw(st.sets(st.sampled_from(every), max_size=5))))
        for number in range(1, data.draw(st.integers(0, 3)) + 1)
    ]
    found = merged(sums, markers)

    seen = {*markers, *(entry.decision for one in sums for entry in one.entries)}
    assert {b: e.decision.decided for b, e in found.items()} == {
        b: max(one.decided for one in seen if one.batch_id == b) for b in {one.batch_id for one in seen}
    }
    for entry in found.values():
        takers = [one.number for one in sums if entry.decision in {e.decision for e in one.entries}]
        assert entry.taken == min(takers, default=None)
    assert merged(reversed(sums), reversed(markers)) == found


def test_a_token_is_a_text_and_comes_back() -> None:
    token = Token(7, frozenset({("0198-ä", 3), ("b", 1)}))

    assert Token.parse(str(token)) == token
    assert " " not in str(token)
    many = Token(0, frozenset((f"0198{n:08x}", 1) for n in range(63)))
    assert len(str(many)) < 1000
    for text in ("", "2.abc", "1.!!", "1." + "A" * 8, str(token)[:-4]):
        with pytest.raises(ConfigurationError, match="token"):
            Token.parse(text)


def test_a_reader_that_finds_less_than_its_token_notices() -> None:
    token = Token(3, frozenset({("a", 2)}))

    assert told(decision("a", 2), number=3).reaches(token)
    assert told(decision("a", 3), number=4).reaches(token)
    assert not told(decision("a", 2), number=2).reaches(token)
    assert not told(decision("a", 1), number=3).reaches(token)
    assert not told(number=3).reaches(token)
