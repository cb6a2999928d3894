# SPDX-License-Identifier: Apache-2.0
"""How archived slices of one shard, its live lease and the stream make up an interval (PROTOCOL H10, H11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from shardbatch.core import lease as leases
from shardbatch.core.archive_pieces import Archived, pieces
from shardbatch.core.archive_plan import Copy, FromStream, History, Hole, Over, Plan, Step
from shardbatch.core.expiry import Kept
from shardbatch.core.interval import CLOCKS_APART_MS, MARGIN_MS, Interval
from shardbatch.core.lease import Lease
from shardbatch.core.position import SHARD_END, TRIM_HORIZON, Position, after, at_timestamp
from shardbatch.core.rows import Namespace
from shardbatch.core.shard import Shard
from shardbatch.core.slice import Gap, LandedFile, Slice

HOUR = 3_600_000
NOW = 1_800_000_000_000
FROM, TO = NOW - 60 * HOUR, NOW - 50 * HOUR
SPAN = Interval(FROM, TO)
KEPT = Kept(24 * HOUR)
START = at_timestamp(SPAN.begin_ms)
FIRST: dict[str, Position] = {}


def landed(begin: Position, until: Position, first_ms: int | None, last_ms: int | None, **more: Any) -> Archived:
    """A slice of records 1, 2, 3, … in whose file the first stands behind ``begin``, or is that of ``first``."""
    number = more.pop("first", None)
    path = f"{begin}-{until}"
    FIRST[path] = after(str(number)) if number is not None else begin
    files = (LandedFile(path, 1, 1),) if first_ms is not None else ()
    made = Slice(
        "s",
        begin,
        until,
        ended=until == SHARD_END,
        files=files,
        records=len(files),
        first_arrival_ms=first_ms,
        last_arrival_ms=last_ms,
        min_arrival_ms=first_ms,
        max_arrival_ms=last_ms,
        gaps=tuple(more.pop("gaps", ())),
        tip_ms=more.pop("tip_ms", None),
        caught_up_ms=more.pop("caught_up_ms", None),
    )
    return Archived(more.pop("batch_id", "b"), more.pop("created_ms", NOW - 30 * HOUR), made)


def steps(slices: Sequence[Archived], start: Position = START, **more: Any) -> list[Step]:
    history = History(more.pop("kept", KEPT), slices=slices, **more)
    return Plan(history, SPAN, start, pieces(slices, lambda file: FIRST[file.path]), NOW).steps


def copied(found: list[Step]) -> list[tuple[int, int, int]]:
    return [step.hi for step in found if isinstance(step, Copy)]


def lease(checkpoint: Position, **more: Any) -> Lease:
    from dataclasses import replace

    made = leases.add(Namespace("etl", "orders"), "", Shard("s"), TRIM_HORIZON, 1, NOW)
    return replace(made, checkpoint=checkpoint, **more)


OLD = landed(after("10"), after("20"), FROM - 2 * HOUR, FROM - HOUR)
IN = landed(after("20"), after("30"), FROM + HOUR, TO - HOUR)
LATE = landed(after("30"), after("40"), TO + HOUR, TO + 2 * HOUR)


def test_slices_that_join_are_copied_up_to_a_record_a_minute_past_the_end() -> None:
    found = steps([LATE, OLD, IN, landed(after("40"), after("50"), TO + 3 * HOUR, TO + 4 * HOUR)])
    assert copied(found) == [(0, 20, 0), (0, 30, 0), (0, 40, 0)]
    assert found[-1] == Over()


@pytest.mark.parametrize("off", [-1, 0])
def test_it_begins_at_a_record_more_than_a_minute_older(off: int) -> None:
    first = landed(after("10"), after("30"), FROM - MARGIN_MS + off, TO)
    found = steps([first, LATE])
    assert isinstance(found[0], Copy) == (off < 0)
    assert isinstance(found[0], Hole) == (off == 0)


@pytest.mark.parametrize("off", [-1, 0])
def test_it_is_over_at_a_record_a_minute_past_the_end(off: int) -> None:
    found = steps([OLD, landed(after("20"), after("30"), FROM, TO + MARGIN_MS + off)])
    assert (found[-1] == Over()) == (off == 0)
    assert isinstance(found[-1], FromStream) == (off < 0)


def test_between_slices_that_do_not_join_is_a_hole() -> None:
    found = steps([OLD, landed(after("25"), after("30"), FROM + HOUR, TO - HOUR), LATE])
    assert [type(step) for step in found] == [Copy, Hole, Copy, Copy, Over]
    assert (found[1].from_ms, found[1].to_ms) == (FROM - HOUR, FROM + HOUR)  # type: ignore[union-attr]


def test_an_overlap_is_cut_by_sequence_and_sub_sequence_number() -> None:
    again = landed(after("25", 2), after("40"), FROM + 2 * HOUR, TO + HOUR)
    found = steps([OLD, landed(after("20"), after("25", 3), FROM + HOUR, FROM + HOUR), again])
    assert [(step.lo, step.hi) for step in found if isinstance(step, Copy)][1:] == [
        ((0, 20, 0), (0, 25, 3)),
        ((0, 25, 3), (0, 40, 0)),
    ]


def test_a_read_that_goes_on_begins_at_its_place() -> None:
    found = steps([OLD, IN, LATE], after("27", 1))
    assert [(step.lo, step.hi) for step in found if isinstance(step, Copy)] == [
        ((0, 27, 1), (0, 30, 0)),
        ((0, 30, 0), (0, 40, 0)),
    ]


def test_a_recorded_gap_divides_a_slice() -> None:
    gap = Gap(after("24"), "27", FROM + 2 * HOUR, FROM + 3 * HOUR, "expired")
    found = steps([OLD, landed(after("20"), after("30"), FROM + HOUR, TO - HOUR, gaps=[gap], batch_id="g"), LATE])
    assert copied(found) == [(0, 20, 0), (0, 24, 0), (0, 30, 0), (0, 40, 0)]
    (hole,) = [step for step in found if isinstance(step, Hole)]
    assert hole == Hole(FROM + 2 * HOUR, FROM + 3 * HOUR, "a gap that batch g recorded: expired")


def test_a_gap_of_which_no_end_is_known_is_not_hidden_by_the_slice_behind_it() -> None:
    gap = Gap(after("20"), None, FROM - HOUR, None, "expired")
    empty = landed(after("20"), after("20"), None, None, gaps=[gap], tip_ms=FROM + HOUR, batch_id="g")
    found = steps([OLD, empty, landed(after("20"), after("30"), FROM + HOUR, TO, first="25"), LATE])
    assert [type(step) for step in found] == [Copy, Hole, Copy, Copy, Over]
    assert found[1] == Hole(FROM - HOUR, FROM + HOUR, "a gap that batch g recorded: expired")


@pytest.mark.parametrize("turned", [False, True])
def test_of_two_such_gaps_at_one_place_the_later_look_counts(turned: bool) -> None:
    gap = Gap(after("20"), None, FROM - HOUR, None, "expired")
    found = [
        landed(after("20"), after("20"), None, None, gaps=[gap], tip_ms=tip_ms) for tip_ms in (FROM - HOUR, TO - HOUR)
    ]
    told = steps([OLD, *(found[::-1] if turned else found)], lease=lease(after("20"), committed_to=f"{NOW}@20"))
    assert any(isinstance(step, Hole) for step in told)


def test_such_a_gap_that_a_look_before_the_interval_ended_is_not_wanted() -> None:
    gap = Gap(after("20"), None, FROM - 9 * HOUR, None, "expired")
    empty = landed(after("20"), after("20"), None, None, gaps=[gap], tip_ms=FROM - 2 * MARGIN_MS)
    found = steps([OLD, empty], lease=lease(after("20"), committed_to=f"{TO + MARGIN_MS}@20"))
    assert [type(step) for step in found] == [Copy, Over]


def test_a_slice_from_an_instant_covers_from_its_first_record_on() -> None:
    again = landed(at_timestamp(FROM - HOUR), after("40"), FROM + 2 * HOUR, TO + HOUR, first=27)
    found = steps([OLD, landed(after("20"), after("24"), FROM + HOUR, FROM + HOUR), again])
    assert any(isinstance(step, Hole) for step in found), "what lies between 24 and 27 was never read"
    found = steps([OLD, landed(after("20"), after("27"), FROM + HOUR, FROM + HOUR), again])
    assert not any(isinstance(step, Hole) for step in found)


@pytest.mark.parametrize("began_ms", [FROM - CLOCKS_APART_MS, FROM - CLOCKS_APART_MS + 1, None])
def test_the_oldest_record_is_a_beginning_while_no_one_reset_an_application_that_was_at_work(
    began_ms: int | None,
) -> None:
    first = landed(TRIM_HORIZON, after("30"), FROM + HOUR, TO + HOUR, first=25)
    found = steps([first], began_ms=began_ms)
    assert isinstance(found[0], Copy) == (began_ms == FROM - CLOCKS_APART_MS)


@pytest.mark.parametrize("ahead", [0, 1])
def test_an_instant_is_a_beginning_if_it_is_not_after_the_interval(ahead: int) -> None:
    first = landed(at_timestamp(FROM + ahead), after("30"), FROM + HOUR, TO + HOUR, first=25)
    assert isinstance(steps([first], began_ms=NOW)[0], Copy) == (ahead == 0)
    assert isinstance(steps([first], began_ms=None)[0], Hole), "a reset may have sent it there"


def test_what_the_stream_still_had_when_it_was_read_is_whole_whatever_a_reset_did() -> None:
    first = landed(TRIM_HORIZON, after("30"), FROM + HOUR, TO + HOUR, first=25, created_ms=FROM + 20 * HOUR)
    assert isinstance(steps([first])[0], Copy)
    later = Kept(24 * HOUR, gone_before_ms=FROM)
    assert isinstance(steps([first], kept=later)[0], Hole), "the retention was changed since"


def test_what_an_instant_left_out_is_lacking_although_the_stream_had_it_then() -> None:
    begun = landed(at_timestamp(FROM + HOUR), SHARD_END, None, None, created_ms=FROM + 2 * HOUR)
    (step,) = steps([begun], began_ms=FROM - 9 * HOUR)
    assert isinstance(step, FromStream)
    assert step.doubt is not None
    first = landed(at_timestamp(FROM + HOUR), after("30"), FROM + 2 * HOUR, TO, first=25, created_ms=FROM + 3 * HOUR)
    assert isinstance(steps([first], began_ms=FROM - 9 * HOUR)[0], Hole)


def test_a_slice_of_version_0_1_0_proves_nothing_by_where_it_began() -> None:
    from dataclasses import replace

    first = landed(TRIM_HORIZON, after("30"), FROM + HOUR, TO + HOUR, first=25)
    older = replace(first, slice=replace(first.slice, min_arrival_ms=None, max_arrival_ms=None))
    assert isinstance(steps([first], began_ms=NOW - 90 * HOUR)[0], Copy)
    assert isinstance(steps([older], began_ms=NOW - 90 * HOUR)[0], Hole)


def test_the_live_leases_last_record_shows_where_it_begins() -> None:
    found = steps([], lease=lease(after("20"), checkpoint_arrival_ms=FROM - 2 * MARGIN_MS))
    assert isinstance(found[0], FromStream)
    assert found[0].lo == (0, 20, 0)
    done = steps([], lease=lease(SHARD_END, completed=True, checkpoint_arrival_ms=FROM - 2 * MARGIN_MS))
    assert done == [Over(ended=True)]
    unsure = steps([], lease=lease(SHARD_END, completed=True, checkpoint_arrival_ms=FROM - MARGIN_MS))
    assert isinstance(unsure[0], FromStream)
    assert unsure[0].doubt is not None


def test_what_the_live_lease_saw_of_the_tip_ends_it_only_at_its_checkpoint() -> None:
    seen = lease(after("30"), committed_to=f"{TO + MARGIN_MS}@30")
    assert steps([OLD, IN], lease=seen)[-1] == Over()
    away = lease(after("35"), committed_to=f"{TO + MARGIN_MS}@35")
    assert isinstance(steps([OLD, IN], lease=away)[-1], FromStream)


def test_a_tip_that_the_last_slice_saw_ends_it() -> None:
    last = landed(after("20"), after("30"), FROM + HOUR, FROM + HOUR, tip_ms=TO + MARGIN_MS)
    assert steps([OLD, last])[-1] == Over()
    early = landed(after("20"), after("30"), FROM + HOUR, FROM + HOUR, tip_ms=TO + MARGIN_MS - 1)
    assert isinstance(steps([OLD, early])[-1], FromStream)


def test_an_idle_shard_goes_on_in_the_stream_with_the_look_that_the_application_took() -> None:
    looked = lease(after("30"), caught_up_ms=NOW - HOUR)
    (last,) = [step for step in steps([OLD, IN], lease=looked) if isinstance(step, FromStream)]
    assert (last.lo, last.looked_ms, last.doubt) == ((0, 30, 0), NOW - HOUR, None)
    wrong = lease(after("30"), caught_up_ms=NOW + 2 * CLOCKS_APART_MS)
    (last,) = [step for step in steps([OLD, IN], lease=wrong) if isinstance(step, FromStream)]
    assert last.looked_ms is None


def test_a_shard_is_left_out_whose_parents_had_later_or_whose_children_had_earlier_records() -> None:
    assert steps([], born_ms=TO + MARGIN_MS) == [Over()]
    assert steps([], died_ms=FROM - MARGIN_MS - 1) == [Over()]
    assert isinstance(steps([], born_ms=TO + MARGIN_MS - 1)[0], FromStream)
    assert isinstance(steps([], died_ms=FROM - MARGIN_MS)[0], FromStream)


def test_a_shard_without_records_is_known_by_looks_at_its_tip_unless_a_gap_was_recorded() -> None:
    empty = lease(TRIM_HORIZON, caught_up_ms=NOW - HOUR, millis_behind_latest=0)
    assert steps([], lease=empty, began_ms=NOW - 90 * HOUR) == [FromStream(looked_ms=NOW - HOUR)]
    gap = Gap(TRIM_HORIZON, None, FROM - HOUR, None, "expired")
    told = landed(TRIM_HORIZON, TRIM_HORIZON, None, None, gaps=[gap], tip_ms=FROM + HOUR, batch_id="g")
    (step,) = steps([told], lease=empty, began_ms=NOW - 90 * HOUR)
    assert isinstance(step, FromStream)
    assert step.doubt is not None
    assert "batch g recorded" in step.doubt.reason


def test_where_the_stream_has_what_follows_it_is_read_there_and_not_in_a_later_slice() -> None:
    young = landed(after("35"), after("40"), NOW - 3 * HOUR, NOW - 2 * HOUR)
    recent = landed(after("20"), after("30"), FROM + HOUR, NOW - 10 * HOUR)
    far = Interval(FROM, NOW - HOUR)
    made = [OLD, recent, young]
    plan = Plan(History(KEPT, slices=made), far, START, pieces(made, lambda file: FIRST[file.path]), NOW)
    assert plan.steps[-1] == FromStream((0, 30, 0))
