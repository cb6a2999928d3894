# SPDX-License-Identifier: Apache-2.0
"""Which starts count: the application that a task has seen end, and the tasks that a commit goes by."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from shardbatch.core.position import SHARD_END, TRIM_HORIZON, Position, after, at_timestamp, lowest
from shardbatch.core.start import Begun, EndRecord, Left, Start, Work, choose, resolve
from shardbatch.errors import NothingFinished, StartUnfinished


def begun(start_id: str, token: str = "t1", incarnation: str = "i1", attempt: int = 1, number: int = 0) -> Begun:
    return Begun(start_id, attempt, "load", token, incarnation, number)


def done(*start_ids: str) -> dict[str, Start]:
    return {start_id: Start(start_id, 1, "load", ("out",)) for start_id in start_ids}


def resolved(*starts: Begun, ended: str = "", token: str = "t1", sure: bool = True) -> list[str]:
    found = resolve("load", 1, token, starts, done(*ended.split()), sure=sure)
    return [start.start_id for start in found]


def test_all_blocks_of_an_application_count() -> None:
    assert resolved(begun("a"), begun("b"), ended="b a") == ["a", "b"]


def test_an_application_of_another_try_or_attempt_does_not_count() -> None:
    others = begun("z", token="t0"), begun("y", token="t2", incarnation="i9"), begun("x", attempt=2)
    assert resolved(*others, begun("a"), ended="a x y z") == ["a"]


def test_an_application_that_its_cluster_began_again_counts_as_it_ran_last() -> None:
    first, second = begun("a", incarnation="i1", number=1), begun("b", incarnation="i0", number=2)
    assert resolved(first, second, ended="a b") == ["b"]  # a cluster's numbers, where it has some
    assert resolved(begun("a", incarnation="i1"), begun("b", incarnation="i2"), ended="a b") == ["b"]


def test_a_process_that_lives_on_behind_its_successor_does_not_count_however_late_it_begins_a_block() -> None:
    assert resolved(begun("z", incarnation="i1"), begun("b", incarnation="i2"), ended="b z") == ["b"]


def test_a_block_that_was_not_left_well_is_an_error_that_can_be_tried_again() -> None:
    with pytest.raises(StartUnfinished) as caught:
        resolved(begun("a"), begun("b"), ended="a")
    assert caught.value.retryable


def test_what_an_earlier_process_left_half_does_not_matter() -> None:
    assert resolved(begun("a", incarnation="i1"), begun("b", incarnation="i2"), ended="b") == ["b"]


def test_an_application_that_enters_no_block_has_no_start() -> None:
    assert resolved() == []
    assert resolved(begun("z", token="t0"), ended="z", sure=True) == []


def test_a_job_that_was_taken_up_again_without_the_token_is_that_of_an_earlier_try() -> None:
    assert resolved(begun("z", token="t0"), ended="z", sure=False) == ["z"]
    assert resolved(begun("z", token="t0"), begun("y", token="t2"), ended="y z", sure=False) == ["z"]


def test_starts_without_a_token_count_where_none_was_handed_down() -> None:
    older, newer = begun("a", token="", incarnation="i1"), begun("b", token="", incarnation="i2")
    assert resolved(older, newer, ended="a b", token="", sure=False) == ["b"]
    assert resolved(older, ended="a", token="t1", sure=False) == ["a"]


def test_numbers_of_a_cluster_are_compared_within_one_submission_only() -> None:
    old = begun("a", token="t0", incarnation="i1", number=5)
    new = begun("b", token="t1", incarnation="i2", number=1)
    assert resolved(old, new, ended="a b", token="t2", sure=False) == ["b"]


def test_an_application_that_was_told_no_token_is_no_other_trys() -> None:
    assert resolved(begun("a", token=""), begun("z", token="t0"), ended="a z", sure=True) == ["a"]  # an older library


def test_a_job_that_a_try_submitted_again_is_the_one_that_counts_whatever_its_cluster_numbers() -> None:
    first = Begun("a", 1, "load", "t1", "i1", 1, "app-1"), Begun("b", 1, "load", "t1", "i2", 2, "app-1")
    again = Begun("c", 1, "load", "t1", "i3", 1, "app-2")
    assert resolved(*first, again, ended="b c") == ["c"]
    assert resolved(*first, ended="b") == ["b"]


# ------------------------------------------------------------------ what a commit takes


def ended(attempt: int, number: int, *start_ids: str, work: str = "load") -> EndRecord:
    starts = tuple(Start(start_id, attempt, work, ("out",)) for start_id in start_ids)
    return EndRecord(work, attempt, number, f"t{number}", starts)


def chosen(left: Mapping[str, Left], attempt: int, *works: Work, own_sink: bool = False) -> list[str]:
    found = choose(works or (Work("load"),), left, attempt, own_sink=own_sink)
    return [start.start_id for start in found.starts]


def test_of_the_tries_of_an_attempt_the_last_counts() -> None:
    left = {"load": Left((ended(1, 2, "b"), ended(1, 1, "a", "z")), frozenset({1}))}
    assert chosen(left, 1) == ["b"]


def test_a_later_attempt_counts_however_late_the_end_of_an_older_one_is_written() -> None:
    left = {"load": Left((ended(2, 2, "b"), ended(1, 9, "z")), frozenset({1, 2}))}
    assert chosen(left, 2) == ["b"]


def test_a_commit_that_was_cleared_alone_takes_what_stands() -> None:
    assert chosen({"load": Left((ended(1, 1, "a"),), frozenset({1}))}, 3) == ["a"]  # V22


def test_a_commit_publishes_nothing_of_an_attempt_above_its_own() -> None:
    for left in (
        Left((ended(1, 1, "a"), ended(2, 2, "b")), frozenset({1, 2})),
        Left((ended(1, 1, "a"),), frozenset({2})),
    ):
        with pytest.raises(NothingFinished, match="attempt 2 already"):
            chosen({"load": left}, 1)


def test_works_that_do_not_stand_in_the_block_do_not_count() -> None:
    left = {"load": Left((ended(2, 2, "b"),)), "renamed": Left((ended(1, 1, "a", work="renamed"),))}
    assert chosen(left, 2, Work("load")) == ["b"]


def test_every_work_of_the_block_counts_with_all_its_starts() -> None:
    left = {"load": Left((ended(1, 1, "a"),)), "m[0]": Left((ended(1, 1, "c", "d", work="m[0]"),))}
    assert chosen(left, 1, Work("m[0]"), Work("load")) == ["a", "c", "d"]


def test_a_work_that_a_person_marked_while_its_application_had_begun_is_refused() -> None:
    for left in (Left((), frozenset({2})), Left((ended(1, 1, "a"),), frozenset({1, 2}))):
        with pytest.raises(NothingFinished, match="by hand"):
            chosen({"load": left}, 2)  # V23
        assert chosen({"load": left}, 2, own_sink=True) == []


def test_a_work_that_left_nothing_counts_only_if_it_may_have_been_given_the_batch() -> None:
    with pytest.raises(NothingFinished, match="by hand"):
        chosen({}, 1)
    found = choose([Work("tell", given=False), Work("join", runs=False)], {}, 1)
    assert (found.starts, found.entered, found.passed_over) == ((), False, ("tell",))


def test_a_task_that_airflow_never_runs_does_not_count_unless_it_has_begun_a_start() -> None:
    assert choose([Work("join", runs=False)], {}, 1).passed_over == ()
    with pytest.raises(NothingFinished, match="by hand"):
        choose([Work("join", runs=False)], {"join": Left((), frozenset({1}))}, 1)


def test_a_work_that_entered_a_block_without_asking_for_output_counts() -> None:
    left = {"load": Left((EndRecord("load", 1, 1, "t", (Start("a", 1, "load"),)),))}
    found = choose([Work("load")], left, 1)
    assert (found.entered, [start.outputs for start in found.starts]) == (True, [()])


def test_records_and_markers_survive_their_text() -> None:
    for mark in (begun("a", number=3), Start("a", 1, "load", ("out",)), ended(1, 2, "a", "b")):
        assert type(mark).from_json({**mark.to_json(), "later": 1}) == mark


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (after("5"), after("9"), after("5")),
        (after("5"), SHARD_END, after("5")),
        (at_timestamp(5), at_timestamp(9), at_timestamp(5)),
        (at_timestamp(5), TRIM_HORIZON, TRIM_HORIZON),
        (at_timestamp(5), after("9"), TRIM_HORIZON),  # nobody can tell which comes first
    ],
)
def test_the_lowest_of_two_positions_is_behind_neither(one: Position, other: Position, expected: Position) -> None:
    assert lowest(one, other) == lowest(other, one) == expected
