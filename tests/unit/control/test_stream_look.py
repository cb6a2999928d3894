# SPDX-License-Identifier: Apache-2.0
"""A stream along the path of a look: asked once for all questions, and its tips believed only where they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from shardbatch.control.shared_look import Look
from shardbatch.control.stream_look import MOST_PAGES, StreamLook
from shardbatch.core.interval import CLOCKS_APART_MS
from shardbatch.core.ports import Clock, Page
from shardbatch.core.position import Position, after
from shardbatch.errors import StreamNotFound, Throttled
from tests.support.scripted import ScriptedStream

A, B = "shardId-000000000000", "shardId-000000000001"
ME = Clock(now_ms=lambda: 9_000_000, monotonic=lambda: 0.0, sleep=lambda seconds: None)


class There:
    """A stream of two shards with one record each, and what was asked of it."""

    def __init__(self) -> None:
        self.stream = ScriptedStream(shards=2)
        self.places = {name: after(self.stream.put("a", shard_id=name)[0]) for name in (A, B)}
        self.look, self.opened, self.closed = Look(), 0, 0

    @contextmanager
    def open(self) -> Iterator[ScriptedStream]:
        self.opened += 1
        yield self.stream
        self.closed += 1

    def question(self) -> StreamLook:
        return StreamLook(self.look.path(), "orders", self.open, self.look.rest, ME)

    def tips(self) -> set[str]:
        self.look = Look()
        with closing(self.question()) as asked:
            return set(asked.tips(self.places, 5).places)


def test_it_is_opened_at_the_first_read_that_nobody_has_made_and_closed() -> None:
    there = There()
    with closing(there.question()):
        pass
    assert there.opened == 0
    for _ in range(3):
        with closing(there.question()) as asked:
            assert [shard.shard_id for shard in asked.listing().shards] == [A, B]
            assert asked.identity() == there.stream.identity()
            assert asked.clock_ms() == there.stream.now_ms
            assert asked.open_at(0) == ()
    assert (there.opened, there.closed) == (1, 1)


def test_a_listing_behind_another_is_a_new_one() -> None:
    there = There()
    with closing(there.question()) as asked:
        first = asked.listing()
        there.stream.split(A)
        assert (len(first.shards), len(asked.listing().shards)) == (2, 4)


def test_without_a_clock_of_its_own_it_is_this_machines_less_what_clocks_differ() -> None:
    there = There()
    there.stream.clock_ms = lambda: None  # type: ignore[method-assign]
    with closing(there.question()) as asked:
        assert asked.clock_ms() == 9_000_000 - CLOCKS_APART_MS


def test_shards_with_nothing_behind_their_places_are_at_their_tips() -> None:
    there = There()
    assert there.tips() == {A, B}
    there.stream.put("b", shard_id=B)
    assert there.tips() == {A}


@pytest.mark.parametrize("what", ["ended", "gone", "expired", "refused"])
def test_what_shows_no_tip_is_none(what: str) -> None:
    there = There()
    if what == "ended":
        there.stream.split(A)
    elif what == "gone":
        there.stream.forget(A)
    elif what == "expired":
        there.stream.trim(A, keep=0)
    else:
        there.stream.failing[A] = Throttled("Busy.")
    assert there.tips() == {B}


def test_a_stream_that_is_gone_is_an_error() -> None:
    there = There()
    there.stream.failing[A] = StreamNotFound("It is gone.")
    with pytest.raises(StreamNotFound):
        there.tips()


@pytest.mark.parametrize("moved", [False, True])
def test_a_read_that_finds_neither_records_nor_the_tip_is_given_up(moved: bool) -> None:
    """A service may give empty answers for long; one that moved on has left records out."""
    there, asked = There(), []

    def read(shard_id: str, position: Position) -> Iterator[Page]:
        while True:
            asked.append(shard_id)
            place = after("999999") if moved else position
            yield Page(there.stream._batch([]), place, at_tip=moved, lag_ms=None if moved else 7)

    there.stream.read = read  # type: ignore[method-assign]
    assert there.tips() == set()
    assert len(asked) == 2 * (1 if moved else MOST_PAGES)


def test_a_clock_is_told_of_the_stream_that_is_meant() -> None:
    there = There()
    with closing(there.question()) as asked:
        assert asked.clock_of(there.stream.identity()) == there.stream.now_ms
    there.look = Look()
    with closing(there.question()) as asked:
        assert asked.clock_of("another stream") is None


def test_a_look_that_missed_something_is_followed_by_a_pause_in_which_the_stream_is_not_opened() -> None:
    there = There()
    with closing(there.question()) as asked:
        assert asked.rest() == ""
        asked.looked("s-1 has records.")
    there.look = Look(there.look.rest)
    with closing(there.question()) as asked:
        assert asked.rest() == "s-1 has records."
    assert there.opened == 0


def test_a_pause_begins_once_for_all_questions_of_a_look() -> None:
    there, pauses = There(), set()
    for _ in range(5):
        with closing(there.question()) as asked:
            assert asked.rest() == ""
            asked.looked("s-1 has records.")
        pauses.add(there.look.rest._pause_s)
    assert pauses == {60.0}
