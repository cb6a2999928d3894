# SPDX-License-Identifier: Apache-2.0
"""Views: what a reader sees of the decisions that a root tells, and what is new since it last asked."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardbatch.core.decision import Decision
from shardbatch.core.sums import Entry, Sum, Token, Told, merged
from shardbatch.core.views import Wanted, changes, milliseconds, shown, wanted
from shardbatch.errors import ConfigurationError
from tests.support.roots import decision

HOUR = 3_600_000
NINE = (9 * HOUR, 10 * HOUR)


def told(*decisions: Decision, taken: int | None = None, number: int = 0) -> Told:
    return Told({one.batch_id: Entry(one, taken) for one in decisions}, number)


def ids(decisions: list[Decision]) -> list[str]:
    return [one.batch_id for one in decisions]


def test_live_readers_see_live_batches_and_of_the_intervals_only_those_that_join() -> None:
    root = told(
        decision("live"),
        decision("old", app=""),  # as version 0.1.0 told it
        decision("apart", interval=NINE, number=1),
        decision("join", interval=(0, HOUR), number=1, joins=True),
    )

    assert ids(shown(root, Wanted())) == ["join", "live", "old"]
    assert ids(shown(root, Wanted(interval=NINE))) == ["apart"]
    assert ids(shown(root, Wanted(interval=(0, HOUR)))) == ["join"]
    assert ids(shown(root, Wanted(interval=(9 * HOUR, 11 * HOUR)))) == []


@pytest.mark.parametrize("joins", [False, True])
def test_of_an_interval_the_highest_number_of_each_application_counts(joins: bool) -> None:
    root = told(
        decision("a", interval=NINE, number=1, joins=joins),
        decision("b", interval=NINE, number=2, joins=joins),
        decision("c", interval=NINE, number=2, joins=joins),
        decision("other", interval=NINE, number=1, joins=joins, app="etl/rejects"),
        decision("hour", interval=(0, HOUR), number=1, joins=joins),
    )

    assert ids(shown(root, Wanted(interval=NINE))) == ["b", "c", "other"]
    assert ids(shown(root, Wanted())) == (["b", "c", "hour", "other"] if joins else [])


def test_an_interval_that_was_taken_back_shows_nothing_and_not_the_run_before() -> None:
    root = told(decision("a", interval=NINE, number=1), decision("b", 2, empty=True, interval=NINE, number=2))

    assert [one.starts for one in shown(root, Wanted(interval=NINE))] == [()]


def test_batches_are_asked_for_by_arrival_commit_time_and_id() -> None:
    root = told(
        decision("a", min_arrival_ms=100, max_arrival_ms=199, committed_ms=250),
        decision("b", min_arrival_ms=200, max_arrival_ms=299, committed_ms=350),
        decision("old", app=""),
    )

    def asked(**more: object) -> list[str]:
        return ids(shown(root, wanted(**more)))  # type: ignore[arg-type]

    assert asked(since=200) == ["b", "old"]
    assert asked(since=199) == ["a", "b", "old"]
    assert asked(until=200) == ["a", "old"]
    assert asked(until=201) == ["a", "b", "old"]
    assert asked(since=199, until=200) == ["a", "old"]
    assert asked(committed_since=350) == ["b", "old"]
    assert asked(batches=["a", "none"]) == ["a"]
    assert asked(batches=[]) == []


def test_moments_have_a_time_zone_and_bounds_an_order() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert milliseconds(moment.astimezone(timezone(timedelta(hours=-5))), "since") == 1_767_225_600_000
    naive = datetime(2026, 1, 1)
    for arguments in (
        {"since": naive},
        {"until": naive},
        {"committed_since": naive},
        {"interval": (naive, moment)},
        {"since": "2026-01-01"},
        {"since": True},
        {"interval": (moment, moment)},
        {"interval": "ab"},
        {"interval": (1,)},
        {"batches": "abc"},
    ):
        with pytest.raises(ConfigurationError):
            wanted(**arguments)  # type: ignore[arg-type]


def test_without_a_token_everything_is_new_and_with_it_what_came_since() -> None:
    before = told(decision("a"), decision("b"))
    after = told(decision("a"), decision("b", 2), decision("c"))

    assert changes(before, Wanted(), None).batches == ("a", "b")
    assert changes(after, Wanted(), before.token).batches == ("b", "c")
    assert changes(after, Wanted(), after.token).batches == ()


def test_what_a_sum_took_in_since_is_new_only_if_it_was_not_seen_as_a_marker() -> None:
    before = Told({"a": Entry(decision("a"), 1), "b": Entry(decision("b"))}, 1)
    after = Told({"a": Entry(decision("a"), 1), "b": Entry(decision("b"), 2), "c": Entry(decision("c"), 2)}, 2)

    assert changes(after, Wanted(), before.token).batches == ("c",)


def test_a_batch_that_lost_its_output_is_listed_without_rows() -> None:
    first = told(
        decision("a", interval=NINE, number=1, joins=True), decision("apart", interval=(0, 9), number=1), decision("x")
    )
    later = told(
        decision("a", interval=NINE, number=1, joins=True),
        decision("apart", interval=(0, 9), number=1),
        decision("b", interval=NINE, number=2, joins=True),
        decision("x", 2, empty=True),
    )

    found = changes(later, Wanted(), first.token)

    assert found.batches == ("a", "b", "x")
    assert [(one.batch_id, len(one.starts)) for one in found.shown] == [("b", 1), ("x", 0)]
    assert changes(later, Wanted(), later.token).batches == ()


@given(st.permutations(range(6)), st.integers(0, 63))
def test_a_token_hands_out_each_decision_once(order: list[int], sums: int) -> None:
    every = [decision(batch_id, decided) for batch_id, decided in itertools.product("abc", (1, 2))]
    standing: list[Sum] = []
    markers: list[Decision] = []
    token, got = None, []
    for step, at in enumerate(order):
        markers.append(every[at])
        if sums >> step & 1:  # another writer sums up before the reader looks
            number = len(standing) + 1
            entries = merged(standing, markers).values()
            standing.append(Sum(number, (), tuple(Entry(e.decision, e.taken or number) for e in entries)))
        root = Told(merged(standing, markers), len(standing))
        new = changes(root, Wanted(), token)
        got.extend((one.batch_id, one.decided) for one in new.shown)
        held = {one[0]: one[1] for one in got}
        assert held == {b: e.decision.decided for b, e in root.entries.items()}
        token = Token.parse(str(root.token))
    assert len(got) == len(set(got))
