# SPDX-License-Identifier: Apache-2.0
"""Slices: their text on a lease row, and two in a row as one."""

from __future__ import annotations

from dataclasses import replace

from shardbatch.core.position import SHARD_END, TRIM_HORIZON, after
from shardbatch.core.slice import Gap, LandedFile, Oddities, Slice, gaps_of_text, gaps_to_text
from shardbatch.core.waiting import Waiting

GAPS = (Gap(after("3")), Gap(after("5"), "7", 8, 9, "why", "ann", after("6")))
SLICE = Slice(
    "s", TRIM_HORIZON, after("9"), False, (LandedFile("p/0", 2, 30),), 2, 10, "9", 1, 2, 5, 6, ("c",),
    GAPS, Oddities(1, 2, 3, 4), 1, 2, Waiting(1.5, 2, 3),
)  # fmt: skip


def test_a_slice_survives_its_text_and_passes_over_later_fields() -> None:
    assert Slice.loads(SLICE.dumps()) == SLICE
    assert Slice.from_json({**SLICE.to_json(), "later": 1}) == SLICE


def test_gaps_survive_their_text_and_none_has_none() -> None:
    assert gaps_of_text(gaps_to_text(GAPS)) == GAPS
    assert gaps_to_text(()) is None
    assert gaps_of_text(None) == ()


def test_a_slice_of_an_earlier_version_has_its_one_gap() -> None:
    stored = {key: value for key, value in SLICE.to_json().items() if key != "gaps"}
    assert Slice.from_json(stored).gaps == GAPS[:1]
    assert Slice.from_json({**stored, "gap": None}).gaps == ()


def test_a_slice_says_something_new_once_it_has_a_record_an_end_a_gap_or_a_place() -> None:
    nothing = Slice("s", after("9"), after("9"), False, millis_behind_latest=0, caught_up_ms=7)
    assert nothing.empty
    for more in ({"records": 1}, {"ended": True}, {"gaps": GAPS}, {"until": after("10")}):
        assert not replace(nothing, **more).empty  # type: ignore[arg-type]


def test_two_slices_in_a_row_are_one() -> None:
    rest = Slice(
        "s", after("9"), SHARD_END, True, (LandedFile("p/1", 3, 40),), 3, 20, "30", 3, 8, None, None, ("d",),
        (), Oddities(0, 0, 0, 1), 0, 9, Waiting(0.5, 1, 0),
    )  # fmt: skip
    whole = SLICE.followed_by(rest)
    assert (whole.after, whole.until, whole.ended, whole.children) == (TRIM_HORIZON, SHARD_END, True, ("d",))
    assert (whole.files, whole.records, whole.raw_bytes, whole.last) == (SLICE.files + rest.files, 5, 30, "30")
    assert (whole.first_arrival_ms, whole.last_arrival_ms) == (1, 8)
    assert (whole.min_arrival_ms, whole.max_arrival_ms, whole.caught_up_ms) == (0, 9, 6)
    assert (whole.oddities, whole.waiting) == (Oddities(1, 2, 3, 5), Waiting(2.0, 3, 3))
    assert whole.gaps == GAPS


def test_what_follows_without_a_record_leaves_what_is_known_of_the_last_one() -> None:
    whole = SLICE.followed_by(Slice("s", after("9"), after("9"), False))
    assert (whole.last, whole.first_arrival_ms, whole.last_arrival_ms) == ("9", 1, 2)
    assert (whole.min_arrival_ms, whole.max_arrival_ms) == (1, 2)


def test_a_gap_that_the_next_slice_saw_too_is_told_once_and_stays_accepted() -> None:
    seen = replace(SLICE, gaps=(Gap(after("9"), accepted="ann"),))
    more = Slice("s", after("9"), after("12"), False, gaps=(Gap(after("9"), "11", 1, 2), Gap(after("11"))))
    assert seen.followed_by(more).gaps == (Gap(after("9"), "11", 1, 2, accepted="ann"), Gap(after("11")))


def test_a_gap_that_has_an_end_is_not_the_one_that_the_next_slice_saw_at_its_place() -> None:
    told = Gap(TRIM_HORIZON, reason="of any shard", until=TRIM_HORIZON)
    begun = Slice("s", TRIM_HORIZON, TRIM_HORIZON, False, gaps=(told,))
    seen = Gap(TRIM_HORIZON, "11")
    assert begun.followed_by(replace(begun, gaps=(seen,))).gaps == (told, seen)


def test_the_number_of_lost_records_is_kept_where_it_is_known() -> None:
    assert "records" not in Gap(after("9")).to_json()  # a row is stored as it always was
    gap = Gap(after("9"), records=3)
    assert Gap.from_json(gap.to_json()) == gap
