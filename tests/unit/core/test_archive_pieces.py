# SPDX-License-Identifier: Apache-2.0
"""The parts of archived slices that have no gap (PROTOCOL H10)."""

from __future__ import annotations

from typing import Any

from shardbatch.core.archive_pieces import LAST, Archived, at, pieces, place_of
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, Position, after
from shardbatch.core.slice import Gap, LandedFile, Slice


def landed(begin: Position, until: Position, *gaps: Gap, records: int = 1, **more: Any) -> Archived:
    files = (LandedFile("part", records, 1),) if records else ()
    times = {"first_arrival_ms": 1000, "last_arrival_ms": 9000} if records else {}
    ended = until == SHARD_END
    return Archived("b", 1, Slice("s", begin, until, ended, files, records, gaps=gaps, **{**times, **more}))


def spans(*found: Archived, first: Position | None = None) -> list[tuple[Any, Any, int | None, int | None]]:
    """Of each piece its ends, and when its first and last record arrived."""
    made = pieces(found, lambda file: first or after("0"))
    return [(piece.lo, piece.hi, piece.begins_ms, piece.ends_ms) for piece in made]


def test_a_place_is_told_by_numbers_and_back() -> None:
    for place in (after("12"), after("12", 3), SHARD_END):
        assert place_of(at(place)) == place
    assert at(after("9")) < at(after("10")) < at(after("10", 1)) < LAST < at(SHARD_END)


def test_a_slice_between_places_is_one_piece() -> None:
    assert spans(landed(after("5"), after("9", 2))) == [((0, 5, 0), (0, 9, 2), 1000, 9000)]


def test_a_slice_from_the_oldest_record_begins_before_its_first_record_and_is_an_origin() -> None:
    (piece,) = pieces([landed(TRIM_HORIZON, after("9"))], lambda file: after("7"))
    assert (piece.lo, piece.hi, piece.origin) == ((0, 7, -1), (0, 9, 0), True)


def test_gaps_divide_it_and_tell_when_the_records_beside_them_arrived() -> None:
    gaps = Gap(after("6"), "8", 3000, 4000), Gap(after("9"), "11", 5000, 6000)
    assert spans(landed(after("5"), after("12"), *gaps)) == [
        ((0, 5, 0), (0, 6, 0), 1000, 3000),
        ((0, 8, -1), (0, 9, 0), 4000, 5000),
        ((0, 11, -1), (0, 12, 0), 6000, 9000),
    ]


def test_a_gap_at_its_beginning_leaves_no_piece_before_it_and_no_origin() -> None:
    (piece,) = pieces([landed(TRIM_HORIZON, after("12"), Gap(TRIM_HORIZON, "8", None, 4000))], lambda file: after("8"))
    assert (piece.lo, piece.origin, piece.begins_ms) == ((0, 8, -1), False, 4000)


def test_what_a_person_passed_over_lies_before_it() -> None:
    gap = Gap(after("2"), None, 1, 2, "passed over", "ann", until=after("5"))
    assert spans(landed(after("5"), after("9"), gap)) == [((0, 5, 0), (0, 9, 0), 1000, 9000)]


def test_behind_a_gap_that_never_ended_the_next_slice_begins_at_its_first_record() -> None:
    lost = landed(after("9"), after("9"), Gap(after("9"), None, 9000), records=0)
    assert spans(lost, landed(after("9"), after("15")), first=after("12")) == [((0, 12, -1), (0, 15, 0), 1000, 9000)]


def test_a_shard_that_ended_with_a_gap_has_only_its_end() -> None:
    lost = landed(after("9"), SHARD_END, Gap(after("9"), None, 9000), records=0)
    assert spans(lost) == [(LAST, at(SHARD_END), None, None)]


def test_a_shard_without_records_has_only_its_end() -> None:
    assert spans(landed(TRIM_HORIZON, SHARD_END, records=0)) == [(LAST, at(SHARD_END), None, None)]


def test_a_search_for_an_instant_that_found_no_record_covers_nothing() -> None:
    assert spans(landed(TRIM_HORIZON, after("5", instant_ms=7), records=0)) == []
