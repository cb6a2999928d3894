# SPDX-License-Identifier: Apache-2.0
"""Batches: what each transition makes of a batch in each state, or that it refuses it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from shardbatch.core import batch as batches
from shardbatch.core.batch import DROPPED, DUE, KEPT, Batch, BatchState
from shardbatch.core.rows import Namespace
from shardbatch.core.start import Start
from shardbatch.errors import ProtocolError
from tests.support.transitions import Cell, cells, diagram, edges, public_functions, states_of

#: One line for each state, one column for each call: the state that it leads to, or "-" where it is refused. A name
#: before "+" is the function's.
#:
#: due, sent, quiet  it is committed, and its event waits for a commit, has been sent, or is not owed
#: interval          it is an interval run's and is committed; withdrawn: and was taken back
#: retired           its archive time is over
#: kept, dropped     it was set aside: it is decided without output, its slices are kept for a replay, or not any more
WORKING = """
           adopt   disown  open_attempt  open_replay  heartbeat  close_attempt
frozen     frozen  frozen  frozen        -            frozen     frozen
parked     -       -       -             -            -          parked
void       -       -       -             -            -          void
due        -       -       due           due          due        due
sent       -       -       sent          sent         sent       sent
quiet      -       -       quiet         quiet        quiet      quiet
interval   -       -       interval      interval     interval   interval
withdrawn  -       -       withdrawn     withdrawn    withdrawn  withdrawn
kept       -       -       kept          kept         kept       kept
dropped    -       -       dropped       dropped      dropped    dropped
retired    -       -       -             -            retired    retired
"""
DECIDING = """
           decide  send_event  redecide  redecide+again  withdraw   park    unpark  discard  set_aside  drop     retire
frozen     due     -           -         -               -          parked  -       void     kept       -        -
parked     -       -           -         -               -          -       frozen  void     kept       -        -
void       -       -           -         -               -          -       -       -        -          -        -
due        -       sent        due       -               -          -       -       -        -          -        retired
sent       -       sent        sent      -               -          -       -       -        -          -        retired
quiet      -       -           quiet     -               -          -       -       -        -          -        retired
interval   -       interval    interval  -               withdrawn  -       -       -        -          -        retired
withdrawn  -       withdrawn   interval  -               withdrawn  -       -       -        -          -        retired
kept       -       -           quiet     -               -          -       -       -        -          dropped  -
dropped    -       -           quiet     -               -          -       -       -        -          -        retired
retired    -       retired     -         -               -          -       -       -        -          -        -
"""
#: What a refusal says, by function.
REFUSALS = {
    "adopt": "only a frozen batch is adopted",
    "disown": "only a frozen batch is released",
    "open_attempt": "no attempt can be opened",
    "open_replay": "only a committed batch is replayed",
    "heartbeat": "it is neither frozen nor committed",
    "decide": "only a frozen batch is committed",
    "send_event": "no event of it is due",
    "redecide": "a replay only goes upwards",
    "withdraw": "only a committed interval is taken back",
    "park": "only a frozen batch is parked",
    "unpark": "only a parked batch is resumed",
    "discard": "only an undecided batch is discarded",
    "set_aside": "only an undecided batch is set aside",
    "drop": "only a batch that is kept aside is dropped",
    "retire": "only a committed batch that is not kept aside is retired, once",
}
#: Functions that make a row where there was none.
MAKING = {"void"}
#: The rule of each function in docs/protocol.md.
RULES = {
    "adopt": "B3",
    "disown": "B15",
    "open_attempt": "B13",
    "open_replay": "B10",
    "heartbeat": "B7",
    "close_attempt": "B14",
    "decide": "B4",
    "send_event": "B12",
    "redecide": "B8",
    "withdraw": "B11",
    "park": "B5",
    "unpark": "B5",
    "discard": "B6",
    "set_aside": "B9",
    "drop": "B16",
    "retire": "B17",
}
#: Rows that are made: no transition of a row.
MADE = {("*", "FROZEN", "B1"), ("*", "VOID", "B2")}

NAMESPACE = Namespace("etl", "orders")
FROZEN = Batch(NAMESPACE, "", "x", "me", 5, BatchState.FROZEN, attempt=1, records=2, manifest_uri="u")
STARTS = (Start("s1", 1, "transform", ("out",)),)
NOTE, NOW = "ann: bad data", 9


def decided(**changes: object) -> Batch:
    return batches.decide(replace(FROZEN, **changes), STARTS, 1, 7, roots=("out",), number=3)  # type: ignore[arg-type]


STATES = {
    "frozen": FROZEN,
    "parked": batches.park(FROZEN, NOTE),
    "void": batches.discard(FROZEN, NOTE),
    "due": decided(),
    "sent": batches.send_event(decided(), "run/0/7", 8),
    "quiet": decided(records=0),
    "interval": decided(scope="backfill", from_ms=1, to_ms=2),
    "withdrawn": batches.withdraw(decided(scope="backfill", from_ms=1, to_ms=2), NOTE, ("out",), 8),
    "kept": batches.set_aside(FROZEN, NOTE, 7),
    "dropped": batches.drop(batches.set_aside(FROZEN, NOTE, 7), NOTE),
    "retired": batches.retire(decided(), NOTE, 8),
}


def state_of(batch: Batch) -> str:
    """The name of a batch's state."""
    if batch.state is not BatchState.COMMITTED:
        return batch.state.value.lower()
    if batch.retired_ms is not None:
        return "retired"
    if batch.interval:
        return "interval" if batch.set_aside is None else "withdrawn"
    if batch.set_aside is not None:
        return {KEPT: "kept", DROPPED: "dropped"}[batch.set_aside]
    return "quiet" if batch.event is None else "due" if batch.event == DUE else "sent"


CALLS: dict[str, Callable[[Batch], Batch]] = {
    "adopt": lambda row: batches.adopt(row, "other"),
    "disown": lambda row: batches.disown(row, NOTE),
    "open_attempt": lambda row: batches.open_attempt(row, NOW, "claim"),
    "open_replay": lambda row: batches.open_replay(row, "other", NOW, "claim"),
    "heartbeat": lambda row: batches.heartbeat(row, NOW, "local-1", "transform"),
    "close_attempt": lambda row: batches.close_attempt(row, row.attempt),
    "decide": lambda row: batches.decide(row, STARTS, row.attempt, NOW, NOTE, roots=("out",)),
    "send_event": lambda row: batches.send_event(row, "run/1/7", NOW),
    "redecide": lambda row: batches.redecide(row, STARTS, row.decided + 1, NOTE, roots=("out",)),
    "redecide+again": lambda row: batches.redecide(row, STARTS, row.decided, NOTE, roots=("out",)),
    "withdraw": lambda row: batches.withdraw(row, NOTE, ("out",), NOW),
    "park": lambda row: batches.park(row, NOTE),
    "unpark": lambda row: batches.unpark(row, NOTE),
    "discard": lambda row: batches.discard(row, NOTE),
    "set_aside": lambda row: batches.set_aside(row, NOTE, NOW),
    "drop": lambda row: batches.drop(row, NOTE),
    "retire": lambda row: batches.retire(row, NOTE, NOW),
}
CELLS = cells(WORKING) + cells(DECIDING)
ALLOWED = [cell for cell in CELLS if not cell.refused]


@pytest.fixture
def frozen() -> Batch:
    return FROZEN


def test_the_table_has_a_column_for_every_transition_and_a_line_for_every_state() -> None:
    for table in (WORKING, DECIDING):
        assert states_of(table) == list(STATES)
    assert [state_of(batch) for batch in STATES.values()] == list(STATES)
    assert {batch.state for batch in STATES.values()} == set(BatchState)
    assert {cell.call for cell in CELLS} == set(CALLS)
    assert {cell.function for cell in CELLS} | MAKING == public_functions(batches)
    assert {cell.then for cell in ALLOWED} <= set(STATES)


def test_the_diagram_of_the_protocol_has_exactly_these_transitions() -> None:
    assert diagram("B") == edges(ALLOWED, RULES, lambda state: STATES[state].state.value) | MADE


@pytest.mark.parametrize("cell", ALLOWED, ids=str)
def test_what_a_transition_makes_of_a_batch(cell: Cell) -> None:
    assert state_of(CALLS[cell.call](STATES[cell.state])) == cell.then


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell.refused], ids=str)
def test_what_a_transition_refuses(cell: Cell) -> None:
    with pytest.raises(ProtocolError, match=REFUSALS[cell.function]):
        CALLS[cell.call](STATES[cell.state])


@pytest.mark.parametrize("cell", ALLOWED, ids=str)
def test_what_no_transition_may_leave_out_or_touch(cell: Cell) -> None:
    row = STATES[cell.state]
    changed = CALLS[cell.call](row)
    assert (changed.key, changed.row_count) == (row.key, row.row_count + 1)
    assert (changed.manifest_uri, changed.records, changed.sink) == (row.manifest_uri, row.records, row.sink)
    assert changed.attempt >= row.attempt
    assert changed.decided >= row.decided
    if row.state in (BatchState.COMMITTED, BatchState.VOID):
        assert changed.state is row.state
    if changed.owner != row.owner:
        assert cell.function in ("adopt", "disown", "open_replay")
    if changed.starts != row.starts:
        assert cell.function in ("decide", "redecide", "withdraw")
    if cell.function not in ("open_attempt", "open_replay", "heartbeat", "close_attempt", "adopt", "send_event"):
        assert NOTE in (changed.note or "")


def test_a_batch_that_was_stamped_and_never_created_is_void() -> None:
    made = batches.void(NAMESPACE, "", "x", 41, NOW)
    assert (state_of(made), made.owner, made.row_count, made.created_at_ms) == ("void", "", 41, NOW)
    assert not made.possible_orphan
    assert STATES["void"].possible_orphan  # it has records, which its application may have written


def test_a_decision_is_final(frozen: Batch) -> None:
    done = batches.decide(frozen, (Start("s1", 1, "t"),), 1, 9)
    assert (done.state, done.decided, done.committed_at_ms) == (BatchState.COMMITTED, 1, 9)
    for change in (
        lambda: batches.decide(done, (), 1, 9),
        lambda: batches.park(done, "n"),
        lambda: batches.discard(done, "n"),
        lambda: batches.adopt(done, "other"),
        lambda: batches.redecide(done, (), 1),
    ):
        with pytest.raises(ProtocolError):
            change()
    assert batches.redecide(done, (Start("s2", 2, "t"),), 2).decided == 2


def test_a_batch_with_records_owes_an_event_from_its_decision_on(frozen: Batch) -> None:
    with pytest.raises(ProtocolError, match="no event"):
        batches.send_event(frozen, "run/0/7", 9)
    done = batches.decide(frozen, (Start("s1", 1, "t"),), 1, 9)
    assert (done.event, done.event_ms) == (batches.DUE, None)
    again = batches.redecide(done, (Start("s2", 2, "t"),), 2)
    assert again.event == batches.DUE
    sent = batches.send_event(again, "run/0/7", 10)
    assert (sent.event, sent.event_ms) == ("run/0/7", 10)
    assert batches.redecide(sent, (), 3).event == "run/0/7"
    empty = batches.decide(replace(frozen, records=0), (), 1, 9)
    for none in (empty, batches.set_aside(frozen, "by jo: bad data", 9)):
        with pytest.raises(ProtocolError, match="no event"):
            batches.send_event(none, "run/0/7", 10)


def test_a_row_names_the_claim_that_froze_it_and_the_latest_ones(frozen: Batch) -> None:
    batch = replace(frozen, claims=("first",))
    assert batches.open_attempt(batch, 1, "first").claims == batches.open_attempt(batch, 1).claims == ("first",)
    for number in range(batches.MOST_CLAIMS + 5):
        batch = batches.open_attempt(batch, 1, f"c{number}")
    assert len(batch.claims) == batches.MOST_CLAIMS
    assert (batch.claims[0], batch.claims[-1]) == ("first", f"c{batches.MOST_CLAIMS + 4}")
    done = batches.decide(batch, (), batch.attempt, 2)
    assert batches.open_replay(done, "other", 3, "theirs").claims[-1] == "theirs"


def test_a_set_aside_batch_gets_output_only_from_a_later_attempt(frozen: Batch) -> None:
    aside = batches.set_aside(frozen, "by jo: bad data", 9)
    assert (aside.starts, aside.decided) == ((), frozen.attempt)
    with pytest.raises(ProtocolError, match="upwards"):
        batches.redecide(aside, (Start("s1", 1, "t"),), 1)  # V24


def test_an_attempt_of_which_one_task_has_ended_is_alive_while_another_shows_life(frozen: Batch) -> None:
    ended = batches.close_attempt(batches.heartbeat(frozen, 3, "client:h:1", "one"), 1)
    assert ended.attempt_closed == 1
    assert batches.heartbeat(ended, 4, "client:h:2", "two").attempt_closed == 0


def test_an_application_recorded_by_an_attempt_is_told_from_a_newer_attempts(frozen: Batch) -> None:
    beating = batches.heartbeat(frozen, 3, "local-17:99")
    assert beating.spark_application == (1, "local-17:99")
    reopened = batches.open_attempt(beating, 4)
    assert (reopened.attempt, reopened.spark_application) == (2, (1, "local-17:99"))
