# SPDX-License-Identifier: Apache-2.0
"""What a stream says of places, asked with a few calls."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardbatch.control.place_look import Seen, look, look_at_all
from shardbatch.core.ports import Page
from shardbatch.core.position import TRIM_HORIZON, Position, after
from shardbatch.errors import SourceError, StreamNotFound, Throttled
from tests.support.scripted import ScriptedStream


@pytest.fixture
def stream() -> ScriptedStream:
    return ScriptedStream(shards=2)


def test_the_first_record_behind_a_place_is_seen(stream: ScriptedStream) -> None:
    one, two = stream.shards
    first, second, third = stream.put("a", "b", "c", shard_id=one)
    assert look(stream, one, after(first)) == Seen(second)
    assert look(stream, one, TRIM_HORIZON) == Seen(first)
    assert look(stream, one, after(third)) == Seen()
    assert look(stream, two, TRIM_HORIZON) == Seen()
    assert look_at_all(stream, [(one, after(second)), (two, TRIM_HORIZON)]) == {one: Seen(third), two: Seen()}
    assert look_at_all(stream, []) == {}


def test_a_place_whose_record_has_expired_is_seen(stream: ScriptedStream) -> None:
    one, _ = stream.shards
    first, *_, last = stream.put("a", "b", "c", shard_id=one)
    stream.trim(one, 1)
    assert look(stream, one, after(first)) == Seen(last, trimmed=True)


def test_a_shard_that_ended_or_is_gone_has_nothing(stream: ScriptedStream) -> None:
    one, _ = stream.shards
    stream.split(one)
    assert look(stream, one, TRIM_HORIZON) == Seen()
    stream.forget(one)
    assert look(stream, one, TRIM_HORIZON) == Seen()


def test_only_what_no_retry_can_change_is_said_of_a_place(stream: ScriptedStream) -> None:
    one, _ = stream.shards
    stream.failing[one] = SourceError("It is a place of another shard.", retryable=False)
    assert "another shard" in look(stream, one, TRIM_HORIZON).refused
    for error in (StreamNotFound("gone"), Throttled("busy")):
        stream.failing[one] = error
        with pytest.raises(type(error)):
            look(stream, one, TRIM_HORIZON)


def test_answers_that_tell_nothing_are_passed_over_and_the_read_is_closed() -> None:
    closed: list[bool] = []

    class Refusing(ScriptedStream):
        def read(self, shard_id: str, position: Position) -> object:  # type: ignore[override]
            try:
                page: Page = next(super().read(shard_id, position))
                yield replace(page, records=page.records.slice(0, 0), silent=True, at_tip=False)
                yield replace(page, records=page.records.slice(0, 0), checkpoint_gone=True, at_tip=False)
                yield page
            finally:
                closed.append(True)

    stream = Refusing()
    (one,) = stream.shards
    (first,) = stream.put("a")
    assert look(stream, one, TRIM_HORIZON) == Seen(first, trimmed=True)
    assert closed == [True]
