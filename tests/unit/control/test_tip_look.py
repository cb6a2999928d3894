# SPDX-License-Identifier: Apache-2.0
"""A sensor looks at the tips of an idle stream itself (PROTOCOL C9), and asks no more of the stream than it must."""

from __future__ import annotations

from typing import Any

import pytest

from shardbatch.control.questions import CommittedUpTo
from shardbatch.core.interval import MARGIN_MS
from shardbatch.core.owner import ResetHolder
from shardbatch.core.position import TRIM_HORIZON
from shardbatch.core.slice import Slice
from shardbatch.errors import Throttled
from tests.support.watched import HOUR, Watched

LOW, HIGH = "shardId-000000000000", "shardId-000000000001"


def idle_world() -> Watched:
    """Two shards, all of which is committed; an hour has passed since."""
    world = Watched()
    world.stream.put("a", shard_id=LOW)
    world.stream.put("b", shard_id=HIGH)
    world.enrol()
    world.commit()
    world.stream.now_ms += HOUR
    return world


def just_now(world: Watched) -> CommittedUpTo:
    """The latest instant that can be promised now."""
    return CommittedUpTo(world.stream.now_ms - MARGIN_MS)


def test_an_idle_stream_needs_no_run() -> None:
    world = idle_world()
    found = world.ask(just_now(world))
    assert found.reached
    assert found.told is not None
    assert found.told["watermark_ms"] == world.stream.now_ms - MARGIN_MS
    assert not world.ask(CommittedUpTo(world.stream.now_ms - MARGIN_MS + 1)).reached
    assert not world.ask(just_now(world), by_name=True).reached
    assert {str(world.row(name).committed_to) for name in (LOW, HIGH)} == {
        f"{world.stream.now_ms - HOUR}@{world.row(name).checkpoint}" for name in (LOW, HIGH)
    }, "a sensor writes nothing"


def test_a_record_that_nobody_has_read_holds_it_back_and_its_shard_is_named() -> None:
    world = idle_world()
    world.stream.put("c", shard_id=HIGH)
    found = world.ask(just_now(world))
    assert not found.reached
    assert f"a run has to read them: {HIGH}." in found.why


def test_the_instant_is_of_before_the_question() -> None:
    """What arrives while the answer is under way is not in it, so the answer does not promise it."""
    world = idle_world()
    read = world.stream.read

    def slow(*given: Any) -> Any:
        world.stream.now_ms += 1_000
        return read(*given)

    before = world.stream.now_ms
    world.stream.read = slow  # type: ignore[method-assign]
    found = world.ask(just_now(world))
    assert found.told is not None
    assert (found.reached, found.told["watermark_ms"]) == (True, before - MARGIN_MS)


@pytest.mark.parametrize(
    "change",
    [
        lambda world: world.change(LOW, lease_owner="someone", read_group="g"),
        lambda world: world.change(LOW, lease_owner="someone", note="read and given back"),
        lambda world: world.change(LOW, checkpoint=TRIM_HORIZON, committed_to=None),
        lambda world: world.change(LOW, completed=True),
        lambda world: world.change_application(reset_count=1),
    ],
)
def test_a_row_that_changes_meanwhile_does_not_count(change: Any) -> None:
    world = idle_world()
    world.meanwhile = lambda: change(world)
    assert not world.ask(just_now(world)).reached
    assert world.opened == 1


@pytest.mark.parametrize("at", [4, 5])
def test_both_looks_behind_the_tips_count(at: int) -> None:
    """Two looks at the rows alone, one from which the places are taken, and then two; a list is not a snapshot."""
    world, lists = idle_world(), []
    real = world.store.list

    def listed(*given: Any, **more: Any) -> Any:
        lists.append(given)
        if len(lists) == at:
            world.change(LOW, lease_owner="someone")
        return real(*given, **more)

    world.store.list = listed  # type: ignore[method-assign]
    assert not world.ask(just_now(world)).reached
    assert len(lists) == 5


PENDING = Slice(LOW, idle_world().row(LOW).checkpoint, idle_world().row(LOW).checkpoint, ended=False, records=0)


@pytest.mark.parametrize(
    "fields",
    [
        {"lease_owner": "someone"},
        {"pending": PENDING},
        {"pending": PENDING, "batch_id": "b-1"},
        {"checkpoint": TRIM_HORIZON, "checkpoint_arrival_ms": 1_700_000_000_000},
        {"lease_owner": str(ResetHolder("r-1"))},
    ],
)
def test_where_no_tip_can_help_the_stream_is_not_asked(fields: dict[str, Any]) -> None:
    world = idle_world()
    world.change(LOW, **fields)
    assert not world.ask(just_now(world)).reached
    assert world.opened == 0


def test_a_shard_of_which_nothing_is_known_is_not_asked() -> None:
    world = idle_world()
    world.change(LOW, committed_to=None)
    assert not world.ask(just_now(world)).reached
    assert world.opened == 0


def test_before_the_instant_is_over_the_stream_is_not_asked() -> None:
    world = idle_world()
    ahead = CommittedUpTo(4_000_000_000_000)
    assert not world.ask(ahead).reached
    assert world.opened == 0, "this machine's clock is enough for that"


def test_the_streams_clock_has_to_pass_the_instant_by_the_margin() -> None:
    world = idle_world()
    assert not world.ask(CommittedUpTo(world.stream.now_ms - MARGIN_MS + 1)).reached
    assert world.stream.reads == []


@pytest.mark.parametrize(("late_ms", "reached"), [(-1, True), (0, False)])
def test_a_bound_as_old_as_the_retention_does_not_count(late_ms: int, reached: bool) -> None:
    """Records may have come and expired since, and nothing would show it."""
    world = idle_world()
    # The bound is M before what was seen, and has to be younger than the retention less M.
    world.stream.now_ms += 23 * HOUR - 2 * MARGIN_MS + late_ms
    assert world.ask(just_now(world)).reached is reached


def test_a_retention_that_was_shortened_counts_at_once() -> None:
    world = idle_world()
    world.stream.retention /= 48
    assert not world.ask(just_now(world)).reached


def test_a_retention_that_was_shorter_in_between_counts() -> None:
    world = idle_world()
    world.change_application(gone_before_ms=world.stream.now_ms - HOUR // 2)
    assert not world.ask(just_now(world)).reached


def test_a_checkpoint_that_is_gone_is_no_tip() -> None:
    world = idle_world()
    world.stream.trim(LOW, keep=0)
    assert not world.ask(just_now(world)).reached


def test_a_shard_that_has_ended_is_no_tip() -> None:
    world = idle_world()
    world.stream.split(LOW)
    assert not world.ask(just_now(world)).reached


def test_another_stream_of_the_same_name_is_not_asked() -> None:
    world = idle_world()
    world.stream.created_ms += 1
    assert "not the one that the application has read" in world.ask(just_now(world)).why
    assert world.stream.reads == []


def test_without_a_key_space_new_shards_hold_it_back_so_tips_are_not_asked() -> None:
    """A stream of DynamoDB: only a claim can enrol what a listing shows (C4)."""
    world = idle_world()
    world.change_application(key_space=None, listed_whole_ms=world.stream.now_ms - HOUR)
    assert not world.ask(just_now(world)).reached
    assert world.opened == 0


def test_all_questions_of_a_look_share_the_tips() -> None:
    world = idle_world()
    for second in range(20):
        until = world.stream.now_ms - MARGIN_MS - second
        assert world.ask(CommittedUpTo(until), again=False).reached
    assert world.opened == 1
    assert len(world.stream.reads) == 2


def test_questions_of_one_look_that_need_other_shards_ask_for_them_and_pause_together() -> None:
    """A later instant needs a shard that has records; an earlier one does not, and shall not wait for it."""
    world = idle_world()
    world.stream.now_ms += HOUR
    world.commit(HIGH)
    world.stream.now_ms += HOUR
    world.stream.put("c", shard_id=HIGH)
    early = CommittedUpTo(world.stream.now_ms - HOUR - MARGIN_MS)
    assert not world.ask(just_now(world)).reached
    assert world.ask(early, again=False).reached
    world.time = 59.0
    before = len(world.stream.reads)
    assert f"has to read them: {HIGH}." in world.ask(just_now(world)).why
    assert len(world.stream.reads) == before, "it pauses"


def test_looks_that_find_records_are_followed_by_ever_longer_pauses() -> None:
    world = idle_world()
    world.stream.put("c", shard_id=HIGH)
    asked = []
    for minute in range(40):
        world.time = 60.0 * minute
        before = len(world.stream.reads)
        assert not world.ask(just_now(world)).reached
        asked += [minute] if len(world.stream.reads) > before else []
    assert asked == [0, 1, 3, 7, 15, 31]


def test_a_stream_that_cannot_be_asked_is_told_and_the_rows_count_on() -> None:
    world = idle_world()
    world.meanwhile = lambda: (_ for _ in ()).throw(Throttled("Busy."))  # type: ignore[assignment,return-value]
    found = world.ask(just_now(world))
    assert (found.reached, found.never) == (False, False)
    assert "could not be asked for its tips: Busy." in found.why
    assert world.ask(CommittedUpTo(world.stream.now_ms - HOUR - MARGIN_MS)).reached


def test_one_shard_that_cannot_be_read_holds_back_only_itself() -> None:
    world = idle_world()
    world.stream.failing[LOW] = Throttled("Busy.")
    assert f"has to read them: {LOW}." in world.ask(just_now(world)).why


def test_it_is_only_asked_of_the_shards_that_hold_it_back() -> None:
    world = idle_world()
    world.commit(HIGH)
    assert world.ask(just_now(world)).reached
    assert [name for name, _ in world.stream.reads] == [LOW]
