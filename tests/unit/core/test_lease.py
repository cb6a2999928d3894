# SPDX-License-Identifier: Apache-2.0
"""Leases: what each transition makes of a lease in each state, or that it refuses it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from shardbatch.core import lease as leases
from shardbatch.core.lease import Lease
from shardbatch.core.owner import ResetHolder
from shardbatch.core.position import LATEST, SHARD_END, TRIM_HORIZON, Position, after
from shardbatch.core.rows import Namespace
from shardbatch.core.shard import KeyRange, Shard
from shardbatch.core.slice import Gap, LandedFile, Slice
from shardbatch.errors import ProtocolError
from tests.support.transitions import Cell, cells, diagram, edges, public_functions, states_of

#: One line for each state, one column for each call: the state that it leads to, or "-" where it is refused. The calls
#: are those of "me", a run with batch "x", and of one reset; a name before "+" is the function's. Whether an owner is
#: over is asked elsewhere: the row lets anyone take or release it, claim takes only what has no owner or whose
#: owner is over.
#:
#: States are those of the protocol, with what matters here behind a hyphen.
#:
#: free       no owner, nothing pending            stamped    its slice is in batch "x"; -end: it is the shard's last
#: held       "me" has it; -theirs: another run    completed  all of the shard is committed
#: landed     and a slice is pending               reset      a reset has it; -landed and -ended: as it was before,
#: waiting    a slice is pending, no owner                    -moved: and has moved its checkpoint
#:
#: -gapped    a gap of the pending slice waits for a person
#: -cut       it is an interval's lease, and more is to be read of it; -whole: no more
READING = """
                take           renew          land      beyond   extend      stamp
free            held           -              -         -        -           -
held            held           held           landed    -        -           -
held-theirs     held           -              -         -        -           -
landed          landed         landed         -pending  held     -           stamped
landed-gapped   landed-gapped  landed-gapped  -pending  held     -           stamped
waiting         landed         -              -         free     -           -
waiting-gapped  landed-gapped  -              -         free     -           -
landed-cut      landed-cut     landed-cut     -pending  held     landed-cut  stamped
landed-whole    landed-whole   landed-whole   -pending  held     -ended      stamped-end
stamped         -              -              -         stamped  -           -
stamped-end     -              -              -         stamped  -           -
completed       -              -              -         -        -           -
reset           held           -              -         -        -           -
reset-landed    landed         -              -         reset    -           -
reset-ended     -              -              -         -        -           -
reset-moved     held           -              -         -        -           -
"""
SETTLING = """
                roll_forward  unstamp  unstamp+free  release         accept_gap  seize         seize+void    rewind
free            -             -        -             free            -           reset         reset         -
held            -             -        -             free            -           reset         reset         -
held-theirs     -             -        -             free            -           reset         reset         -
landed          -             -        -             waiting         -           reset-landed  reset-landed  -
landed-gapped   -             -        -             waiting-gapped  landed      reset-landed  reset-landed  -
waiting         -             -        -             waiting         -           reset-landed  reset-landed  -
waiting-gapped  -             -        -             waiting-gapped  waiting     reset-landed  reset-landed  -
landed-cut      -             -        -             waiting         -           reset-landed  reset-landed  -
landed-whole    -             -        -             waiting         -           reset-landed  reset-landed  -
stamped         free          landed   waiting       -               -           -             reset-landed  -
stamped-end     completed     landed   waiting       -               -           -             reset-landed  -
completed       -             -        -             completed       -           reset-ended   reset-ended   -
reset           -             -        -             free            -           reset         reset         reset-moved
reset-landed    -             -        -             waiting         -           reset-landed  reset-landed  reset-moved
reset-ended     -             -        -             completed       -           reset-ended   reset-ended   reset-moved
reset-moved     -             -        -             free            -           reset         reset         -
"""
#: What a refusal says, by function; where a function has several, by the word in the table.
REFUSALS = {
    "take": "only an open, unstamped lease can be taken",
    "renew": "only its owner renews an unstamped lease",
    "land": "only its owner lands on it, unstamped",
    "land-pending": "a slice is pending already",
    "extend": "only its owner goes on with an interval's slice, unstamped",
    "extend-ended": "it is another slice, or one that has ended",
    "stamp": "only its owner stamps a landed lease",
    "roll_forward": "it does not carry this batch",
    "unstamp": "it does not carry this batch",
    "release": "a stamped lease is not released",
    "accept_gap": "no gap waits on it",
    "seize": "a lease of a batch that may yet commit is not reset",
    "rewind": "only what the reset holds is reset",
}
#: Functions that make a row where there was none.
MAKING = {"add", "add_imported"}
#: The rule of each function in docs/protocol.md.
RULES = {
    "take": "L2",
    "renew": "L10",
    "land": "L3",
    "extend": "L9",
    "stamp": "L4",
    "roll_forward": "L5",
    "unstamp": "L6",
    "release": "L7",
    "accept_gap": "L11",
    "seize": "L12",
    "rewind": "L8",
}
#: What the row permits and the protocol does not have: its callers never do it.
NEVER = {
    ("free", "free", "L7"),  # there is no owner to remove
    ("waiting", "waiting", "L7"),
    ("completed", "completed", "L7"),
    ("reset", "held", "L2"),  # a reset is never over (E6)
    ("reset", "landed", "L2"),
}
#: Rows that are made and removed: no transition of a row.
MADE = {("*", "free", "L1"), ("*", "completed", "L1")}
REMOVED = {(state, "*", "L13") for state in ("free", "held", "landed", "waiting", "stamped", "completed", "reset")}

NAMESPACE = Namespace("etl", "orders")
SHARD = Shard("s", ("p",), KeyRange(0, 9))
SLICE = Slice("s", TRIM_HORIZON, after("9"), False, (LandedFile("p/0", 2, 30),), 2, 10, "9", 5, 6)
GAPPED = replace(SLICE, gaps=(Gap(after("3")),))
END = Slice("s", TRIM_HORIZON, SHARD_END, True)
TAKEN, REWOUND = str(ResetHolder("1")), str(ResetHolder("1", rewound=True))
NOW = 9


def added(scope: str = "") -> Lease:
    return leases.add(NAMESPACE, scope, SHARD, TRIM_HORIZON, 41, 1)


def taken(scope: str = "") -> Lease:
    return leases.take(added(scope), "me", "001", 2)


def landed(what: Slice = SLICE, scope: str = "") -> Lease:
    return leases.land(taken(scope), "me", what, 3, "file:///staging")


@pytest.fixture
def lease() -> Lease:
    return added()


def completed() -> Lease:
    return leases.roll_forward(leases.stamp(landed(END), "me", "x", 4), "x", 5)


STATES = {
    "free": added(),
    "held": taken(),
    "held-theirs": leases.take(added(), "other", "001", 2),
    "landed": landed(),
    "landed-gapped": landed(GAPPED),
    "waiting": leases.release(landed(), 4),
    "waiting-gapped": leases.release(landed(GAPPED), 4),
    "landed-cut": landed(scope="backfill"),
    "landed-whole": landed(END, "backfill"),
    "stamped": leases.stamp(landed(), "me", "x", 4),
    "stamped-end": leases.stamp(landed(END), "me", "x", 4),
    "completed": completed(),
    "reset": leases.seize(added(), TAKEN, None, 4),
    "reset-landed": leases.seize(landed(), TAKEN, None, 4),
    "reset-ended": leases.seize(completed(), TAKEN, None, 6),
    "reset-moved": leases.rewind(leases.seize(landed(), TAKEN, None, 4), TAKEN, after("1"), REWOUND, "note", 5),
}


def state_of(lease: Lease) -> str:
    """The name of a lease's state."""
    pending, gapped = lease.pending, "-gapped" if lease.waits_for_gap else ""
    if lease.batch_id is not None:
        return "stamped-end" if pending and pending.ended else "stamped"
    if lease.lease_owner == TAKEN:
        return "reset-landed" if pending else "reset-ended" if lease.completed else "reset"
    if lease.lease_owner is None:
        return f"waiting{gapped}" if pending else "completed" if lease.completed else "free"
    if lease.lease_owner != "me":
        return {REWOUND: "reset-moved", "other": "held-theirs"}[lease.lease_owner]
    if pending is None:
        return "held"
    return ("landed-whole" if pending.ended else "landed-cut") if lease.scope else f"landed{gapped}"


def more(place: Position) -> Slice:
    """What is read next of the shard."""
    return Slice("s", place, after("20"), False, (), 1, 5, "20")


def extend(row: Lease) -> Lease:
    begun = row.pending or SLICE
    return leases.extend(row, "me", begun, more(begun.until), NOW)


CALLS: dict[str, Callable[[Lease], Lease]] = {
    "take": lambda row: leases.take(row, "me", "001", NOW),
    "renew": lambda row: leases.renew(row, "me", NOW),
    "land": lambda row: leases.land(row, "me", more(row.checkpoint), NOW),
    "beyond": leases.beyond,
    "extend": extend,
    "stamp": lambda row: leases.stamp(row, "me", "x", NOW),
    "roll_forward": lambda row: leases.roll_forward(row, "x", NOW),
    "unstamp": lambda row: leases.unstamp(row, "x", NOW, free=False),
    "unstamp+free": lambda row: leases.unstamp(row, "x", NOW, free=True),
    "release": lambda row: leases.release(row, NOW),
    "accept_gap": lambda row: leases.accept_gap(row, "ann: known", NOW),
    "seize": lambda row: leases.seize(row, TAKEN, None, NOW),
    "seize+void": lambda row: leases.seize(row, TAKEN, "x", NOW),
    "rewind": lambda row: leases.rewind(row, TAKEN, after("1"), REWOUND, "ann: again", NOW),
}
CELLS = cells(READING) + cells(SETTLING)
ALLOWED = [cell for cell in CELLS if not cell.refused]
#: ``beyond`` shows a lease as a read sees it; every other function gives the row to be written.
WRITTEN = [cell for cell in ALLOWED if cell.call != "beyond"]


def test_the_table_has_a_column_for_every_transition_and_a_line_for_every_state() -> None:
    for table in (READING, SETTLING):
        assert states_of(table) == list(STATES)
    assert [state_of(lease) for lease in STATES.values()] == list(STATES)
    assert {cell.call for cell in CELLS} == set(CALLS)
    assert {cell.function for cell in CELLS} | MAKING == public_functions(leases)
    assert {cell.then for cell in ALLOWED} <= set(STATES)


def test_the_diagram_of_the_protocol_has_exactly_these_transitions() -> None:
    found = edges(WRITTEN, RULES, lambda state: state.partition("-")[0])
    assert found >= NEVER
    assert diagram("L") == found - NEVER | MADE | REMOVED


@pytest.mark.parametrize("cell", ALLOWED, ids=str)
def test_what_a_transition_makes_of_a_lease(cell: Cell) -> None:
    assert state_of(CALLS[cell.call](STATES[cell.state])) == cell.then


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell.refused], ids=str)
def test_what_a_transition_refuses(cell: Cell) -> None:
    if cell.call == "beyond":  # nothing is pending to look beyond
        with pytest.raises(AssertionError):
            leases.beyond(STATES[cell.state])
        return
    with pytest.raises(ProtocolError, match=REFUSALS[cell.function + cell.then.rstrip("-")]):
        CALLS[cell.call](STATES[cell.state])


@pytest.mark.parametrize("cell", WRITTEN, ids=str)
def test_what_no_transition_may_leave_out_or_touch(cell: Cell) -> None:
    row = STATES[cell.state]
    changed = CALLS[cell.call](row)
    assert (changed.key, changed.lease_count, changed.updated_at_ms) == (row.key, row.lease_count + 1, NOW)
    assert (changed.parent_shard_ids, changed.hash_range) == (row.parent_shard_ids, row.hash_range)
    if cell.function in ("take", "seize"):
        assert changed.tenure == changed.lease_count > row.tenure
    else:
        assert changed.tenure == row.tenure
    if changed.checkpoint != row.checkpoint:
        assert cell.function in ("roll_forward", "rewind")
    if row.pending and not changed.pending:
        assert cell.function in ("roll_forward", "rewind")
    if row.batch_id and not changed.batch_id:
        assert cell.call in ("roll_forward", "unstamp", "unstamp+free", "seize+void")
    if row.completed and not changed.completed:
        assert cell.function == "rewind"


def test_a_row_is_made_free_or_at_the_end_of_its_shard() -> None:
    assert state_of(added()) == "free"
    for place, state in ((after("5"), "free"), (SHARD_END, "completed")):
        made = leases.add_imported(NAMESPACE, SHARD, place, 41, 1, "of KCL")
        assert (state_of(made), made.checkpoint, made.note) == (state, place, "of KCL")


def test_a_lease_goes_round(lease: Lease) -> None:
    taken = leases.take(lease, "me", "001", 2)
    landed = leases.land(taken, "me", SLICE, 3)
    stamped = leases.stamp(landed, "me", "x", 4)
    moved = leases.roll_forward(stamped, "x", 5)
    assert [row.lease_count for row in (taken, landed, stamped, moved)] == [42, 43, 44, 45]
    assert (moved.checkpoint, moved.completed, moved.lease_owner, moved.pending) == (after("9"), False, None, None)
    assert moved.checkpoint_arrival_ms == SLICE.last_arrival_ms


def test_a_slice_that_ends_its_shard_completes_the_lease(lease: Lease) -> None:
    taken = leases.take(lease, "me", "001", 2)
    end = Slice("s", TRIM_HORIZON, SHARD_END, True)
    moved = leases.roll_forward(leases.stamp(leases.land(taken, "me", end, 3), "me", "x", 4), "x", 5)
    assert moved.completed
    assert moved.checkpoint == SHARD_END
    with pytest.raises(ProtocolError):
        leases.take(moved, "other", "001", 6)  # K-22


def test_a_slice_without_records_leaves_what_is_known_of_the_last_one(lease: Lease) -> None:
    known = replace(lease, checkpoint=after("9"), checkpoint_arrival_ms=7)
    end = Slice("s", after("9"), SHARD_END, True)
    landed = leases.land(leases.take(known, "me", "001", 2), "me", end, 3)
    assert leases.roll_forward(leases.stamp(landed, "me", "x", 4), "x", 5).checkpoint_arrival_ms == 7


def test_a_lease_that_is_given_back_unread_still_tells_when_its_tip_was_seen(lease: Lease) -> None:
    seen = replace(leases.take(lease, "me", "001", 2), caught_up_ms=5)
    assert leases.release(seen, 9).caught_up_ms == 5
    assert leases.release(seen, 9, caught_up_ms=8).caught_up_ms == 8


def test_only_the_owner_lands_and_only_once(lease: Lease) -> None:
    taken = leases.take(lease, "me", "001", 2)
    with pytest.raises(ProtocolError, match="owner"):
        leases.land(taken, "other", SLICE, 3)
    landed = leases.land(taken, "me", SLICE, 3)
    with pytest.raises(ProtocolError, match="pending"):
        leases.land(landed, "me", SLICE, 4)


def test_a_slice_that_does_not_begin_at_the_checkpoint_is_refused(lease: Lease) -> None:
    taken = leases.take(lease, "me", "001", 2)
    with pytest.raises(ProtocolError, match="does not fit"):
        leases.land(taken, "me", replace(SLICE, after=after("1")), 3)


@pytest.mark.parametrize(
    "until", [after("10"), SHARD_END, LATEST], ids=["past what was landed", "an end nobody saw", "a rule"]
)
def test_a_slice_that_ends_where_it_may_not_is_refused(lease: Lease, until: Position) -> None:
    taken = leases.take(lease, "me", "001", 2)
    with pytest.raises(ProtocolError, match="may not"):  # K-45
        leases.land(taken, "me", replace(SLICE, until=until), 3)


def test_a_stamped_lease_changes_only_as_its_batch_permits(lease: Lease) -> None:
    stamped = leases.stamp(leases.land(leases.take(lease, "me", "001", 2), "me", SLICE, 3), "me", "x", 4)
    for change in (
        lambda: leases.take(stamped, "other", None, 5),
        lambda: leases.release(stamped, 5),
        lambda: leases.rewind(stamped, "me", TRIM_HORIZON, "me too", "note", 5),
        lambda: leases.seize(stamped, "reset:1:taken", "y", 5),
        lambda: leases.accept_gap(stamped, "note", 5),
        lambda: leases.renew(stamped, "me", 5),
        lambda: leases.roll_forward(stamped, "y", 5),
        lambda: leases.unstamp(stamped, "y", 5, free=True),
    ):
        with pytest.raises(ProtocolError):
            change()
    undone = leases.unstamp(stamped, "x", 5, free=True)
    assert (undone.batch_id, undone.lease_owner, undone.pending) == (None, None, SLICE)
