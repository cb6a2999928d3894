# SPDX-License-Identifier: Apache-2.0
"""What sensors ask of single shards: an answer that holds whatever a listing lacks, and an error that names them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from shardbatch.control.questions import Answer, Question, question_of
from shardbatch.control.shard_questions import LineageComplete, ShardsEnded
from shardbatch.core.choices import ShardEnd
from shardbatch.core.owner import ResetHolder
from shardbatch.core.ports import Capabilities
from shardbatch.core.position import SHARD_END, TRIM_HORIZON
from shardbatch.core.shard import Shard
from shardbatch.core.slice import Slice
from shardbatch.errors import StreamRecreated
from tests.support.watched import Watched

A, B, C, D, E = (f"shardId-{number:012d}" for number in range(5))
CLOSED, COMPLETED = ShardEnd.CLOSED, ShardEnd.COMPLETED


@pytest.fixture
def world() -> Watched:
    """Two open shards that have rows."""
    made = Watched()
    made.enrol()
    return made


def ended(*names: str, state: str = CLOSED, **fields: Any) -> ShardsEnded:
    return ShardsEnded(names, state=state, **fields)


def reached(found: Answer) -> bool:
    assert not found.never, found.why
    return found.reached


def lacking(world: Watched, *names: str, torn: str = "", times: int = 99) -> None:
    """The next listings lack these shards, and say what they lack if they can know it."""
    left, real = [times], world.stream.list_shards

    def listed() -> list[Shard]:
        left[0] -= 1
        return [shard for shard in real() if left[0] < 0 or shard.shard_id not in names]

    world.stream.list_shards = listed  # type: ignore[method-assign]
    world.stream.missing = lambda listing: torn if left[0] >= 0 else ""  # type: ignore[method-assign]


# closed


def test_a_shard_is_closed_when_the_stream_says_so(world: Watched) -> None:
    found = world.ask(ended(A, B))
    assert (reached(found), found.why) == (False, f"Not closed yet: {A}, {B}.")
    world.stream.split(A)
    found = world.ask(ended(A, B))
    assert (reached(found), found.why) == (False, f"Not closed yet: {B}.")
    world.stream.split(B)
    found = world.ask(ended(A, B))
    assert reached(found)
    assert found.told == {"shards": [A, B], "state": "closed"}


@pytest.mark.parametrize("shown", ["completed", "landed to its end", "a child's row"])
def test_what_the_rows_say_needs_no_listing(world: Watched, shown: str) -> None:
    if shown == "completed":
        world.change(A, completed=True, checkpoint=SHARD_END)
    elif shown == "landed to its end":
        world.change(A, pending=Slice(A, TRIM_HORIZON, SHARD_END, ended=True, records=0))
    else:
        world.enrol(world.stream.split(A)[0])
    assert reached(world.ask(ended(A), by_name=True))
    assert reached(world.ask(ended(A)))
    assert world.opened == 0


def test_a_child_in_the_listing_closes_its_parent(world: Watched) -> None:
    """Between two pages of a listing a reshard may show the children, and the parent still open."""
    world.stream.split(A)
    world.stream.shards[A].closed = False
    assert reached(world.ask(ended(A)))


def test_a_shard_that_is_listed_no_more_is_closed_if_two_complete_listings_lack_it(world: Watched) -> None:
    lacking(world, A, times=1)
    assert not reached(world.ask(ended(A))), "one listing may lack a shard by mistake"
    lacking(world, A, torn="It has a hole.")
    found = world.ask(ended(A))
    assert (reached(found), "It has a hole." in found.why) == (False, True)
    lacking(world, A)
    assert reached(world.ask(ended(A)))


def test_a_shard_that_was_known_at_the_first_look_and_is_gone_is_closed(world: Watched) -> None:
    new, other = world.stream.split(A)
    first = world.ask(ended(new))
    assert (reached(first), isinstance(first.then, ShardsEnded)) == (False, True)
    for name in (new, other):
        world.stream.forget(name)
    assert isinstance(first.then, ShardsEnded)
    world.stream.missing = lambda listing: ""  # type: ignore[method-assign]
    assert reached(world.ask(first.then))


def test_a_shard_that_nobody_knows_fails_at_the_first_look(world: Watched) -> None:
    found = world.ask(ended(A, "shardId-000000000077"))
    assert (found.reached, found.never) == (False, True)
    assert found.why.startswith("shardId-000000000077: not known by the application or by the stream. Check the ids.")
    by_name = world.ask(ended(C, state=COMPLETED), by_name=True)
    assert (by_name.never, "give the stream itself" in by_name.why) == (True, True)


def test_a_shard_that_an_incomplete_listing_lacks_is_waited_for(world: Watched) -> None:
    new, _ = world.stream.split(A)
    lacking(world, new, torn="It has a hole.", times=2)
    found = world.ask(ended(new))
    assert (found.never, found.reached, found.then) == (False, False, None)
    assert new in found.why
    assert world.ask(ended(new)).then is not None


@pytest.mark.parametrize("seen", ["row", "listing"])
def test_a_parent_that_only_a_child_names_was_known(world: Watched, seen: str) -> None:
    child, other = world.stream.split(A)
    world.store.delete(world.row(A))
    world.stream.forget(A)
    if seen == "row":
        world.enrol(child)
        world.stream.forget(child)
        world.stream.forget(other)
        world.stream.missing = lambda listing: ""  # type: ignore[method-assign]
    assert reached(world.ask(ended(A)))


# completed


def test_a_shard_is_completed_when_all_of_it_is_committed(world: Watched) -> None:
    world.stream.split(A)
    found = world.ask(ended(A, state=COMPLETED))
    assert (reached(found), found.why) == (False, f"Not completed yet: {A}.")
    world.change(A, pending=Slice(A, TRIM_HORIZON, SHARD_END, ended=True, records=0))
    assert not reached(world.ask(ended(A, state=COMPLETED)))
    world.change(A, pending=None)
    world.commit(A)
    assert reached(world.ask(ended(A, state=COMPLETED)))
    assert world.opened == 0


def test_a_shard_that_a_reset_holds_is_not_completed(world: Watched) -> None:
    world.stream.split(A)
    world.commit(A)
    world.change(A, lease_owner=str(ResetHolder("r-1")))
    assert not reached(world.ask(ended(A, state=COMPLETED)))


def test_a_new_shard_without_a_row_is_waited_for(world: Watched) -> None:
    new, _ = world.stream.split(A)
    found = world.ask(ended(new, state=COMPLETED))
    assert (reached(found), f"{new}: no row yet" in found.why) == (False, True)


def test_a_shard_that_left_the_stream_unread_fails(world: Watched) -> None:
    """It can never be completed, and nobody shall take its records for read."""
    child, _ = world.stream.split(A)
    world.store.delete(world.row(A))
    world.stream.forget(A)
    world.enrol(child)
    found = world.ask(ended(A, state=COMPLETED))
    assert (found.never, "it was never read" in found.why, A in found.why) == (True, True, True)
    lacking(world, A, torn="It has a hole.")
    assert not world.ask(ended(A, state=COMPLETED)).never, "an incomplete listing may lack it"


# all that were open at an instant


def test_the_shards_that_were_open_at_an_instant_are_settled_once(world: Watched) -> None:
    instant = world.stream.now_ms
    world.stream.now_ms += 1_000
    left, right = world.stream.split(A)
    first = world.ask(ended(open_at_ms=instant))
    assert (reached(first), first.why) == (False, f"Not closed yet: {B}.")
    assert first.then == ended(A, B, fixed=True)
    world.stream.now_ms += 1_000
    world.stream.split(B)
    assert isinstance(first.then, ShardsEnded)
    assert reached(world.ask(first.then))
    late = world.ask(ended(open_at_ms=world.stream.now_ms - 500))
    assert late.then == ended(B, left, right, fixed=True)


def test_a_service_that_does_not_tell_leaves_those_that_are_open_or_not_completed(world: Watched) -> None:
    world.stream.tells_open = False
    instant = world.stream.now_ms
    world.stream.now_ms += 1_000
    left, right = world.stream.split(A)
    assert world.ask(ended(open_at_ms=instant)).then == ended(B, left, right, fixed=True)
    found = world.ask(ended(open_at_ms=instant, state=COMPLETED))
    assert found.then == ended(A, B, left, right, state=COMPLETED, fixed=True), "A is closed, and not read"
    world.commit(A)
    found = world.ask(ended(open_at_ms=instant, state=COMPLETED))
    assert found.then == ended(B, left, right, state=COMPLETED, fixed=True)


def test_a_shard_of_then_that_left_the_stream_has_to_be_completed_too(world: Watched) -> None:
    instant = world.stream.now_ms
    world.stream.now_ms += 1_000
    world.stream.split(A)
    world.stream.forget(A)
    assert world.ask(ended(open_at_ms=instant)).then == ended(B, fixed=True)
    found = world.ask(ended(open_at_ms=instant, state=COMPLETED))
    assert found.then == ended(A, B, state=COMPLETED, fixed=True)


def test_an_instant_that_cannot_be_told_fails(world: Watched) -> None:
    ahead = world.ask(ended(open_at_ms=world.stream.now_ms + 1_000))
    assert (ahead.never, "lies ahead of the stream's clock" in ahead.why) == (True, True)
    early = world.ask(ended(open_at_ms=world.stream.now_ms - 1))
    assert (early.never, "No shard was open" in early.why) == (True, True), "of no shard everything would be true"
    by_name = world.ask(ended(open_at_ms=world.stream.now_ms), by_name=True)
    assert (by_name.never, "Give the stream itself" in by_name.why) == (True, True)


def test_an_incomplete_listing_settles_nothing(world: Watched) -> None:
    lacking(world, B, torn="It has a hole.", times=1)
    found = world.ask(ended(open_at_ms=world.stream.now_ms))
    assert (reached(found), found.then, "It has a hole." in found.why) == (False, None, True)
    assert world.ask(ended(open_at_ms=world.stream.now_ms)).then == ended(A, B, fixed=True)


def test_another_stream_of_the_same_name_answers_nothing(world: Watched) -> None:
    world.stream.created_ms += 1
    for question in (ended(A), ended(open_at_ms=world.stream.now_ms), LineageComplete((C,))):
        with pytest.raises(StreamRecreated):
            world.ask(question)


# a reshard


def complete(world: Watched, *parents: str) -> Answer:
    return world.ask(LineageComplete(parents))


def test_a_split_is_complete_when_its_children_have_rows_and_the_parent_is_completed(world: Watched) -> None:
    left, right = world.stream.split(A)
    assert complete(world, A).why == f"Not completed yet: {A}."
    assert world.opened == 0, "no listing is needed for that"
    world.commit(A)
    world.enrol(left)
    found = complete(world, A)
    assert (reached(found), f"{A}: no row that follows it has the keys" in found.why) == (False, True)
    world.enrol(right)
    found = complete(world, A)
    assert reached(found)
    assert found.told == {"parents": [A], "children": [left, right]}


def test_a_merge_is_complete_for_each_of_its_parents(world: Watched) -> None:
    child = world.stream.merge(A, B)
    world.commit(A, B)
    world.enrol(child)
    assert reached(complete(world, A, B))
    assert reached(complete(world, A))
    world.change(B, completed=False)
    assert complete(world, A, B).why == f"Not completed yet: {B}."


def test_later_generations_count(world: Watched) -> None:
    """The child was split again before a claim saw it, or has left the stream since."""
    left, right = world.stream.split(A)
    first, second = world.stream.split(left)
    world.commit(A)
    world.enrol(right, first)
    assert not reached(complete(world, A))
    world.enrol(second)
    assert reached(complete(world, A))
    world.enrol(left)
    world.stream.forget(left)
    assert reached(complete(world, A)), "the rows still show that they come from it"


def test_a_child_of_which_no_keys_are_known_covers_none(world: Watched) -> None:
    """Its row does not have them, and it has left the stream."""
    left, right = world.stream.split(A)
    world.stream.split(left)
    world.commit(A)
    world.enrol(left, hash_range=None)
    world.enrol(right)
    world.stream.forget(left)
    assert f"{A}: no row that follows it has the keys" in complete(world, A).why


def test_the_listing_has_to_show_them_as_well(world: Watched) -> None:
    left, right = world.stream.split(A)
    world.commit(A)
    world.enrol(left, right)
    lacking(world, left, torn="It has a hole.", times=1)
    assert complete(world, A).why == "Waits for a complete listing: It has a hole."
    lacking(world, left)
    assert f"{A}: no listed shard that follows it has the keys" in complete(world, A).why


def test_a_parent_that_a_reset_holds_is_not_completed(world: Watched) -> None:
    world.enrol(*world.stream.split(A))
    world.commit(A)
    world.change(A, lease_owner=str(ResetHolder("r-1")))
    assert not reached(complete(world, A))


def test_a_parent_that_nobody_has_fails_and_a_new_one_waits(world: Watched) -> None:
    new, _ = world.stream.split(A)
    assert complete(world, new).why == f"Not completed yet: {new}."
    found = complete(world, "shardId-000000000077")
    assert (found.never, "shardId-000000000077" in found.why) == (True, True)
    assert world.ask(LineageComplete((A,)), by_name=True).never


class Table:
    """Makes a scripted stream one without ranges of keys, as that of a DynamoDB table is."""

    def __init__(self, world: Watched) -> None:
        self.leaves: set[str] = set()
        world.stream.capabilities = replace(world.stream.capabilities, key_space=None)  # type: ignore[misc]
        real = world.stream.list_shards
        world.stream.list_shards = lambda: [  # type: ignore[method-assign]
            replace(shard, hash_range=None, leaf=shard.shard_id in self.leaves) for shard in real()
        ]
        world.stream.missing = lambda listing: ""  # type: ignore[method-assign]


def test_without_ranges_a_child_has_to_be_listed_and_each_child_has_a_row(world: Watched) -> None:
    table = Table(world)
    world.stream.shards[A].closed = True
    world.commit(A)
    assert complete(world, A).why == f"{A}: no child of it is listed yet."
    table.leaves.add(A)
    assert reached(complete(world, A)), "its stream was disabled, so none will come"
    table.leaves.clear()
    world.stream.shards[A].closed = False
    left, right = world.stream.split(A)
    assert complete(world, A).why == f"{A}: {left}, {right} have no row yet, which the next claim adds."
    world.enrol(left)
    assert complete(world, A).why == f"{A}: {right} have no row yet, which the next claim adds."
    world.enrol(right)
    assert reached(complete(world, A))


def test_without_ranges_a_child_that_one_of_two_listings_lacks_counts(world: Watched) -> None:
    Table(world)
    left, right = world.stream.split(A)
    world.commit(A)
    world.enrol(left)
    lacking(world, right, times=1)
    assert right in complete(world, A).why


def test_a_stream_without_lineage_is_refused(world: Watched) -> None:
    world.stream.capabilities = Capabilities(lineage=False, instants=False, arrival_times=True)  # type: ignore[misc]
    world.commit(A)
    world.change(A, completed=True)
    assert complete(world, A).never


@pytest.mark.parametrize(
    "question",
    [ended(A, B), ended(A, state=COMPLETED, fixed=True), ended(open_at_ms=5), LineageComplete((A, B))],
)
def test_a_question_is_literals_and_back(question: Question) -> None:
    assert question_of(json.loads(json.dumps(question.to_json()))) == question
